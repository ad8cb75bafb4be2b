//! `clients.trust`: what trusted proxies say of the client behind them, in `Forwarded` (RFC 7239) or `X-Forwarded-For`.

use std::net::{IpAddr, SocketAddr};

use crocodile_pear::scope::{ClientAddress, ClientFacts};
use http::header::{FORWARDED, HeaderName};
use http::{HeaderMap, HeaderValue};

use crate::network::Network;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The proxies that are believed.
#[derive(Clone, Debug, Default)]
pub struct Trust(pub Vec<Network>);

/// What one proxy says of who called it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hop {
    /// Nothing, where it does not say, or in words of its own.
    address: Option<SocketAddr>,
    proto: Option<String>,
    host: Option<String>,
}

impl Trust {
    /// Whether a proxy at this address is believed.
    pub fn trusts(&self, address: ClientAddress) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Puts the client behind the proxies in the place of the one that connected.
    pub fn resolve(&self, client: &mut ClientFacts, headers: &HeaderMap) {
        let standard = headers.contains_key(FORWARDED).then(|| self.client(&standard_hops(headers)));
        let usual = headers.contains_key(FOR).then(|| self.client(&usual_hops(headers)));
        let found = match (standard, usual) {
            // Proxies write one and hand the other on: what they hand on, anyone may have written.
            (Some(standard), Some(usual)) => standard.filter(|one| {
                usual.as_ref().is_some_and(|other| one.address.map(|at| at.ip()) == other.address.map(|at| at.ip()))
            }),
            (one, other) => one.or(other).flatten(),
        };
        let only = || Hop { proto: last(headers, &PROTO), host: last(headers, &HOST), ..Hop::default() };
        let hop = match found {
            Some(hop) => hop,
            None if !headers.contains_key(FORWARDED) && !headers.contains_key(FOR) => only(),
            None => return,
        };
        if let Some(address) = hop.address {
            client.address = address.into();
        }
        match hop.proto.as_deref() {
            Some(proto) if proto.eq_ignore_ascii_case("https") => client.tls = true,
            Some(proto) if proto.eq_ignore_ascii_case("http") => client.tls = false,
            _ => {}
        }
        client.host = hop.host.and_then(|host| HeaderValue::from_str(&host).ok());
    }

    /// The client, from the right: each proxy has added who called it, and is believed as long as it is trusted.
    fn client(&self, hops: &[Hop]) -> Option<Hop> {
        let mut client: Option<Hop> = None;
        for hop in hops.iter().rev() {
            let Some(address) = hop.address else { break };
            let before = client.unwrap_or_default();
            client = Some(Hop {
                address: hop.address,
                proto: hop.proto.clone().or(before.proto),
                host: hop.host.clone().or(before.host),
            });
            if !self.trusts(address.into()) {
                break;
            }
        }
        client
    }
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

fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    // What is no text says nothing, and ends what is believed.
    headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default())
}

/// `Forwarded: for=192.0.2.60;proto=http;host=shop.example, for="[2001:db8::1]:80"`
fn standard_hops(headers: &HeaderMap) -> Vec<Hop> {
    values(headers, &FORWARDED).flat_map(|value| split(value, ',')).map(standard_hop).collect()
}

fn standard_hop(element: &str) -> Hop {
    let mut hop = Hop::default();
    for pair in split(element, ';') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        let value = unquote(value.trim());
        match name.trim().to_ascii_lowercase().as_str() {
            "for" => hop.address = node(&value),
            "proto" => hop.proto = Some(value),
            "host" => hop.host = Some(value),
            _ => {}
        }
    }
    hop
}

fn unquote(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) else {
        return value.to_owned();
    };
    let mut escaped = false;
    let mut keep = |c: &char| {
        escaped = *c == '\\' && !escaped;
        !escaped
    };
    inner.chars().filter(|c| keep(c)).collect()
}

/// `X-Forwarded-For: 203.0.113.195, 2001:db8::1`, with the protocol and host of each where there are as many.
fn usual_hops(headers: &HeaderMap) -> Vec<Hop> {
    let list = |name| values(headers, name).flat_map(|value| value.split(',')).map(str::trim).collect::<Vec<_>>();
    let (nodes, protos, hosts) = (list(&FOR), list(&PROTO), list(&HOST));
    let of = |list: &[&str], at: usize| match list.len() == nodes.len() {
        true => Some(list[at].to_owned()),
        false => list.last().map(|last| (*last).to_owned()),
    };
    let hop = |(at, text): (usize, &&str)| Hop { address: node(text), proto: of(&protos, at), host: of(&hosts, at) };
    nodes.iter().enumerate().map(hop).collect()
}

fn last(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    values(headers, name).last().and_then(|value| value.rsplit(',').next()).map(|value| value.trim().to_owned())
}

/// An address, with or without a port and brackets; words as `unknown` and `_hidden` are none.
fn node(text: &str) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0));
    address.or_else(|_| text.parse()).ok()
}

#[cfg(test)]
mod tests {
    use http::Version;

    use super::*;

    /// What is believed of a client behind 10.0.0.1.
    fn told(fields: &[(&'static str, &'static str)]) -> String {
        let network = |text: &str| crocodile_pear::spec::Node::from_json(&text.into());
        let read = |text| crocodile_pear::spec::Decode::decode(&network(text), &mut Default::default());
        let trust = Trust(["10.0.0.0/8", "2001:db8::/32"].into_iter().filter_map(read).collect());
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let address = "10.0.0.1:80".parse::<SocketAddr>().expect("an address").into();
        let mut client = ClientFacts { address, version: Version::HTTP_11, tls: false, certificate: None, host: None };
        trust.resolve(&mut client, &fields.iter().map(field).collect());
        let host = client.host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or("-");
        let ClientAddress::Network(address) = client.address else { return "unix:".to_owned() };
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
            (&[("x-forwarded-for", "192.0.2.7, unknown, 10.2.2.2")], "10.2.2.2:0 http -"),
            (&[("x-forwarded-for", "nonsense")], "10.0.0.1:80 http -"),
            (&[("x-forwarded-for", "[2001:db9::1]:443")], "[2001:db9::1]:443 http -"),
            (&[("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")], "192.0.2.7:0 https -"),
            (
                &[("x-forwarded-for", "192.0.2.7, 10.2.2.2"), ("x-forwarded-proto", "https, http")],
                "192.0.2.7:0 https -",
            ),
            (&[("x-forwarded-proto", "https"), ("x-forwarded-host", "shop.test")], "10.0.0.1:80 https shop.test"),
            (&[("forwarded", "for=192.0.2.7;proto=https;host=\"shop.test:8080\"")], "192.0.2.7:0 https shop.test:8080"),
            (
                &[("forwarded", "For=\"[2001:db9::2]:4711\", for=\"[2001:db8::1]\";by=10.0.0.1")],
                "[2001:db9::2]:4711 http -",
            ),
            (&[("forwarded", "for=\"192.0.2.7, for=10.0.0.3\"")], "10.0.0.1:80 http -"),
            (&[("forwarded", "for=_hidden;proto=https")], "10.0.0.1:80 http -"),
            // One of the two came from the client.
            (&[("forwarded", "for=1.1.1.1"), ("x-forwarded-for", "192.0.2.7")], "10.0.0.1:80 http -"),
            (&[("forwarded", "for=192.0.2.7"), ("x-forwarded-for", "192.0.2.7")], "192.0.2.7:0 http -"),
        ] {
            assert_eq!(told(fields), wanted, "{fields:?}");
        }
    }
}
