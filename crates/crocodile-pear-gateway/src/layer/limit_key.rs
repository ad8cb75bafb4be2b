//! The identity that a request is counted under, where a limit is for each client or consumer.

use std::net::IpAddr;

use crocodile_pear::unstable::config::spec::ExpressionSpec;
use crocodile_pear::unstable::jq::{self, Filter, Value, as_str};
use crocodile_pear::unstable::json::value::{self, Shape};
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::facts::ClientAddress;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;

use crate::layer::Compile;
use crate::net::cidr::Ipv6Prefix;

crocodile_pear::unstable::choice! {
    /// The handling of a request whose `by` is null.
    pub enum Missing {
        /// All such requests are counted together, as one value. Those without an amount get 403.
        Limit = "limit",
        /// The request passes without this limit.
        Allow = "allow",
        /// The request gets 403.
        Reject = "reject",
    }
}

/// The setting `by` of a limit.
pub struct By {
    kind: KeyOrigin,
    /// How much of an IPv6 address is a client; `None`: each address is counted for itself.
    prefix: Option<Ipv6Prefix>,
}

enum KeyOrigin {
    /// All requests together.
    Everyone,
    /// `$client.address`, the usual one: it needs no evaluation.
    Address,
    /// An expression, whose failures are told now and then.
    Expression(Box<Filter>, LogLimiter),
}

/// The identity that a request is counted under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// The request is not limited.
    None,
    /// All requests are counted together.
    Everyone,
    /// The client's address. Clients of Unix sockets have none, and are counted together.
    Address(Option<IpAddr>),
    /// All clients whose address is unknown.
    Unknown,
    /// All requests for which the expression is null.
    Missing,
    /// The value of an expression.
    Text(String),
    /// The expression failed. Such requests are counted together: a client that makes it fail gains nothing.
    Failed,
}

impl By {
    /// Compiles what is written, for a limit.
    pub fn compile(written: Option<&ExpressionSpec>, cx: &mut Compile<'_>) -> Option<Self> {
        Self::exact(written, cx).map(|by| By { prefix: Some(cx.services.ipv6_prefix), ..by })
    }

    /// The same for what is only noted: each IPv6 address stands for itself.
    pub fn exact(written: Option<&ExpressionSpec>, cx: &mut Compile<'_>) -> Option<Self> {
        let kind = match written {
            None => KeyOrigin::Everyone,
            Some(written) if written.0.as_str().trim() == "$client.address" => KeyOrigin::Address,
            Some(written) => KeyOrigin::Expression(Box::new(cx.filter(written, &[])?), LogLimiter::default()),
        };
        Some(By { kind, prefix: None })
    }

    /// Whether it can only be told after the authentication.
    pub fn needs_claims(&self) -> bool {
        matches!(&self.kind, KeyOrigin::Expression(filter, _) if filter.uses().iter().any(|name| name == "claims"))
    }

    /// The identity that this request is counted under.
    pub fn key(&self, scope: &Scope) -> LimitKey {
        let (filter, failures) = match &self.kind {
            KeyOrigin::Everyone => return LimitKey::Everyone,
            KeyOrigin::Address => {
                return scope.facts().client().map_or(LimitKey::None, |client| match client.address {
                    ClientAddress::Unknown => LimitKey::Unknown,
                    address => LimitKey::Address(address.ip().map(|address| self.client(address))),
                });
            }
            KeyOrigin::Expression(filter, failures) => (filter, failures),
        };
        match filter.run_one(jq::null(), &mut |name| self.variable(scope, name)) {
            Ok(None) => LimitKey::None,
            Ok(Some(value)) if value == jq::null() => LimitKey::None,
            Ok(Some(value)) => LimitKey::Text(text(&value)),
            Err(error) => {
                if failures.allows() {
                    tracing::warn!(%error, "`by` of a limit failed; such requests are counted together");
                }
                LimitKey::Failed
            }
        }
    }

    fn client(&self, address: IpAddr) -> IpAddr {
        self.prefix.map_or(address, |prefix| prefix.client(address))
    }

    /// A variable as a limit sees it. A client makes as many values as it likes by an address of its IPv6 network, or by
    /// sending a field or a parameter several times: it has one address, and what is repeated is one value.
    fn variable(&self, scope: &Scope, name: &str) -> Value {
        let value = scope.variable(name, &None);
        match (name, self.prefix) {
            (_, None) => value,
            ("client", Some(_)) => match scope.facts().client().and_then(|client| client.address.ip()) {
                Some(address @ IpAddr::V6(_)) => {
                    replaced(value, |name| (name == "address").then(|| jq::string(&self.client(address).to_string())))
                }
                _ => value,
            },
            ("headers" | "query", Some(_)) => once(value),
            _ => value,
        }
    }

    /// For `explain`: what happens where the expression is null.
    pub fn outline_missing(&self, missing: Missing) -> &'static str {
        match (&self.kind, missing) {
            (KeyOrigin::Everyone | KeyOrigin::Address, _) => "",
            (KeyOrigin::Expression(..), Missing::Allow) => "; no limit where that is null",
            (KeyOrigin::Expression(..), Missing::Limit) => "; one for all where that is null",
            (KeyOrigin::Expression(..), Missing::Reject) => "; 403 where that is null",
        }
    }

    pub fn outline(&self) -> &'static str {
        match self.kind {
            KeyOrigin::Everyone => "all together",
            KeyOrigin::Address => "each client address",
            KeyOrigin::Expression(..) => "each value of its expression",
        }
    }
}

/// The value of a field that a request has several times.
const REPEATED: &str = "(repeated)";

/// An object whose lists, the fields that came several times, are all the same text.
fn once(value: Value) -> Value {
    let Shape::Object(fields) = value::shape(&value) else { return value };
    if !fields.values().any(is_list) {
        return value;
    }
    let one = |(name, value): (&Value, &Value)| {
        let value = if is_list(value) { jq::string(REPEATED) } else { value.clone() };
        (as_str(name).unwrap_or_default().to_owned(), value)
    };
    jq::object(fields.iter().map(one))
}

fn is_list(value: &Value) -> bool {
    matches!(value::shape(value), Shape::List(_))
}

/// An object with other values of some of its fields.
fn replaced(value: Value, other: impl Fn(&str) -> Option<Value>) -> Value {
    let Shape::Object(fields) = value::shape(&value) else { return value };
    let one = |(name, value): (&Value, &Value)| {
        let name = as_str(name).unwrap_or_default();
        (name.to_owned(), other(name).unwrap_or_else(|| value.clone()))
    };
    jq::object(fields.iter().map(one))
}

fn text(value: &Value) -> String {
    as_str(value).map_or_else(|| value.to_string(), str::to_owned)
}
