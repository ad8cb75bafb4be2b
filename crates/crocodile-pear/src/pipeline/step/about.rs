//! A step's declaration of itself before its pipeline is compiled.

use http::HeaderName;

use crate::pipeline::flow::Order;

/// A step's declaration for the plan and the other steps. Most steps read what arrives and give
/// something: the default.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Whether it only looks on: what arrives leaves as it was, and nothing is given where nothing arrives.
    pub looks_on: bool,
    /// Whether it may refuse a request before any call is made.
    pub guards: bool,
    /// Whether it hands on the answers that arrive without reading them.
    pub hands_on: bool,
    /// Whether it works on what arrives, so there must be something.
    pub needs_items: bool,
    /// Whether what leaves is other than what arrives, so only its own expressions see that.
    pub replaces: bool,
    /// Whether it joins answers while they come: more calls may be made after its own answer has begun.
    pub joins: bool,
    /// Whether it follows links: answers must carry their URL.
    pub follows: bool,
    /// Whether it makes one value of named results.
    pub merges: bool,
    pub asks_database: bool,
    /// Whether it gives server-sent events, whatever the client asks for.
    pub gives_events: bool,
    /// The order in which it takes the items, if it takes all of them.
    pub order: Option<Order>,
    /// Whether it has the last word: behind it, steps may only look on.
    pub ends: bool,
    /// The header fields of the answer that it sets.
    pub writes: Vec<HeaderName>,
    /// The client's own request, if it may be handed on as its one call.
    pub proxies: Option<Proxied>,
}

/// A client's request, handed on to an upstream.
#[derive(Clone, Debug)]
pub struct Proxied {
    /// The name of the upstream.
    pub to: String,
    /// The method; nothing, for the client's own.
    pub method: Option<String>,
}

/// A link of an answer that is a URI template (RFC 6570).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTemplate {
    pub template: String,
    /// Its variables, and whether the configuration gives them; `None` if only a request shows that.
    pub variables: Vec<(String, Option<bool>)>,
}

impl LinkTemplate {
    /// "/orders{?state,sort}: state from `with`, sort not given"
    pub fn outline(&self) -> String {
        let one = |(name, given): &(String, Option<bool>)| match given {
            Some(true) => format!("{name} from `with`"),
            Some(false) => format!("{name} not given"),
            None => format!("{name} if `with` has it"),
        };
        let all: Vec<String> = self.variables.iter().map(one).collect();
        format!("{}: {}", self.template, if all.is_empty() { "no variables".to_owned() } else { all.join(", ") })
    }
}
