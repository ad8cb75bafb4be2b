//! The contract of a method.

use crocodile_pear::error::Error;
use crocodile_pear::jq::Value;
use crocodile_pear::scope::{Credentials, Scope};
use futures_util::future::BoxFuture;
use http::HeaderValue;

/// A way to authenticate, ready.
pub trait Method: Send + Sync {
    /// Looks at the credential of a request.
    fn judge<'a>(&'a self, scope: &Scope) -> Judgement<'a>;

    /// What a client is told that has no valid credential (RFC 9110, 11.6.1); `refused` is why its own was refused. Nothing,
    /// if HTTP has no way to ask for it.
    fn challenge(&self, refused: Option<&'static str>) -> Option<HeaderValue>;

    /// Adds the places where it looks for credentials.
    fn places(&self, credentials: &mut Credentials);

    /// What it needs, for `explain`.
    fn outline(&self) -> String;
}

/// What a method says of a request.
pub enum Judgement<'a> {
    /// At once.
    Now(Outcome),
    /// Not yet.
    Wait(BoxFuture<'a, Outcome>),
}

/// What became of a credential.
pub enum Outcome {
    /// There is none for this method.
    Absent,
    /// It is not valid. The reason is for the client.
    Refused(&'static str),
    /// It is valid, and says this of the client.
    Granted(Value),
    /// It cannot be checked now.
    Unavailable(Error),
}

/// A challenge: the scheme and its parameters, each a name and a text.
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
