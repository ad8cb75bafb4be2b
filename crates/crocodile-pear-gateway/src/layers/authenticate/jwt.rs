//! `jwt`: a signed token (RFC 7519, RFC 8725) in `authorization: Bearer`.

mod issuer;
mod jws;
mod key;
mod keys;
mod pem;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::config::carried_state::MarkedFiles;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Located, Marked, Texts};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::jq::Value;
use crocodile_pear::unstable::json;
use crocodile_pear::unstable::net::tls::TlsSpec;
use crocodile_pear::unstable::net::url::warn_of_clear;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::credentials::Credentials;
use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::upstream::{Remote, Resolver, UpstreamEnvironment};
use http::HeaderValue;
use http::header::AUTHORIZATION;
use serde_json::Map;

use self::issuer::Issuer;
use self::jws::{Jws, TokenRejection, Verified};
use self::key::{AcceptedAlgorithm, Algorithm};
use self::keys::KeySet;
use super::method::{Judgement, Method, Outcome, bearer};
use super::place::authorization;
use super::remembered::{Hash, Remembered, hash, now};
use crate::config::unique_json;
use crate::layer::Compile;
use crate::runtime::tasks::Worked;
use crate::runtime::watched_file::WatchedFile;

spec! {
    /// A JSON Web Token (JWT), sent as `authorization: Bearer TOKEN`. Its claims are `$claims`.
    pub struct Jwt {
        /// The issuer. The claim `iss` must be exactly this.
        pub issuer: Located<String>,
        /// The audience: one or several values, one of which must be in the claim `aud`. `any` accepts every `aud`.
        pub audience: Located<Texts>,
        /// The issuer's keys: the URL of a JWK set, a file with one, or a file with public keys in PEM. The gateway
        /// watches a file for changes.
        pub keys: Located<String>,
        /// The algorithms that are accepted.
        pub algorithms: Located<Vec<AcceptedAlgorithm>>,
        /// The allowed difference between the clocks of the issuer and the gateway, for `exp` and `nbf`. A token
        /// without `exp` is rejected.
        pub leeway: Duration = Duration::from_secs(5),
        /// How often to fetch the keys from a URL. If a token names an unknown key, they are fetched earlier, at most
        /// every 10 s.
        pub refresh: Located<Duration> = Located::new(Duration::from_secs(300), Default::default()),
        /// TLS to the URL: CAs to trust, client certificate, versions.
        pub tls: Option<Marked<TlsSpec>>,
        /// The `realm` in 401 answers.
        pub realm: String = "api".to_owned(),
    }
}

/// The timeout for fetching the keys.
const FETCH: Duration = Duration::from_secs(5);

impl Jwt {
    pub fn compile(&self, cx: &mut Compile<'_>) -> Option<Box<dyn Method>> {
        let sound = self.check(cx.problems);
        let keys = self.source(cx)?;
        sound?;
        let audiences: Vec<String> = self.audience.value.0.iter().map(|text| text.value.clone()).collect();
        let rules = ClaimRules {
            issuer: self.issuer.value.clone(),
            audiences: Some(audiences).filter(|names| names.as_slice() != ["any"]),
            algorithms: self.algorithms.value.iter().map(|accepted| accepted.0).collect(),
            leeway: self.leeway.as_secs_f64(),
        };
        let known = cx.carry.state(Remembered::default);
        Some(Box::new(ReadyJwt { rules, keys, known, realm: self.realm.clone() }))
    }

    fn check(&self, problems: &mut Problems) -> Option<()> {
        let empty = [
            (
                self.issuer.value.is_empty(),
                self.issuer.span,
                "`issuer` is empty",
                "write the claim `iss` of the tokens",
            ),
            (
                self.audience.value.0.is_empty(),
                self.audience.span,
                "`audience` is empty",
                "write the claim `aud` of the tokens that are meant for this API, or `any`",
            ),
            (
                self.algorithms.value.is_empty(),
                self.algorithms.span,
                "`algorithms` is empty",
                "name what the issuer signs with, as in `algorithms: [RS256]`",
            ),
            (
                self.refresh.value.is_zero(),
                self.refresh.span,
                "`refresh` is too short",
                "write a longer time, as in `refresh: 5m`",
            ),
        ];
        let wrong: Vec<_> = empty.into_iter().filter(|(wrong, ..)| *wrong).collect();
        for (_, span, message, remedy) in &wrong {
            problems.error::<()>(*span, *message, *remedy);
        }
        wrong.is_empty().then_some(())
    }

    fn source(&self, cx: &mut Compile<'_>) -> Option<KeySource> {
        if !self.keys.value.contains("://") {
            if let Some(tls) = &self.tls {
                let place = [&tls.ca, &tls.certificate, &tls.key, &tls.server_name].into_iter().flatten().next();
                let span = place.map_or(self.keys.span, |written| written.span);
                return cx.problems.error(span, "`tls` is for a URL, and `keys` is a file", "leave it out");
            }
            return cx.watch(&self.keys, KeySet::parse).map(KeySource::File);
        }
        let reading = MarkedFiles::new(cx.services.files);
        let files = |written: &_| reading.read(written);
        let given = UpstreamEnvironment { carry: cx.services.root.clone(), ..cx.given(&files) };
        let remote = Remote::compile("keys", &self.keys, self.tls.as_deref(), FETCH, &given, cx.problems)?;
        warn_of_clear(&self.keys, "the issuer's keys come", cx.problems);
        // Several endpoints may name the same issuer.
        let tls = self.tls.as_ref().map(|tls| tls.mark);
        let issuer = (
            &self.keys.value,
            tls,
            reading.mark(),
            cx.services.resolver.as_ref().map(Resolver::mark),
            self.refresh.value,
        );
        let issuer = cx.services.root.part(issuer).state(|| {
            let issuer = Arc::new(Issuer::new(&self.issuer.value, remote));
            Worked::new(issuer.clone(), Box::pin(issuer.run(self.refresh.value)))
        });
        cx.works.push(issuer.work.clone());
        Some(KeySource::Url(issuer))
    }
}

/// Where the keys come from.
enum KeySource {
    File(Arc<WatchedFile<KeySet>>),
    Url(Arc<Worked<Issuer>>),
}

impl KeySource {
    fn keys(&self) -> Option<Arc<KeySet>> {
        match self {
            KeySource::File(keys) => Some(keys.load().clone()),
            KeySource::Url(issuer) => issuer.state.keys(),
        }
    }
}

/// The compiled method.
struct ReadyJwt {
    rules: ClaimRules,
    keys: KeySource,
    /// Verified tokens, each with the generation of the keys that verified it.
    known: Arc<Remembered<(u64, Value)>>,
    realm: String,
}

/// The result of checking a token with the current keys.
enum TokenCheck {
    Granted(Value),
    Refused(TokenRejection),
    /// No key matches, or there are no keys.
    NoKey {
        known: bool,
    },
}

impl Method for ReadyJwt {
    fn judge<'a>(&'a self, scope: &Scope) -> Judgement<'a> {
        let token = match authorization(scope, "bearer") {
            Ok(token) => token,
            Err(outcome) => return Judgement::Now(outcome),
        };
        let hash = hash(token);
        let known = match self.check(token, &hash) {
            TokenCheck::Granted(claims) => return Judgement::Now(Outcome::Granted(claims)),
            TokenCheck::Refused(reason) => return Judgement::Now(Outcome::Refused(reason)),
            TokenCheck::NoKey { known } => known,
        };
        match &self.keys {
            KeySource::Url(issuer) => match issuer.state.newer(known) {
                Some(round) => {
                    let token = token.to_owned();
                    Judgement::Wait(Box::pin(async move {
                        issuer.state.wait(round).await;
                        without_waiting(self.check(&token, &hash))
                    }))
                }
                // The round may have ended since the keys were read.
                None => Judgement::Now(without_waiting(self.check(token, &hash))),
            },
            KeySource::File(_) => Judgement::Now(without_waiting(TokenCheck::NoKey { known })),
        }
    }

    fn challenge(&self, refused: Option<&'static str>) -> Option<HeaderValue> {
        bearer(&self.realm, refused)
    }

    fn places(&self, credentials: &mut Credentials) {
        credentials.headers.push(AUTHORIZATION);
    }

    fn outline(&self) -> String {
        format!("a JWT of {}", self.rules.issuer)
    }
}

fn without_waiting(check: TokenCheck) -> Outcome {
    match check {
        TokenCheck::Granted(claims) => Outcome::Granted(claims),
        TokenCheck::Refused(reason) => Outcome::Refused(reason),
        TokenCheck::NoKey { known: true } => Outcome::Refused("the token's key is not known"),
        TokenCheck::NoKey { known: false } => {
            let detail = "the token cannot be checked: the keys of its issuer could not be fetched";
            Outcome::Unavailable(Error::new(Kind::Busy, detail))
        }
    }
}

impl ReadyJwt {
    fn check(&self, token: &[u8], hash: &Hash) -> TokenCheck {
        let now = now();
        let keys = self.keys.keys();
        if let (Some(keys), Some((generation, claims))) = (&keys, self.known.find(hash, now))
            && generation == keys.generation
        {
            return TokenCheck::Granted(claims);
        }
        let jws = match Jws::read(token) {
            Ok(jws) if self.rules.algorithms.contains(&jws.algorithm) => jws,
            Ok(_) => return TokenCheck::Refused("the token's algorithm is not accepted"),
            Err(reason) => return TokenCheck::Refused(reason),
        };
        let Some(keys) = keys else { return TokenCheck::NoKey { known: false } };
        let payload = match jws.verify(&keys) {
            Verified::Yes(payload) => payload,
            Verified::No => return TokenCheck::Refused("the token's signature is not valid"),
            Verified::NoKey => return TokenCheck::NoKey { known: true },
        };
        let (until, claims) = match self.rules.admit(payload, now) {
            Ok(admitted) => admitted,
            Err(reason) => return TokenCheck::Refused(reason),
        };
        self.known.keep(*hash, until, (keys.generation, claims.clone()));
        TokenCheck::Granted(claims)
    }
}

/// The rules for claims.
struct ClaimRules {
    issuer: String,
    /// The accepted audiences, one of which must be in `aud`; `None` if `aud` is not checked.
    audiences: Option<Vec<String>>,
    algorithms: Vec<Algorithm>,
    /// In seconds.
    leeway: f64,
}

impl ClaimRules {
    /// Checks the claims. Returns them with the second at which they expire.
    fn admit(&self, payload: Vec<u8>, now: u64) -> Result<(u64, Value), TokenRejection> {
        const FORM: TokenRejection = "the token's claims cannot be read";
        let claims = unique_json::object(&payload).ok_or(FORM)?;
        let until = self.check(&claims, now as f64)?;
        let value = json::read(&Bytes::from(payload)).map_err(|_| FORM)?;
        Ok((until, value))
    }

    fn check(&self, claims: &Map<String, serde_json::Value>, now: f64) -> Result<u64, TokenRejection> {
        // A date is a number, possibly with a fraction (RFC 7519, 2).
        let date = |name: &str| claims.get(name).map(|date| date.as_f64().ok_or("a date of the token is not a number"));
        let exp = date("exp").transpose()?.ok_or("the token has no time at which it ends (`exp`)")?;
        if now >= exp + self.leeway {
            return Err("the token has expired");
        }
        if let Some(nbf) = date("nbf").transpose()?
            && now + self.leeway < nbf
        {
            return Err("the token is not valid yet");
        }
        if claims.get("iss").and_then(|issuer| issuer.as_str()) != Some(&self.issuer) {
            return Err("the token has another issuer");
        }
        let meant = |name: &serde_json::Value| {
            let wanted = |name: &str| self.audiences.iter().flatten().any(|audience| audience == name);
            name.as_str().is_some_and(wanted)
        };
        let audience = claims.get("aud");
        let fits = match audience {
            _ if self.audiences.is_none() => true,
            Some(serde_json::Value::Array(names)) => {
                names.iter().all(serde_json::Value::is_string) && names.iter().any(meant)
            }
            Some(name) => meant(name),
            None => false,
        };
        if !fits {
            return Err("the token is for somebody else");
        }
        // A time beyond the largest number never expires, but the memory of tokens is still limited.
        Ok((exp + self.leeway).ceil() as u64)
    }
}
