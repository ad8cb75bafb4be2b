//! As whom a request is counted, where a limit is for each client or consumer.

use std::net::IpAddr;

use crocodile_pear::jq::{self, Filter, Value, as_str};
use crocodile_pear::limiter::LogLimiter;
use crocodile_pear::scope::Scope;
use crocodile_pear::spec::Expression;

use crate::layer::Compile;

/// What is counted by: `by` of a limit.
pub enum By {
    /// All requests together.
    Everyone,
    /// `$client.address`, the usual one: it needs no evaluation.
    Address,
    /// An expression, whose failures are told now and then.
    Expression(Box<Filter>, LogLimiter),
}

/// As what a request is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// It is not limited.
    None,
    /// As all others.
    Everyone,
    /// As its client's address; those of Unix sockets have none, and are counted together.
    Address(Option<IpAddr>),
    /// As the value of an expression.
    Text(String),
    /// The expression failed. Such requests are counted together: a client that makes it fail gains nothing.
    Failed,
}

impl By {
    /// Compiles what is written.
    pub fn compile(written: Option<&Expression>, cx: &mut Compile<'_>) -> Option<Self> {
        Some(match written {
            None => By::Everyone,
            Some(written) if written.0.as_str().trim() == "$client.address" => By::Address,
            Some(written) => By::Expression(Box::new(cx.filter(written, &[])?), LogLimiter::default()),
        })
    }

    /// Whether it can only be told after the authentication.
    pub fn needs_claims(&self) -> bool {
        matches!(self, By::Expression(filter, _) if filter.uses().iter().any(|name| name == "claims"))
    }

    /// As what this request is counted.
    pub fn key(&self, scope: &Scope) -> Key {
        let (filter, failures) = match self {
            By::Everyone => return Key::Everyone,
            By::Address => {
                let client = scope.facts().client();
                return client.map_or(Key::None, |client| Key::Address(client.address.ip()));
            }
            By::Expression(filter, failures) => (filter, failures),
        };
        match filter.run_one(jq::null(), &mut |name| scope.variable(name, &None)) {
            Ok(None) => Key::None,
            Ok(Some(value)) if value == jq::null() => Key::None,
            Ok(Some(value)) => Key::Text(text(&value)),
            Err(error) => {
                if failures.allows() {
                    tracing::warn!(%error, "`by` of a limit failed; such requests are counted together");
                }
                Key::Failed
            }
        }
    }

    /// For `explain`.
    pub fn outline(&self) -> &'static str {
        match self {
            By::Everyone => "all together",
            By::Address => "each client address",
            By::Expression(..) => "each value of its expression",
        }
    }
}

fn text(value: &Value) -> String {
    as_str(value).map_or_else(|| value.to_string(), str::to_owned)
}
