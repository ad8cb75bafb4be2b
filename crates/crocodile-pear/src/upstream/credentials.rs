//! How the gateway authenticates to an upstream: an OAuth 2.0 access token, fetched with client credentials (RFC
//! 6749, 4.4), for all calls and all cores.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::Instant;

use super::attempt::retry_loop::ReadyCall;
use super::call::UpstreamCall;
use super::connect::resolve::Resolver;
use super::environment::UpstreamEnvironment;
use super::remote::Remote;
use super::servers::Servers;
use crate::config::carried_state::MarkedFiles;
use crate::config::problem::Problems;
use crate::config::spec::{Entries, Json, Located, Marked, Secret};
use crate::error::{Error, Kind};
use crate::message::answer::Answer;
use crate::net::tls::TlsSpec;
use crate::net::url::warn_of_clear;
use crate::spec;
use crate::telemetry::log_limiter::LogLimiter;

spec! {
    /// The gateway's own credentials for calls to an upstream.
    pub struct CredentialsSpec {
        /// An access token from OAuth 2.0 client credentials.
        pub oauth2: Oauth2Spec,
    }
}

spec! {
    /// OAuth 2.0 client credentials (RFC 6749, 4.4). The gateway fetches the token when it first needs one, once for
    /// all calls, and again before it expires. If a call gets 401, the gateway repeats it once with a new token.
    pub struct Oauth2Spec {
        /// The token endpoint.
        pub token_url: Located<String>,
        /// The gateway's client ID.
        pub client_id: String,
        /// The gateway's client secret.
        pub client_secret: Secret,
        /// The scopes to request, separated by spaces.
        pub scope: Option<String>,
        /// More parameters for the token request, such as `audience` or `resource`.
        pub parameters: Option<Entries<String>>,
        /// How to send the client ID and the secret.
        pub send: SendSpec = SendSpec::Basic,
        /// Timeout for the answer of the token endpoint.
        pub timeout: Duration = Duration::from_secs(5),
        /// TLS to the token endpoint: CAs to trust, client certificate, versions.
        pub tls: Option<TlsSpec>,
    }
}

crate::choice! {
    /// How a client id and a secret are sent (RFC 6749, 2.3.1).
    pub enum SendSpec {
        /// Sends them as HTTP basic authentication.
        Basic = "basic",
        /// Sends them as `client_id` and `client_secret` in the form.
        Form = "form",
    }
}

impl CredentialsSpec {
    /// Makes them ready. A token that was fetched for the same credentials is used on.
    pub(super) fn compile_marked(
        marked: &Marked<Self>,
        given: &UpstreamEnvironment<'_>,
        problems: &mut Problems,
    ) -> Option<Arc<ClientCredentials>> {
        let reading = MarkedFiles::new(given.files);
        let files = |written: &_| reading.read(written);
        let credentials = marked.spec.compile(&UpstreamEnvironment { files: &files, ..given.clone() }, problems)?;
        let whole = (marked.mark, reading.mark(), given.resolver.as_ref().map(Resolver::mark));
        Some(given.carry.part(whole).settle(credentials))
    }

    /// Makes it ready; every problem is noted.
    pub(super) fn compile(
        &self,
        given: &UpstreamEnvironment<'_>,
        problems: &mut Problems,
    ) -> Option<Arc<ClientCredentials>> {
        let spec = &self.oauth2;
        let tls = spec.tls.as_ref();
        let remote = Remote::compile("token endpoint", &spec.token_url, tls, spec.timeout, given, problems)?;
        warn_of_clear(&spec.token_url, "the client secret and the access token go", problems);
        let mut fields = vec![("grant_type", "client_credentials")];
        fields.extend(spec.scope.as_deref().map(|scope| ("scope", scope)));
        for (name, (span, value)) in spec.parameters.iter().flatten() {
            if ["grant_type", "scope", "client_id", "client_secret"].contains(&name.as_str()) {
                return problems.error(*span, format!("`{name}` is not set here"), "leave it out");
            }
            fields.push((name, value));
        }
        let authorization = match spec.send {
            SendSpec::Basic => client_basic(&spec.client_id, &spec.client_secret),
            SendSpec::Form => {
                fields.push(("client_id", &spec.client_id));
                fields.push(("client_secret", spec.client_secret.expose()));
                None
            }
        };
        Some(Arc::new(ClientCredentials {
            remote,
            form: form(&fields),
            authorization,
            token: RwLock::default(),
            turn: Arc::default(),
            failed: Mutex::default(),
            futile: Mutex::default(),
            limiter: LogLimiter::every(Duration::from_secs(1)),
        }))
    }
}

/// A client id and its secret as HTTP basic authentication (RFC 6749, 2.3.1: each is encoded as in a form).
pub fn client_basic(id: &str, secret: &Secret) -> Option<HeaderValue> {
    let text = format!("{}:{}", encode(id), encode(secret.expose()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(text))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The fields of a form, encoded.
pub fn form(fields: &[(&str, &str)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    fields.join("&")
}

fn encode(text: &str) -> String {
    const OTHERS: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, &OTHERS).to_string()
}

/// After a failure, all calls get the same error for this long, so that they do not overload the token endpoint.
const PAUSE: Duration = Duration::from_secs(1);

/// If a new token did not help against 401, no other is fetched because of 401 for this long.
const FUTILE: Duration = Duration::from_secs(10);

/// How long before its end a token is replaced: this, or a fifth of its lifetime if that is less.
const EARLY: Duration = Duration::from_secs(60);

/// The tokens of one upstream.
pub struct ClientCredentials {
    remote: Remote,
    form: String,
    authorization: Option<HeaderValue>,
    token: RwLock<Option<Arc<Token>>>,
    /// Held by the one call that fetches a token.
    turn: Arc<tokio::sync::Mutex<()>>,
    failed: Mutex<Option<(Instant, Error)>>,
    futile: Mutex<Option<Instant>>,
    limiter: LogLimiter,
}

struct Token {
    /// The `authorization` field.
    field: HeaderValue,
    /// When to fetch the next one, and when this one expires; `None` if that is not known.
    times: Option<(Instant, Instant)>,
}

impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCredentials(***)")
    }
}

impl ClientCredentials {
    /// Makes a call with a token. If the answer is 401, makes it again with a new token.
    pub(super) async fn call(
        self: Arc<Self>,
        servers: Arc<Servers>,
        mut call: Box<UpstreamCall>,
    ) -> Result<Answer, Error> {
        let ours = |error: Error| error.of_upstream(&servers.name);
        let token = self.token().await.map_err(ours)?;
        let second = call.repeat();
        call.headers.insert(AUTHORIZATION, token.field.clone());
        let answer = ReadyCall::new(&servers, call)?.send().await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let Some((new, mut call)) = self.renew(&token).await.zip(second) else { return Ok(answer) };
        drop(answer);
        call.headers.insert(AUTHORIZATION, new.field.clone());
        let answer = ReadyCall::new(&servers, Box::new(call))?.send().await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            *self.futile.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        Ok(answer)
    }

    /// A token that is good now.
    async fn token(self: &Arc<Self>) -> Result<Arc<Token>, Error> {
        match self.current() {
            Some(token) if !token.is_old() => return Ok(token),
            Some(token) if !token.is_over() => {
                // This call need not wait for the next one.
                if let Ok(turn) = self.turn.clone().try_lock_owned() {
                    let own = self.clone();
                    tokio::spawn(async move {
                        let _turn = turn;
                        // A failure is logged, and tried again.
                        let _ = own.fetch().await;
                    });
                }
                return Ok(token);
            }
            _ => {}
        }
        let _turn = self.turn.lock().await;
        match self.current() {
            Some(token) if !token.is_over() => Ok(token),
            _ => self.fetch().await,
        }
    }

    /// A new token instead of one that the upstream refused; `None` if that would not help.
    async fn renew(&self, refused: &Arc<Token>) -> Option<Arc<Token>> {
        let _turn = self.turn.lock().await;
        if let Some(current) = self.current().filter(|current| !Arc::ptr_eq(current, refused)) {
            return Some(current);
        }
        let futile = *self.futile.lock().unwrap_or_else(PoisonError::into_inner);
        if futile.is_some_and(|at| at.elapsed() < FUTILE) {
            return None;
        }
        self.fetch().await.ok()
    }

    fn current(&self) -> Option<Arc<Token>> {
        self.token.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The caller must hold `turn`.
    async fn fetch(&self) -> Result<Arc<Token>, Error> {
        let before = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, error)) = before.filter(|(at, _)| at.elapsed() < PAUSE) {
            return Err(error);
        }
        let began = Instant::now();
        let answer = self.remote.post(self.form.clone(), self.authorization.clone()).await;
        let token =
            answer.map_err(|error| unreachable(&error)).and_then(|(status, body)| Token::read(status, &body, began));
        match token {
            Ok(token) => {
                let token = Arc::new(token);
                *self.token.write().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(token)
            }
            Err(error) => {
                if self.limiter.allows() {
                    tracing::warn!(target: "crocodile_pear::upstream", "{}", error.detail());
                }
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }
}

fn unreachable(error: &Error) -> Error {
    Error::new(Kind::Busy, format!("no access token: the token endpoint gives no answer ({})", error.kind().name()))
}

/// The errors that a token endpoint names (RFC 6749, 5.2).
const NAMED: [&str; 6] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
];

impl Token {
    fn read(status: StatusCode, body: &[u8], began: Instant) -> Result<Self, Error> {
        let said: Json = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| said.get(name).and_then(Json::as_str);
        if status != StatusCode::OK {
            let named = text("error").and_then(|error| NAMED.iter().find(|known| **known == error));
            let named = named.map(|error| format!(" ({error})")).unwrap_or_default();
            let kind = if status.is_server_error() { Kind::Busy } else { Kind::Unusable };
            let detail = format!("no access token: the token endpoint answered {}{named}", status.as_u16());
            return Err(Error::new(kind, detail));
        }
        let malformed =
            |what| Error::new(Kind::Unusable, format!("no access token: the token endpoint's answer {what}"));
        let token = text("access_token").filter(|token| !token.is_empty()).ok_or_else(|| malformed("has none"))?;
        if !text("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
            return Err(malformed("is not of the type `Bearer`"));
        }
        let field = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut field = field.map_err(|_| malformed("has a token that is not allowed in a header"))?;
        field.set_sensitive(true);
        // Some endpoints write the number as a text.
        let lifetime = said.get("expires_in").and_then(|time| time.as_f64().or_else(|| time.as_str()?.parse().ok()));
        let lifetime = lifetime.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
        let times = lifetime.and_then(|lifetime| {
            let over = began.checked_add(lifetime)?;
            Some((over.checked_sub(EARLY.min(lifetime / 5))?, over))
        });
        Ok(Token { field, times })
    }

    fn is_old(&self) -> bool {
        self.times.is_some_and(|(old, _)| old <= Instant::now())
    }

    fn is_over(&self) -> bool {
        self.times.is_some_and(|(_, over)| over <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: u16, body: &str) -> String {
        let status = StatusCode::from_u16(status).expect("a status");
        let error = Token::read(status, body.as_bytes(), Instant::now()).err().expect("no token");
        format!("{} {}", error.status().as_u16(), error.detail())
    }

    #[test]
    fn a_failing_token_endpoint_is_told_without_what_it_said() {
        for (status, body, wanted) in [
            (
                401,
                r#"{"error":"invalid_client"}"#,
                "502 no access token: the token endpoint answered 401 (invalid_client)",
            ),
            (400, r#"{"error":"<secret>"}"#, "502 no access token: the token endpoint answered 400"),
            (500, "", "503 no access token: the token endpoint answered 500"),
            (302, "", "502 no access token: the token endpoint answered 302"),
            (200, "{}", "502 no access token: the token endpoint's answer has none"),
            (
                200,
                r#"{"access_token":"a","token_type":"mac"}"#,
                "502 no access token: the token endpoint's answer is not of the type `Bearer`",
            ),
            (
                200,
                r#"{"access_token":"a\nb","token_type":"Bearer"}"#,
                "502 no access token: the token endpoint's answer has a token that is not allowed in a header",
            ),
        ] {
            assert_eq!(told(status, body), wanted);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_before_it_expires() {
        for (expires, old, over) in
            [("3600", 3540, 3600), ("10", 8, 10), ("\"100\"", 80, 100), ("0", 0, 0), ("-1", 0, 0)]
        {
            let began = Instant::now();
            let body = format!(r#"{{"access_token":"a","token_type":"bearer","expires_in":{expires}}}"#);
            let token = Token::read(StatusCode::OK, body.as_bytes(), began).expect("a token");
            let times = token.times.map(|(old, over)| ((old - began).as_secs(), (over - began).as_secs()));
            assert_eq!(times, Some((old, over)), "{expires}");
        }
        let forever = Token::read(StatusCode::OK, br#"{"access_token":"a","token_type":"Bearer"}"#, Instant::now());
        assert!(!forever.expect("a token").is_old());
    }

    #[test]
    fn ids_and_secrets_are_encoded() {
        let value = client_basic("a b", &Secret::from("c:d%é".to_owned())).expect("a value");
        assert_eq!(value, format!("Basic {}", STANDARD.encode("a%20b:c%3Ad%25%C3%A9")));
        assert_eq!(form(&[("a", "b c"), ("d&", "=")]), "a=b%20c&d%26=%3D");
    }
}
