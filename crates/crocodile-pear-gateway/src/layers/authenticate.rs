//! `authenticate`: establishes who the client is. A request without a valid credential is answered with 401.

mod api_key;
mod basic;
mod certificate;
mod forward;
mod introspection;
mod jwt;
mod method;
mod methods;
mod place;
mod remembered;

use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Field, Json, Marked, Node, NodeKind};
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::jq::Value;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::credentials::Credentials;
use futures_util::future::BoxFuture;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use self::method::{Judgement, Method, Outcome, Passed};
use self::methods::MethodSpec;
use crate::http::response;
use crate::layer::{Compile, Layer, LayerPosition, Passage, Spec, Verdict};
use crate::telemetry::metrics::{Authenticated, AuthenticationCounters};

/// The methods; a request needs to pass one of them. Empty for an endpoint that is open to all.
#[derive(Clone, Debug)]
pub struct Authenticate(Vec<Marked<MethodSpec>>);

impl Authenticate {
    /// Whether everybody passes.
    pub fn is_open(&self) -> bool {
        self.0.is_empty()
    }
}

impl Decode for Authenticate {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        const WANTED: &str = "a list of methods, or `none`";
        match &node.kind {
            NodeKind::Scalar { text, .. } if text == "none" => Some(Authenticate(Vec::new())),
            NodeKind::List(methods) if methods.is_empty() => {
                node.wrong(WANTED, "name a method, as in `- api_key: { header: x-api-key, keys: keys.yaml }`", problems)
            }
            NodeKind::Scalar { .. } => {
                let remedy = "write `none` for everybody, or a list of methods";
                node.wrong(WANTED, remedy, problems)
            }
            _ => {
                node.expect_list(WANTED, problems)?;
                Vec::decode(node, problems).map(Authenticate)
            }
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        serde_json::json!({ "anyOf": [{ "const": "none" }, Vec::<MethodSpec>::schema(definitions)] })
    }
}

impl Spec for Authenticate {
    type Ready = Authenticator;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "authenticate",
        "Who may call: a list of methods; one of them is enough. A request without a valid credential gets \
             401. What is known about the client is `$claims` in expressions.",
    ));

    const AT_ENDPOINT: Option<Field> =
        Some(Field::new("authenticate", "Who may call it. Overrides the top-level setting; `none` for everybody."));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Authenticator>> {
        // Compiles all methods before returning an error, so that every problem is found.
        let methods: Vec<_> = self.0.iter().map(|spec| cx.within(spec.mark, |cx| spec.compile(cx))).collect();
        let methods: Vec<Box<dyn Method>> = methods.into_iter().collect::<Option<_>>()?;
        let counters = self.0.iter().map(|spec| cx.metrics().authentications(spec.name())).collect();
        if methods.is_empty() {
            return None;
        }
        let mut credentials = Credentials::default();
        methods.iter().for_each(|method| method.places(&mut credentials));
        let missing = cx.metrics().authentications("none");
        Some(Arc::new(Authenticator { methods, counters, missing, credentials: Arc::new(credentials) }))
    }

    fn around(ready: &Arc<Authenticator>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        at.dependence.check();
        Some(ready.clone())
    }
}

/// Lets authenticated requests pass.
pub struct Authenticator {
    methods: Vec<Box<dyn Method>>,
    /// Counts the results of each method, in the same order.
    counters: Vec<Arc<AuthenticationCounters>>,
    /// Counts requests without a credential.
    missing: Arc<AuthenticationCounters>,
    /// Where the methods look for credentials. These are not forwarded.
    credentials: Arc<Credentials>,
}

/// The header fields that a service has for the client of a request that it let pass.
#[derive(Clone)]
struct Back(Arc<[(HeaderName, HeaderValue)]>);

/// The results of the methods tried so far.
#[derive(Default)]
struct Tried {
    /// The first reason why a credential was refused, and the method that refused it.
    refused: Option<(usize, &'static str)>,
    /// Why a credential could not be checked.
    unavailable: Option<Error>,
    /// The first answer that a service gave in place of the gateway's.
    answered: Option<Box<Response<AnswerBody>>>,
}

impl Layer for Authenticator {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        let mut tried = Tried::default();
        for (at, method) in self.methods.iter().enumerate() {
            match method.judge(scope) {
                Judgement::Now(Outcome::Granted(claims)) => {
                    self.admit(scope, at, claims);
                    return Verdict::Pass;
                }
                Judgement::Now(Outcome::Passed(passed)) => {
                    self.let_pass(scope, at, passed);
                    return Verdict::Pass;
                }
                Judgement::Now(outcome) => self.note(&mut tried, at, outcome),
                Judgement::Wait(first) => return Verdict::Wait(Box::pin(self.wait(scope, at, first, tried))),
            }
        }
        Verdict::Answer(self.refuse(tried))
    }

    fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, scope: &'a Arc<Scope>) -> Passage<'a> {
        if let Some(Back(fields)) = scope.extensions().get() {
            for (name, value) in fields.iter() {
                response.headers_mut().append(name, value.clone());
            }
        }
        Passage::Done
    }

    fn takes_ambient_credentials(&self) -> bool {
        self.methods.iter().any(|method| method.is_ambient())
    }

    fn outline(&self) -> Option<String> {
        let methods: Vec<String> = self.methods.iter().map(|method| method.outline()).collect();
        Some(format!("needs {}", methods.join(", or ")))
    }
}

impl Authenticator {
    /// Continues with the method at `at`, whose judgement must be awaited, and those after it.
    async fn wait(
        &self,
        scope: &mut Scope,
        mut at: usize,
        first: BoxFuture<'_, Outcome>,
        mut tried: Tried,
    ) -> Option<Response<AnswerBody>> {
        let mut outcome = first.await;
        loop {
            match outcome {
                Outcome::Granted(claims) => {
                    self.admit(scope, at, claims);
                    return None;
                }
                Outcome::Passed(passed) => {
                    self.let_pass(scope, at, passed);
                    return None;
                }
                other => self.note(&mut tried, at, other),
            }
            at += 1;
            let Some(method) = self.methods.get(at) else { return Some(self.refuse(tried)) };
            outcome = match method.judge(scope) {
                Judgement::Now(outcome) => outcome,
                Judgement::Wait(outcome) => outcome.await,
            };
        }
    }

    fn admit(&self, scope: &mut Scope, at: usize, claims: Value) {
        self.counters[at].count(Authenticated::Granted);
        let facts = scope.facts_mut();
        facts.put("claims", claims);
        facts.set_credentials(self.credentials.clone());
    }

    /// Admits a request that a service has let pass.
    fn let_pass(&self, scope: &mut Scope, at: usize, Passed { claims, fields, back }: Passed) {
        self.admit(scope, at, claims);
        scope.facts_mut().grant(fields);
        if !back.is_empty() {
            scope.extensions_mut().insert(Back(back));
        }
    }

    fn note(&self, tried: &mut Tried, at: usize, outcome: Outcome) {
        match &outcome {
            Outcome::Answered(_) => self.counters[at].count(Authenticated::Refused),
            Outcome::Refused(reason) => self.counters[at].refuse(reason),
            Outcome::Unavailable(_) => self.counters[at].count(Authenticated::Unavailable),
            Outcome::Absent | Outcome::Granted(_) | Outcome::Passed(_) => {}
        }
        tried.note(at, outcome);
    }

    fn refuse(&self, tried: Tried) -> Response<AnswerBody> {
        if let Some(response) = tried.answered {
            return *response;
        }
        if tried.refused.is_none() && tried.unavailable.is_none() {
            self.missing.count(Authenticated::Missing);
        }
        if let Some(error) = tried.unavailable {
            return response::fail(&error);
        }
        let mut challenges = Vec::new();
        for (at, method) in self.methods.iter().enumerate() {
            let refused = tried.refused.filter(|(refused, _)| *refused == at).map(|(_, reason)| reason);
            let challenge = method.challenge(refused);
            // Two methods may send the same challenge.
            challenges.extend(challenge.filter(|challenge| !challenges.contains(challenge)));
        }
        // A 401 needs a challenge (RFC 9110, 15.5.2). There is none for a certificate, so then the answer is 403.
        let (status, needed) = match challenges.is_empty() {
            true => (StatusCode::FORBIDDEN, "the client must show a certificate in the TLS handshake"),
            false => (StatusCode::UNAUTHORIZED, "the request needs a credential"),
        };
        let mut response = response::refuse(status, tried.refused.map_or(needed, |(_, reason)| reason));
        for challenge in challenges {
            response.headers_mut().append(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl Tried {
    fn note(&mut self, at: usize, outcome: Outcome) {
        match outcome {
            Outcome::Refused(reason) => drop(self.refused.get_or_insert((at, reason))),
            Outcome::Unavailable(error) => drop(self.unavailable.get_or_insert(error)),
            Outcome::Answered(response) => drop(self.answered.get_or_insert(response)),
            Outcome::Absent | Outcome::Granted(_) | Outcome::Passed(_) => {}
        }
    }
}
