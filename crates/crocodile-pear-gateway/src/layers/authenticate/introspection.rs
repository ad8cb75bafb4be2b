//! `introspection`: asks the issuer whether a token is valid (RFC 7662).

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crocodile_pear::unstable::config::carried_state::MarkedFiles;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec;
use crocodile_pear::unstable::config::spec::{Located, Secret, Texts};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::jq::Value;
use crocodile_pear::unstable::json;
use crocodile_pear::unstable::net::tls::TlsSpec;
use crocodile_pear::unstable::net::url::warn_of_clear;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::credentials::Credentials;
use crocodile_pear::unstable::resilience::breaker::BreakerSpec;
use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;
use crocodile_pear::unstable::upstream::{Remote, RemoteLimits, Resolver, client_basic, form};
use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};

use super::method::{Judgement, Method, Outcome, bearer};
use super::place::authorization;
use super::remembered::{Hash, Remembered, hash, now};
use crate::layer::Compile;

spec! {
    /// A token, sent as `authorization: Bearer TOKEN`. The gateway asks the issuer whether it is valid (token
    /// introspection, RFC 7662). The issuer's answer is `$claims`.
    pub struct Introspection {
        /// The introspection endpoint.
        pub url: Located<String>,
        /// The audience: one or several values, one of which must be in `aud` of the issuer's answer. `any` accepts
        /// every token of the issuer, also those that are meant for other APIs. Default: `any`.
        pub audience: Option<Located<Texts>>,
        /// The gateway's client ID at the issuer.
        pub client_id: String,
        /// The gateway's client secret. ID and secret are sent as HTTP basic authentication.
        pub client_secret: Secret,
        /// The maximum time to cache the issuer's answer, but never longer than `exp`. A negative answer is cached
        /// for 10 s.
        pub cache: Duration = Duration::from_secs(300),
        /// Timeout for the issuer's answer. After it, the client gets 503. After five calls in a row without a usable
        /// answer, the issuer is not called for 5 s: requests with tokens that are not known get 503 at once. At most 64
        /// calls are made at once; further ones wait, within the timeout.
        pub timeout: Duration = Duration::from_secs(5),
        /// TLS to the issuer: CAs to trust, client certificate, versions.
        pub tls: Option<TlsSpec>,
        /// The `realm` in 401 answers.
        pub realm: String = "api".to_owned(),
    }
}

impl Introspection {
    pub fn compile(&self, cx: &mut Compile<'_>) -> Option<Box<dyn Method>> {
        let reading = MarkedFiles::new(cx.services.files);
        let files = |written: &_| reading.read(written);
        let given = cx.given(&files);
        let (carry, resolver) = (given.carry.clone(), given.resolver.as_ref().map(Resolver::mark));
        let tls = self.tls.as_ref();
        let breaker = Some(BreakerSpec { failures: FAILURES, ..spec::defaults() });
        let limits = RemoteLimits { timeout: self.timeout, in_flight: Some(IN_FLIGHT), breaker };
        let remote = Remote::compile("introspection", &self.url, tls, limits, &given, cx.problems)?;
        warn_of_clear(&self.url, "tokens and the client secret go", cx.problems);
        let audience = self.audience(cx.problems)?;
        let authorization = client_basic(&self.client_id, &self.client_secret)?;
        Some(Box::new(SharedIntrospection(carry.part((reading.mark(), resolver)).settle(Arc::new(
            ReadyIntrospection {
                remote,
                authorization,
                cache: self.cache.as_secs(),
                realm: self.realm.clone(),
                name: self.url.value.split(['?', '#']).next().unwrap_or_default().to_owned(),
                known: Remembered::default(),
                checks: CoalescedChecks::default(),
                limiter: LogLimiter::every(Duration::from_secs(1)),
                audience,
            },
        )))))
    }

    /// The values of which one must be in `aud`; nothing where every one will do.
    fn audience(&self, problems: &mut Problems) -> Option<Option<Vec<String>>> {
        let Some(written) = &self.audience else { return Some(None) };
        let values: Vec<String> = written.value.0.iter().map(|text| text.value.clone()).collect();
        if values.is_empty() {
            let remedy = "write the `aud` of the tokens that are meant for this API, or `any`";
            return problems.error(written.span, "`audience` is empty", remedy);
        }
        Some(Some(values).filter(|values| values.as_slice() != ["any"]))
    }
}

/// Calls to the issuer at once. A flood of new tokens waits here, not at the issuer.
const IN_FLIGHT: usize = 64;

/// After so many failures in a row the issuer is left alone for a while: until then each new token waits for `timeout`.
const FAILURES: NonZeroU32 = NonZeroU32::new(5).expect("not 0");

/// How long a refusal is remembered.
const REFUSED: u64 = 10;

/// How long a failure to reach the issuer is remembered, in seconds: requests that waited for one call share the
/// result.
const UNAVAILABLE: u64 = 1;

/// The compiled method, with what it knows of tokens: that of the configuration before, where nothing has changed.
struct SharedIntrospection(Arc<ReadyIntrospection>);

/// The issuer, and what it has said.
struct ReadyIntrospection {
    remote: Remote,
    authorization: HeaderValue,
    /// In seconds.
    cache: u64,
    realm: String,
    /// The accepted audiences, one of which must be in `aud`; `None` if all are accepted.
    audience: Option<Vec<String>>,
    name: String,
    known: Remembered<Finding>,
    checks: CoalescedChecks,
    limiter: LogLimiter,
}

/// The answer of the issuer.
#[derive(Clone)]
enum Finding {
    Granted(Value),
    Refused,
    Unavailable,
}

impl From<Finding> for Outcome {
    fn from(finding: Finding) -> Self {
        match finding {
            Finding::Granted(claims) => Outcome::Granted(claims),
            Finding::Refused => Outcome::Refused("the token is not active"),
            Finding::Unavailable => {
                let detail = "the token cannot be checked: its issuer gives no answer";
                Outcome::Unavailable(Error::new(Kind::Busy, detail))
            }
        }
    }
}

impl Method for SharedIntrospection {
    fn judge<'a>(&'a self, scope: &Scope) -> Judgement<'a> {
        let token = match authorization(scope, "bearer") {
            Ok(token) => token,
            Err(outcome) => return Judgement::Now(outcome),
        };
        // RFC 6750, 2.1. Anything else cannot be a token, so the issuer is not asked.
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        let Some(token) =
            std::str::from_utf8(token).ok().filter(|token| !token.is_empty() && token.bytes().all(|byte| plain(&byte)))
        else {
            return Judgement::Now(Outcome::Refused("the token is not well formed"));
        };
        let hash = hash(token.as_bytes());
        match self.0.known.find(&hash, now()) {
            Some(finding) => Judgement::Now(finding.into()),
            None => Judgement::Wait(Box::pin(self.0.ask(token.to_owned(), hash))),
        }
    }

    fn challenge(&self, refused: Option<&'static str>) -> Option<HeaderValue> {
        bearer(&self.0.realm, refused)
    }

    fn places(&self, credentials: &mut Credentials) {
        credentials.headers.push(AUTHORIZATION);
    }

    fn outline(&self) -> String {
        format!("a token that {} calls active", self.0.name)
    }
}

impl ReadyIntrospection {
    /// Asks the issuer. Concurrent requests with the same token share one call.
    async fn ask(&self, token: String, hash: Hash) -> Outcome {
        let check = self.checks.join(hash);
        let _turn = check.turn.lock().await;
        match self.known.find(&hash, now()) {
            Some(finding) => finding.into(),
            None => self.call(&token, hash).await.into(),
        }
    }

    async fn call(&self, token: &str, hash: Hash) -> Finding {
        let form = form(&[("token", token), ("token_type_hint", "access_token")]);
        let (finding, until) = match self.remote.post(form, Some(self.authorization.clone())).await {
            Ok((StatusCode::OK, body)) => match self.read(&body) {
                Some(found) => found,
                None => self.fail("its answer is not that of an introspection endpoint"),
            },
            Ok((status, _)) => self.fail(&format!("it answered {status}")),
            Err(error) => self.fail(error.detail()),
        };
        self.known.keep(hash, until, finding.clone());
        finding
    }

    /// Reads the issuer's answer, and how long it is valid.
    fn read(&self, body: &bytes::Bytes) -> Option<(Finding, u64)> {
        let now = now();
        let said: serde_json::Value = serde_json::from_slice(body).ok()?;
        let active = said.get("active")?.as_bool()?;
        let exp = match said.get("exp") {
            None | Some(serde_json::Value::Null) => u64::MAX,
            Some(exp) => exp.as_f64()? as u64,
        };
        if !active || exp <= now || !self.is_meant(said.get("aud")) {
            return Some((Finding::Refused, now + REFUSED));
        }
        Some((Finding::Granted(json::read(body).ok()?), exp.min(now.saturating_add(self.cache))))
    }

    /// Whether a token is for this API, by its `aud`: a text, or a list of texts (RFC 7662, 2.2; RFC 7519, 4.1.3).
    fn is_meant(&self, aud: Option<&serde_json::Value>) -> bool {
        let Some(wanted) = &self.audience else { return true };
        let values = aud.and_then(|aud| aud.as_array().map(Vec::as_slice).or(Some(std::slice::from_ref(aud))));
        values
            .unwrap_or_default()
            .iter()
            .filter_map(|value| value.as_str())
            .any(|value| wanted.iter().any(|own| own == value))
    }

    fn fail(&self, reason: &str) -> (Finding, u64) {
        if self.limiter.allows() {
            tracing::warn!("`{}` cannot check a token: {reason}; requests are answered with 503", self.name);
        }
        (Finding::Unavailable, now() + UNAVAILABLE)
    }
}

/// Tokens for which a call is in progress, each with how many requests wait for it.
#[derive(Default)]
struct CoalescedChecks(Mutex<HashMap<Hash, (usize, QueryLock)>>);

/// Held by the request that asks the issuer.
type QueryLock = Arc<tokio::sync::Mutex<()>>;

impl CoalescedChecks {
    fn join(&self, hash: Hash) -> CoalescedCheck<'_> {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (waiting, turn) = checks.entry(hash).or_default();
        *waiting += 1;
        CoalescedCheck { checks: self, hash, turn: turn.clone() }
    }
}

/// A request that waits for a call. Its entry goes with the last one, also when the client leaves.
struct CoalescedCheck<'a> {
    checks: &'a CoalescedChecks,
    hash: Hash,
    turn: QueryLock,
}

impl Drop for CoalescedCheck<'_> {
    fn drop(&mut self) {
        let mut checks = self.checks.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((waiting, _)) = checks.get_mut(&self.hash) {
            *waiting -= 1;
            if *waiting == 0 {
                checks.remove(&self.hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_leaves_leaves_nothing() {
        let checks = CoalescedChecks::default();
        let first = checks.join([1; 32]);
        let turn = first.turn.lock().await;
        for _ in 0..1000 {
            let leaves = checks.join([1; 32]);
            // Waits behind the first one, and is dropped.
            assert!(tokio::time::timeout(Duration::ZERO, leaves.turn.lock()).await.is_err());
        }
        (0..=255).for_each(|number| drop(checks.join([number; 32])));
        assert_eq!(checks.0.lock().expect("whole").len(), 1);
        drop(turn);
        drop(first);
        assert!(checks.0.lock().expect("whole").is_empty());
    }
}
