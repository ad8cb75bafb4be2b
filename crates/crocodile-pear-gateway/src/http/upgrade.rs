//! `upgrade`: the protocols that the clients of an endpoint may change to (RFC 9110, 7.8).

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Located, Node, Texts, Timeout};
use crocodile_pear::unstable::http::list;
use crocodile_pear::unstable::pipeline::step::Proxied;
use crocodile_pear::unstable::pipeline::steps::Written;
use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::upstream::ReadyUpstream;
use http::header::UPGRADE;
use http::{HeaderMap, HeaderValue};
use indexmap::IndexMap;

use crate::http::route::Route;

/// Long, as the kernel finds out when a side is gone.
const IDLE: Timeout = Timeout::After(Duration::from_secs(3600));

spec! {
    /// The protocols that clients of an endpoint may switch to, such as WebSocket. If a request's `Upgrade` names one
    /// of them, the gateway asks the upstream for it. Once the upstream agrees (101), bytes pass in both directions
    /// until both sides have ended. The timeouts of the call and of the endpoint end with the 101. Without this
    /// setting, such a request is sent on without its `Upgrade`. The upstream always gets the client's `origin`; where
    /// `cors` is written, the gateway refuses upgrades from pages that it does not allow. Short form: a protocol, or a
    /// list of them.
    pub struct Upgrade {
        /// A protocol, or a list of them: `websocket`.
        pub to: Texts,
        /// Idle timeout: how long both sides may be silent before the connection is closed. `never`: no timeout.
        pub idle: Timeout = IDLE,
    }
    short(short)
}

fn short(text: Located<String>, problems: &mut Problems) -> Option<Upgrade> {
    spec::only([("to", text)], problems)
}

/// RFC 9110, 5.6.2
fn token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

/// The setting at an endpoint.
#[derive(Clone, Debug)]
pub struct Upgrades(Upgrade);

impl Decode for Upgrades {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let read = match node.as_list() {
            Some(_) => Texts::decode(node, problems).map(|to| Upgrade { to, idle: IDLE }),
            None => Upgrade::decode(node, problems),
        };
        let read = read?;
        if read.to.0.is_empty() {
            return problems.error(
                node.span,
                "no protocol is in this list",
                "write `websocket`, or leave `upgrade` out",
            );
        }
        Some(Upgrades(read))
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let list = serde_json::json!({"type": "array", "items": {"type": "string"}});
        serde_json::json!({"anyOf": [Upgrade::schema(definitions), list]})
    }
}

impl Upgrades {
    /// Where it is written: its first protocol.
    pub fn span(&self) -> Span {
        self.0.to.0.first().map(|name| name.span).unwrap_or_default()
    }

    /// Checks that the endpoint can keep what it promises.
    pub fn compile(
        &self,
        pipeline: &[Located<Written>],
        route: &Route,
        upstreams: &IndexMap<String, Arc<ReadyUpstream>>,
        problems: &mut Problems,
    ) -> Option<UpgradeProtocols> {
        let Upgrades(Upgrade { to: Texts(to), idle }) = self;
        // All are read before one that failed ends it, so that every problem is found.
        let read: Vec<_> = to.iter().map(|name| protocol(name, *idle, problems)).collect();
        let (first, read) = (to.first()?, read.into_iter().collect::<Option<_>>());
        let Some(call) = proxied(pipeline, route) else {
            let remedy =
                "write one `request` as the pipeline, with the client's method and body, or leave `upgrade` out";
            return problems.error(first.span, "an upgrade needs an endpoint that is a proxy", remedy);
        };
        // One that is unknown is told where it is called.
        if upstreams.get(call.to.as_str()).is_some_and(|upstream| !upstream.takes_upgrades()) {
            let message = format!("`{}` uses HTTP/2 only, which has no upgrade", call.to);
            return problems.error(first.span, message, "write `protocol: auto` at the upstream");
        }
        read.map(UpgradeProtocols)
    }
}

fn protocol(
    written: &Located<String>,
    idle: Timeout,
    problems: &mut Problems,
) -> Option<Arc<crocodile_pear::unstable::message::side_channel::Upgrade>> {
    let (name, version) = match written.value.split_once('/') {
        Some((name, version)) => (name, Some(version)),
        None => (written.as_str(), None),
    };
    if !token(name) || version.is_some_and(|version| !token(version)) {
        let remedy = "write it as clients do in `Upgrade`: `websocket`";
        return problems.error(written.span, format!("`{written}` is not the name of a protocol"), remedy);
    }
    // Requests inside such a tunnel would meet none of the endpoints.
    if ["h2c", "http", "tls"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
        let message = format!("`{written}` cannot be allowed: the requests in it would pass the gateway unseen");
        return problems.error(written.span, message, "leave it out; over TLS, HTTP/2 needs no upgrade");
    }
    let protocol = HeaderValue::from_str(written.as_str()).expect("a token is a value");
    Some(Arc::new(crocodile_pear::unstable::message::side_channel::Upgrade { protocol, idle }))
}

/// The one call of a pipeline, if it is the client's own request.
fn proxied(pipeline: &[Located<Written>], route: &Route) -> Option<Proxied> {
    let [only] = pipeline else { return None };
    let made_with = |method: &String| route.method.as_ref().is_none_or(|own| own.as_str() == method);
    only.value.about().proxies.filter(|call| call.method.as_ref().is_none_or(made_with))
}

/// The protocols of an endpoint, ready.
#[derive(Debug)]
pub struct UpgradeProtocols(Vec<Arc<crocodile_pear::unstable::message::side_channel::Upgrade>>);

impl UpgradeProtocols {
    /// The first protocol that the client names and may have.
    pub fn choose(&self, client: &HeaderMap) -> Option<Arc<crocodile_pear::unstable::message::side_channel::Upgrade>> {
        list::field(client, &UPGRADE)
            .find_map(|name| self.0.iter().find(|known| known.protocol.as_bytes().eq_ignore_ascii_case(name)).cloned())
    }

    /// The line of `explain`.
    pub fn outline(&self) -> String {
        let names: Vec<&str> = self.0.iter().filter_map(|upgrade| upgrade.protocol.to_str().ok()).collect();
        let idle = self.0.first().and_then(|upgrade| upgrade.idle.duration()).and_then(|idle| idle.written());
        let end = match idle.as_ref().and_then(Json::as_str) {
            Some(idle) => format!("closed after {idle} of silence"),
            None => "however long it is silent".to_owned(),
        };
        format!("{} becomes a tunnel, {end}", names.join(" or "))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::super::upgrade::*;

    fn allowed(names: &[&'static str]) -> UpgradeProtocols {
        let upgrade = |name| {
            Arc::new(crocodile_pear::unstable::message::side_channel::Upgrade {
                protocol: HeaderValue::from_static(name),
                idle: IDLE,
            })
        };
        UpgradeProtocols(names.iter().copied().map(upgrade).collect())
    }

    #[test]
    fn the_first_protocol_that_the_client_names_and_may_have_is_chosen() {
        let allowed = allowed(&["websocket", "tcp"]);
        for (fields, wanted) in [
            (&["websocket"][..], Some("websocket")),
            (&["WebSocket"], Some("websocket")),
            (&["h2c, tcp , websocket"], Some("tcp")),
            (&["h2c", "websocket"], Some("websocket")),
            (&["websockets", "web socket", "websocket/13", ""], None),
            (&[], None),
        ] {
            let fields =
                fields.iter().map(|value| (HeaderName::from_static("upgrade"), value.parse().expect("a value")));
            let chosen = allowed.choose(&HeaderMap::from_iter(fields));
            assert_eq!(chosen.as_ref().map(|upgrade| &upgrade.protocol), wanted.map(HeaderValue::from_static).as_ref());
        }
    }

    #[test]
    fn it_says_what_becomes_of_a_request() {
        assert_eq!(
            allowed(&["websocket", "tcp"]).outline(),
            "websocket or tcp becomes a tunnel, closed after 1h of silence"
        );
    }
}
