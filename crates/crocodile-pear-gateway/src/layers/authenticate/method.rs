//! The contract of a method, and the list of them.

use crocodile_pear::error::Error;
use crocodile_pear::jq::Value;
use crocodile_pear::problem::Problems;
use crocodile_pear::scope::{Credentials, Scope};
use crocodile_pear::spec::{Decode, Definitions, Json, Node, OneKey, one_key};
use futures_util::future::BoxFuture;
use http::HeaderValue;

use super::api_key::ApiKey;
use super::basic::Basic;
use super::certificate::ShownCertificate;
use super::introspection::Introspection;
use super::jwt::Jwt;
use crate::layer::Compile;

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

/// Declares the methods by their names in the configuration.
macro_rules! methods {
    ($($name:ident: $spec:ident),* $(,)?) => {
        /// A method as written.
        #[derive(Clone, Debug)]
        pub enum MethodSpec {
            $(#[doc = concat!("`", stringify!($name), "`")] $spec(Box<$spec>),)*
        }

        const NAMES: &[&str] = &[$(stringify!($name)),*];

        fn decode(name: &str, node: &Node, problems: &mut Problems) -> Option<MethodSpec> {
            match name {
                $(stringify!($name) => Box::<$spec>::decode(node, problems).map(MethodSpec::$spec),)*
                _ => None,
            }
        }

        fn schemas(definitions: &mut Definitions) -> Vec<(&'static str, Json)> {
            vec![$((stringify!($name), $spec::schema(definitions))),*]
        }

        impl MethodSpec {
            /// Its name in the configuration.
            pub fn name(&self) -> &'static str {
                match self {
                    $(MethodSpec::$spec(_) => stringify!($name),)*
                }
            }

            /// Makes it ready; every problem is noted.
            pub fn compile(&self, cx: &mut Compile<'_>) -> Option<Box<dyn Method>> {
                match self {
                    $(MethodSpec::$spec(spec) => spec.compile(cx),)*
                }
            }
        }
    };
}

methods! {
    jwt: Jwt,
    api_key: ApiKey,
    introspection: Introspection,
    basic: Basic,
    certificate: ShownCertificate,
}

const METHOD: OneKey = OneKey { what: "method", names: NAMES };

impl Decode for MethodSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let (name, inner) = METHOD.read(node, problems)?;
        decode(name, inner, problems)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        one_key(schemas(definitions))
    }
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
