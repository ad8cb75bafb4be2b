//! The methods, by their names in the configuration.

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Node, OneKey, one_key};

use super::api_key::ApiKey;
use super::basic::Basic;
use super::certificate::ShownCertificate;
use super::forward::ForwardAuth;
use super::introspection::Introspection;
use super::jwt::Jwt;
use super::method::Method;
use crate::layer::Compile;

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
    forward: ForwardAuth,
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
