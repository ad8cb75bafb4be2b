//! Upstreams that are the gateway itself: each request to them would come back (508).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::Located;
use crocodile_pear::unstable::upstream::UpstreamSpec;
use http::Uri;

use crate::gateway::document::Document;
use crate::listeners::spec::ListenerSpec;
use crate::net::address::{self, Address};

/// Checks that no upstream is where the gateway listens, as far as the addresses tell.
pub fn check(document: &Document, problems: &mut Problems) -> Option<()> {
    // An address that cannot be read is told elsewhere.
    let read = |listener: &ListenerSpec| address::read(&listener.address, &mut Problems::default());
    let listening: Vec<Address> = document.listen.0.iter().filter_map(read).collect();
    let mut sound = Some(());
    for (name, (_, spec)) in document.upstreams.iter().flatten() {
        for (url, socket) in places(spec) {
            let Some(listen) = listening.iter().find(|listen| is_there(url, socket, listen)) else { continue };
            let message = format!("`{name}` is this gateway itself: `listen` is {listen}");
            let remedy = "write the address of the API; a pipeline makes the calls of several endpoints in one request";
            sound = problems.error(url.span, message, remedy);
        }
    }
    sound
}

/// The URL of each server, and its Unix socket.
fn places(spec: &UpstreamSpec) -> impl Iterator<Item = (&Located<String>, Option<&Located<String>>)> {
    let servers = spec.servers.iter().flatten().map(|server| (&server.url, server.socket.as_ref()));
    let one = spec.url.iter().map(|url| (url, spec.socket.as_ref()));
    one.chain(spec.urls.iter().flatten().map(|url| (url, None))).chain(servers)
}

fn is_there(url: &Located<String>, socket: Option<&Located<String>>, listen: &Address) -> bool {
    match (socket, listen) {
        (None, Address::Network(listen)) => is_at(url.as_str(), *listen),
        (Some(socket), Address::Unix(listen)) => **listen == *Path::new(socket.as_str()),
        _ => false,
    }
}

/// Whether a URL surely leads to this address.
fn is_at(url: &str, listen: SocketAddr) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let (Some(host), port) = (uri.host(), uri.port_u16().unwrap_or(usual)) else { return false };
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "localhost" if listen.is_ipv6() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => match host.parse() {
            Ok(address) => address,
            Err(_) => return false,
        },
    };
    // Who connects to no address in particular connects to this machine.
    let here = host.is_loopback() || host.is_unspecified();
    let same = match listen.ip() {
        ip if ip.is_unspecified() => here && (ip.is_ipv6() || host.is_ipv4()),
        ip if host.is_unspecified() => ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip == host,
    };
    listen.port() != 0 && port == listen.port() && same
}

#[cfg(test)]
mod tests {
    use super::super::self_call_check::*;

    #[test]
    fn only_what_is_sure_is_the_gateway() {
        for (url, listen, is) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", true),
            ("http://127.0.0.1:8080/v1", "0.0.0.0:8080", true),
            ("http://localhost:8080", "127.0.0.1:8080", true),
            ("http://localhost:8080", "[::1]:8080", true),
            ("http://0.0.0.0:8080", "127.0.0.1:8080", true),
            ("http://[::1]:8080", "[::]:8080", true),
            ("http://127.0.0.1:8080", "[::]:8080", true),
            ("http://127.0.0.1", "127.0.0.1:80", true),
            ("https://127.0.0.1", "127.0.0.1:443", true),
            ("http://10.0.0.1:8080", "10.0.0.1:8080", true),
            ("http://10.0.0.1:8080", "0.0.0.0:8080", false),
            ("http://[::1]:8080", "0.0.0.0:8080", false),
            ("http://127.0.0.2:8080", "127.0.0.1:8080", false),
            ("http://127.0.0.1:8081", "127.0.0.1:8080", false),
            ("http://127.0.0.1:0", "127.0.0.1:0", false),
            ("http://api.example:8080", "127.0.0.1:8080", false),
            ("no URL", "127.0.0.1:8080", false),
        ] {
            assert_eq!(is_at(url, listen.parse().expect("an address")), is, "{url} at {listen}");
        }
    }
}
