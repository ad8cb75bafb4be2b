//! The contract of an authentication method.

use std::sync::Arc;

use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::jq::Value;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::credentials::Credentials;
use crocodile_pear::unstable::request::facts::GrantedField;
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, Response};

/// A compiled authentication method.
pub trait Method: Send + Sync {
    /// Checks the credential of a request.
    fn judge<'a>(&'a self, scope: &Scope) -> Judgement<'a>;

    /// The challenge for a client without a valid credential (RFC 9110, 11.6.1). `refused` is the reason if it sent
    /// one. `None` if HTTP has no challenge for this method.
    fn challenge(&self, refused: Option<&'static str>) -> Option<HeaderValue>;

    /// Adds the places where this method looks for credentials.
    fn places(&self, credentials: &mut Credentials);

    /// Whether browsers send the credential by themselves, with the requests of any page: a cookie, a password that the
    /// user has entered, a client certificate.
    fn is_ambient(&self) -> bool {
        false
    }

    /// A description for `explain`.
    fn outline(&self) -> String;
}

pub enum Judgement<'a> {
    Now(Outcome),
    /// Must be awaited.
    Wait(BoxFuture<'a, Outcome>),
}

/// The result of checking a credential.
pub enum Outcome {
    /// The request has no credential for this method.
    Absent,
    /// The credential is not valid. The reason is sent to the client.
    Refused(&'static str),
    /// The credential is valid. The value describes the client.
    Granted(Value),
    /// The credential cannot be checked now.
    Unavailable(Error),
    /// A service has let the request pass.
    Passed(Passed),
    /// A service has answered in its stead, as with a redirect to a login page.
    Answered(Box<Response<AnswerBody>>),
}

/// The answer of a service that let a request pass.
#[derive(Clone)]
pub struct Passed {
    /// `$claims`
    pub claims: Value,
    /// Header fields for the calls of the pipeline.
    pub fields: Arc<[GrantedField]>,
    /// Header fields for the client.
    pub back: Arc<[(HeaderName, HeaderValue)]>,
}

/// Writes a challenge: the scheme and its parameters, as pairs of name and text.
pub fn challenge(scheme: &str, parameters: &[(&str, &str)]) -> Option<HeaderValue> {
    let quoted = |(name, text): &(&str, &str)| format!("{name}=\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""));
    let parameters: Vec<String> = parameters.iter().map(quoted).collect();
    HeaderValue::from_bytes(format!("{scheme} {}", parameters.join(", ")).as_bytes()).ok()
}

/// The challenge of RFC 6750, 3.
pub fn bearer(realm: &str, refused: Option<&'static str>) -> Option<HeaderValue> {
    match refused {
        None => challenge("Bearer", &[("realm", realm)]),
        Some(reason) => {
            let parameters = [("realm", realm), ("error", "invalid_token"), ("error_description", reason)];
            challenge("Bearer", &parameters)
        }
    }
}
