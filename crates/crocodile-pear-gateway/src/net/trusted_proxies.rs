//! `clients.trust` and `clients.field`: what trusted proxies say of the client behind them, in `Forwarded` (RFC 7239),
//! `X-Forwarded-For` or `X-Real-IP`. A proxy's client is never the proxy: a client that cannot be read is unknown.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crocodile_pear::unstable::choice;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::Located;
use crocodile_pear::unstable::request::facts::{ClientAddress, ClientFacts};
use http::header::{FORWARDED, HeaderName};
use http::{HeaderMap, HeaderValue};

use crate::net::cidr::Network;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL: HeaderName = HeaderName::from_static("x-real-ip");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

choice! {
    /// Where trusted proxies name the client.
    pub enum ForwardedFieldSpec {
        /// In `Forwarded` (RFC 7239).
        Forwarded = "forwarded",
        /// In `X-Forwarded-For`, `-Proto` and `-Host`.
        XForwardedFor = "x-forwarded-for",
        /// In `X-Real-IP`, with `X-Forwarded-Proto` and `-Host`.
        XRealIp = "x-real-ip",
        /// In the PROXY protocol, and in no header field.
        Proxy = "proxy",
    }
}

/// The proxies that are believed, and where they name the client.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies {
    pub networks: Vec<Network>,
    /// The field that they write on every request; `None` if the configuration does not say it.
    pub field: Option<Located<ForwardedFieldSpec>>,
}

/// The statement of one proxy about its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hop {
    /// `None`, where it does not say, or in words of its own.
    address: Option<SocketAddr>,
    proto: Option<String>,
    host: Option<String>,
}

impl TrustedProxies {
    /// Whether a proxy at this address is believed.
    pub fn trusts(&self, address: ClientAddress) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// Checks that the field can name a client. `relayed`: a listener has `proxy_protocol: on`.
    pub fn check(&self, relayed: bool, problems: &mut Problems) -> Option<()> {
        let Some(field) = &self.field else { return Some(()) };
        if self.networks.is_empty() {
            let remedy = "write `trust: [10.0.0.0/8]` with the addresses of your proxies, or leave `field` out";
            return problems.error(field.span, "`field` needs `trust`: without it, no proxy is believed", remedy);
        }
        if field.value == ForwardedFieldSpec::Proxy && !relayed {
            let remedy = "write `proxy_protocol: on` at a listener, or name the header field that your proxies write";
            return problems.error(field.span, "no listener has `proxy_protocol: on`", remedy);
        }
        Some(())
    }

    /// Puts the client behind the proxies in the place of the one that connected.
    pub fn resolve(&self, client: &mut ClientFacts, headers: &HeaderMap) {
        let hop = match self.field.as_ref().map(|field| field.value) {
            Some(ForwardedFieldSpec::Proxy) => return,
            Some(ForwardedFieldSpec::Forwarded) => self.client(&standard_hops(headers)),
            Some(ForwardedFieldSpec::XForwardedFor) => self.client(&usual_hops(headers)),
            Some(ForwardedFieldSpec::XRealIp) => real_hop(headers),
            None if headers.keys().any(of_proxies) => self.agreed(headers),
            // No proxy handed it on: a trusted machine asks for itself.
            None => return,
        };
        client.address = hop.address.map_or(ClientAddress::Unknown, ClientAddress::from);
        match hop.proto.as_deref() {
            Some(proto) if proto.eq_ignore_ascii_case("https") => client.tls = true,
            Some(proto) if proto.eq_ignore_ascii_case("http") => client.tls = false,
            _ => {}
        }
        client.host = hop.host.and_then(|host| HeaderValue::from_str(&host).ok());
    }

    /// The client that all fields name. A proxy writes one of them and hands the others on, and what it hands on, anyone may
    /// have written.
    fn agreed(&self, headers: &HeaderMap) -> Hop {
        let ip = |hop: &Hop| hop.address.map(|address| address.ip());
        let hop = match (headers.contains_key(FORWARDED), headers.contains_key(FOR)) {
            (true, false) => self.client(&standard_hops(headers)),
            (false, true) => self.client(&usual_hops(headers)),
            (true, true) => {
                let (standard, usual) = (self.client(&standard_hops(headers)), self.client(&usual_hops(headers)));
                if ip(&standard) == ip(&usual) { standard } else { Hop::default() }
            }
            // `X-Real-IP` is believed alone only where the configuration names it: many proxies hand it on.
            (false, false) => return Hop { address: None, ..real_hop(headers) },
        };
        let real = real_hop(headers);
        // It names who called the last proxy: the client, or a proxy before it.
        let fits = ip(&real) == ip(&hop) || real.address.is_some_and(|address| self.trusts(address.into()));
        if fits || !headers.contains_key(REAL) { hop } else { Hop::default() }
    }

    /// The client, from the right: each proxy has added who called it, and is believed as long as it is trusted. Where a
    /// trusted one did not say it in a way that can be read, the client is not known.
    fn client(&self, hops: &[Hop]) -> Hop {
        let mut client = Hop::default();
        for hop in hops.iter().rev() {
            client.address = hop.address;
            client.proto = hop.proto.clone().or(client.proto);
            client.host = hop.host.clone().or(client.host);
            if !hop.address.is_some_and(|address| self.trusts(address.into())) {
                break;
            }
        }
        client
    }
}

/// Whether only a proxy has a reason to send this field. A request that has one was handed on.
fn of_proxies(name: &HeaderName) -> bool {
    const NAMES: [&str; 12] = [
        "cf-connecting-ip",
        "client-ip",
        "fastly-client-ip",
        "fly-client-ip",
        "forwarded",
        "true-client-ip",
        "via",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-envoy-external-address",
        "x-original-forwarded-for",
        "x-real-ip",
    ];
    let name = name.as_str();
    name.starts_with("x-forwarded") || NAMES.binary_search(&name).is_ok()
}

/// `X-Real-IP: 203.0.113.195`, which is one address, with the protocol and host of the last proxy.
fn real_hop(headers: &HeaderMap) -> Hop {
    let last = |name| values(headers, name).last().and_then(|value| value.rsplit(',').next()).map(str::trim);
    let mut named = values(headers, &REAL);
    let address = named.next().filter(|_| named.next().is_none()).and_then(|text| node(text.trim()));
    Hop { address, proto: last(&PROTO).map(str::to_owned), host: last(&HOST).map(str::to_owned) }
}

/// The elements of a list that may come in several fields, split at what stands outside of quotes.
fn split(text: &str, at: char) -> Vec<&str> {
    let (mut parts, mut begin, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (position, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == at && !quoted => {
                parts.push(text[begin..position].trim());
                begin = position + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text[begin..].trim());
    parts
}

fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> + use<'a> {
    // What is no text says nothing, and ends what is believed.
    headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default())
}

/// `Forwarded: for=192.0.2.60;proto=http;host=shop.example, for="[2001:db8::1]:80"`
fn standard_hops(headers: &HeaderMap) -> Vec<Hop> {
    values(headers, &FORWARDED).flat_map(|value| split(value, ',')).map(standard_hop).collect()
}

/// Reads an element; one that is malformed or says something twice is not believed.
fn standard_hop(element: &str) -> Hop {
    read_hop(element).unwrap_or_default()
}

fn read_hop(element: &str) -> Option<Hop> {
    let (mut node_said, mut hop) = (None, Hop::default());
    for pair in split(element, ';') {
        let (name, value) = pair.split_once('=')?;
        let value = unquote(value.trim())?;
        let said = match name.trim().to_ascii_lowercase().as_str() {
            "for" => &mut node_said,
            "proto" => &mut hop.proto,
            "host" => &mut hop.host,
            _ => continue,
        };
        if said.replace(value).is_some() {
            return None;
        }
    }
    hop.address = node_said.as_deref().and_then(node);
    Some(hop)
}

/// A value without its quotes; `None` if they do not match.
fn unquote(value: &str) -> Option<String> {
    let Some(quoted) = value.strip_prefix('"') else { return (!value.contains('"')).then(|| value.to_owned()) };
    let (mut text, mut signs) = (String::with_capacity(quoted.len()), quoted.chars());
    loop {
        match signs.next()? {
            '"' => return signs.as_str().is_empty().then_some(text),
            '\\' => text.push(signs.next()?),
            sign => text.push(sign),
        }
    }
}

/// `X-Forwarded-For: 203.0.113.195, 2001:db8::1`, with the protocol and host of each where there are as many.
fn usual_hops(headers: &HeaderMap) -> Vec<Hop> {
    let list = |name| values(headers, name).flat_map(|value| value.split(',')).map(str::trim).collect::<Vec<_>>();
    let (mut nodes, protos, hosts) = (list(&FOR), list(&PROTO), list(&HOST));
    if nodes.is_empty() {
        // It says how it was asked, but not by whom.
        nodes.push("");
    }
    let of = |list: &[&str], at: usize| match list.len() == nodes.len() {
        true => Some(list[at].to_owned()),
        false => list.last().map(|last| (*last).to_owned()),
    };
    let hop = |(at, text): (usize, &&str)| Hop { address: node(text), proto: of(&protos, at), host: of(&hosts, at) };
    nodes.iter().enumerate().map(hop).collect()
}

/// An address, with or without a port; an IPv6 address may have brackets. Words as `unknown` and `_hidden` are none.
fn node(text: &str) -> Option<SocketAddr> {
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = match bracketed {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => text.parse::<IpAddr>().ok(),
    };
    address.map(|address| SocketAddr::new(address, 0)).or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use http::Version;

    use super::super::trusted_proxies::*;

    /// The client that is believed behind 10.0.0.1.
    fn told(field: Option<ForwardedFieldSpec>, fields: &[(&'static str, &'static str)]) -> String {
        let network = |text: &str| crocodile_pear::unstable::config::spec::Node::from_json(&text.into());
        let read =
            |text| crocodile_pear::unstable::config::spec::Decode::decode(&network(text), &mut Default::default());
        let networks = ["10.0.0.0/8", "2001:db8::/32"].into_iter().filter_map(read).collect();
        let trust = TrustedProxies { networks, field: field.map(|field| Located::new(field, Default::default())) };
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).expect("a value"))
        };
        let address = "10.0.0.1:80".parse::<SocketAddr>().expect("an address").into();
        let mut client = ClientFacts { address, version: Version::HTTP_11, tls: false, certificate: None, host: None };
        trust.resolve(&mut client, &fields.iter().map(field).collect());
        let host = client.host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or("-");
        let address = match client.address {
            ClientAddress::Network(address) => address.to_string(),
            other => other.to_string(),
        };
        format!("{address} {} {host}", client.scheme())
    }

    #[test]
    fn the_last_address_that_no_trusted_proxy_has_is_the_client() {
        for (fields, wanted) in [
            (&[][..], "10.0.0.1:80 http -"),
            (&[("x-forwarded-for", "192.0.2.7")], "192.0.2.7:0 http -"),
            // What stands to the left, the client may have written.
            (&[("x-forwarded-for", "127.0.0.1, 192.0.2.7, 10.9.9.9")], "192.0.2.7:0 http -"),
            (&[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "192.0.2.7")], "192.0.2.7:0 http -"),
            (&[("x-forwarded-for", "10.1.1.1, 10.2.2.2")], "10.1.1.1:0 http -"),
            (&[("x-forwarded-for", "[2001:db9::1]:443")], "[2001:db9::1]:443 http -"),
            (&[("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")], "192.0.2.7:0 https -"),
            (
                &[("x-forwarded-for", "192.0.2.7, 10.2.2.2"), ("x-forwarded-proto", "https, http")],
                "192.0.2.7:0 https -",
            ),
            (&[("forwarded", "for=192.0.2.7;proto=https;host=\"shop.test:8080\"")], "192.0.2.7:0 https shop.test:8080"),
            (
                &[("forwarded", "For=\"[2001:db9::2]:4711\", for=\"[2001:db8::1]\";by=10.0.0.1")],
                "[2001:db9::2]:4711 http -",
            ),
            (&[("forwarded", "for=192.0.2.7"), ("x-forwarded-for", "192.0.2.7")], "192.0.2.7:0 http -"),
            (&[("x-forwarded-for", "192.0.2.7"), ("x-real-ip", "192.0.2.7")], "192.0.2.7:0 http -"),
            (&[("x-forwarded-for", "192.0.2.7, 10.2.2.2"), ("x-real-ip", "10.2.2.2")], "192.0.2.7:0 http -"),
            // A trusted machine that asks for itself sends fields of its own.
            (&[("x-request-id", "7"), ("user-agent", "probe")], "10.0.0.1:80 http -"),
        ] {
            assert_eq!(told(None, fields), wanted, "{fields:?}");
        }
    }

    #[test]
    fn a_client_that_cannot_be_read_is_unknown_and_never_the_proxy() {
        for (fields, wanted) in [
            (&[("x-forwarded-for", "nonsense")][..], "unknown http -"),
            (&[("x-forwarded-for", "")], "unknown http -"),
            (&[("x-forwarded-for", ",")], "unknown http -"),
            (&[("x-forwarded-for", "192.0.2.7,")], "unknown http -"),
            (&[("x-forwarded-for", "192.0.2.7, unknown, 10.2.2.2")], "unknown http -"),
            (&[("x-forwarded-for", "192.0.2.7 10.0.0.1")], "unknown http -"),
            (&[("x-forwarded-for", "192.0.2.256")], "unknown http -"),
            (&[("x-forwarded-for", "[192.0.2.7]")], "unknown http -"),
            (&[("x-forwarded-for", "fe80::1%eth0")], "unknown http -"),
            (&[("x-forwarded-for", "caf\u{e9}")], "unknown http -"),
            (&[("x-forwarded-for", "192.0.2.7"), ("x-forwarded-for", "")], "unknown http -"),
            (&[("x-forwarded-proto", "https"), ("x-forwarded-host", "shop.test")], "unknown https shop.test"),
            (&[("forwarded", "x")], "unknown http -"),
            (&[("forwarded", "")], "unknown http -"),
            (&[("forwarded", "for=")], "unknown http -"),
            (&[("forwarded", "for=_hidden;proto=https")], "unknown https -"),
            (&[("forwarded", "for=\"192.0.2.7, for=10.0.0.3\"")], "unknown http -"),
            (&[("forwarded", "for=\", for=192.0.2.7")], "unknown http -"),
            (&[("forwarded", "for=10.0.0.3;for=192.0.2.7")], "unknown http -"),
            (&[("forwarded", "for=192.0.2.7;x")], "unknown http -"),
            (&[("forwarded", "for=\"192.0.2.7\"x")], "unknown http -"),
            (&[("forwarded", "proto=https")], "unknown https -"),
            // A proxy handed it on, and its field is not the one that is believed.
            (&[("x-real-ip", "192.0.2.7")], "unknown http -"),
            (&[("x-real-ip", "10.0.0.1")], "unknown http -"),
            (&[("x-real-ip", "10.0.0.1"), ("x-forwarded-proto", "https")], "unknown https -"),
            (&[("via", "1.1 edge")], "unknown http -"),
            (&[("x-forwarded-port", "443")], "unknown http -"),
            (&[("cf-connecting-ip", "10.0.0.1")], "unknown http -"),
            (&[("x-original-forwarded-for", "10.0.0.1")], "unknown http -"),
            // One of them came from the client.
            (&[("x-forwarded-for", "10.0.0.1"), ("x-real-ip", "192.0.2.7")], "unknown http -"),
            (&[("x-forwarded-for", "192.0.2.7"), ("x-real-ip", "x")], "unknown http -"),
            (&[("forwarded", "for=192.0.2.8"), ("x-real-ip", "192.0.2.7")], "unknown http -"),
            (&[("forwarded", "for=1.1.1.1"), ("x-forwarded-for", "192.0.2.7")], "unknown http -"),
            (&[("forwarded", "x"), ("x-forwarded-for", "192.0.2.7")], "unknown http -"),
            (&[("forwarded", ""), ("x-forwarded-for", "192.0.2.7")], "unknown http -"),
            (&[("forwarded", "for=192.0.2.7"), ("x-forwarded-for", "192.0.2.7, x")], "unknown http -"),
        ] {
            assert_eq!(told(None, fields), wanted, "{fields:?}");
        }
    }

    #[test]
    fn only_the_field_that_the_proxies_write_is_believed() {
        use ForwardedFieldSpec::{Forwarded, Proxy, XForwardedFor, XRealIp};
        let both = [("forwarded", "for=1.1.1.1"), ("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")];
        let broken = [("forwarded", "x"), ("x-forwarded-for", "192.0.2.7")];
        for (field, fields, wanted) in [
            (XForwardedFor, &both[..], "192.0.2.7:0 https -"),
            (Forwarded, &both, "1.1.1.1:0 http -"),
            (Proxy, &both, "10.0.0.1:80 http -"),
            (XForwardedFor, &broken, "192.0.2.7:0 http -"),
            (Forwarded, &broken, "unknown http -"),
            // A client may have made its proxy drop the field (`connection: x-forwarded-for`).
            (XForwardedFor, &[], "unknown http -"),
            (XForwardedFor, &both[..1], "unknown http -"),
            (Forwarded, &both[1..], "unknown http -"),
            (XRealIp, &[("x-real-ip", "192.0.2.7"), ("x-forwarded-for", "1.1.1.1")], "192.0.2.7:0 http -"),
            (XRealIp, &[("x-real-ip", "192.0.2.7"), ("x-forwarded-proto", "http, https")], "192.0.2.7:0 https -"),
            (XRealIp, &[("x-real-ip", "192.0.2.7"), ("x-real-ip", "192.0.2.7")], "unknown http -"),
            (XRealIp, &[("x-real-ip", "192.0.2.7, 1.1.1.1")], "unknown http -"),
            (XRealIp, &[("x-real-ip", "")], "unknown http -"),
            (XRealIp, &both, "unknown https -"),
            (XRealIp, &[], "unknown http -"),
        ] {
            assert_eq!(told(Some(field), fields), wanted, "{field:?} {fields:?}");
        }
    }
}
