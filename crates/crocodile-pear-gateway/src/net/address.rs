//! An address to listen on, as written.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use crocodile_pear::unstable::runtime::socket;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::Located;

/// Where one may listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Network(SocketAddr),
    /// At a Unix socket.
    Unix(Arc<Path>),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Network(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// The port, if it has one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Address::Network(address) => Some(address.port()),
            Address::Unix(_) => None,
        }
    }

    /// Whether one listener takes what the other is for.
    pub fn clashes(&self, other: &Address) -> bool {
        match (self, other) {
            (Address::Network(one), Address::Network(other)) => clash(*one, *other),
            (one, other) => one == other,
        }
    }
}

/// Reads `HOST:PORT`; `localhost` is the machine itself, and `:PORT` every address of it, of IPv6 and IPv4. `unix:/PATH` is a Unix socket.
pub fn read(written: &Located<String>, problems: &mut Problems) -> Option<Address> {
    let text = written.as_str();
    if let Some(path) = text.strip_prefix("unix:") {
        return match socket::path(path) {
            _ if path.starts_with("//") => {
                let remedy = format!("write `unix:/{}`", path.trim_start_matches('/'));
                problems.error(written.span, format!("`{text}` is not an address"), remedy)
            }
            Ok(path) => Some(Address::Unix(path.into())),
            Err(_) if problems.found_within(written.span) => None,
            Err((message, remedy)) => problems.error(written.span, message, remedy),
        };
    }
    let spelled = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let spelled = spelled.or_else(|| text.strip_prefix(':').map(|port| format!("[::]:{port}")));
    match spelled.as_deref().unwrap_or(text).parse() {
        Ok(address) => Some(Address::Network(address)),
        Err(_) if problems.found_within(written.span) => None,
        Err(_) => problems.error(written.span, format!("`{text}` is not an address"), remedy(text)),
    }
}

/// The text to write instead of one that is not an address.
fn remedy(text: &str) -> String {
    const BOTH: &str = "write `127.0.0.1:8080` or `[::1]:8080`";
    if text.contains("${") {
        return "a variable is named with capitals, digits and `_`: `${PORT}`".to_owned();
    }
    if let Some(path) = text.strip_prefix("unix/").or_else(|| text.strip_prefix('/')) {
        return format!("write `unix:/{}`", path.trim_start_matches('/'));
    }
    if let Some((_, rest)) = text.split_once("://") {
        return format!("write `{}`", rest.trim_end_matches('/'));
    }
    if let Ok(port) = text.parse::<u16>() {
        return format!("write `127.0.0.1:{port}`; `0.0.0.0:{port}` is every address of this machine");
    }
    match text.parse() {
        Ok(IpAddr::V4(address)) => return format!("write `{address}:8080`, with the port"),
        Ok(IpAddr::V6(address)) => return format!("write `[{address}]:8080`, with the port"),
        Err(_) => {}
    }
    match text.rsplit_once(':') {
        None if text == "localhost" => "write `localhost:8080`, with the port".to_owned(),
        None => BOTH.to_owned(),
        Some((_, port)) if port.parse::<u16>().is_err() => "a port is a number up to 65535".to_owned(),
        Some(("*", port)) => format!("write `0.0.0.0:{port}`"),
        Some((_, port)) => {
            format!("a name is not an address: write `127.0.0.1:{port}`, or `0.0.0.0:{port}` for every address")
        }
    }
}

fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let same = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && same
}

#[cfg(test)]
mod tests {
    use super::super::address::*;
    use crocodile_pear::unstable::config::problem::Span;

    fn told(text: &str) -> Result<String, String> {
        let mut problems = Problems::default();
        let span = Span { file: 0, line: 1, column: 1, length: 1 };
        let address = read(&Located::new(text.to_owned(), span), &mut problems);
        let remedy = |problems: Problems| problems.into_sorted().remove(0).remedy.unwrap_or_default();
        address.map(|address| address.to_string()).ok_or_else(|| remedy(problems))
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for (text, address) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("localhost:80", "127.0.0.1:80"),
            (":80", "[::]:80"),
            ("unix:/run/app.sock", "unix:/run/app.sock"),
            ("[::1]:0", "[::1]:0"),
        ] {
            assert_eq!(told(text).as_deref(), Ok(address));
        }
    }

    #[test]
    fn the_remedy_is_what_was_meant() {
        for (text, remedy) in [
            ("8081", "write `127.0.0.1:8081`; `0.0.0.0:8081` is every address of this machine"),
            ("10.0.0.1", "write `10.0.0.1:8080`, with the port"),
            ("::1", "write `[::1]:8080`, with the port"),
            ("localhost", "write `localhost:8080`, with the port"),
            ("http://127.0.0.1:80/", "write `127.0.0.1:80`"),
            ("*:80", "write `0.0.0.0:80`"),
            ("127.0.0.1:80800", "a port is a number up to 65535"),
            ("gateway.example:80", "a name is not an address: write `127.0.0.1:80`, or `0.0.0.0:80` for every address"),
            ("127.0.0.1:${port}", "a variable is named with capitals, digits and `_`: `${PORT}`"),
            ("unix//run/app.sock", "write `unix:/run/app.sock`"),
            ("unix:///run/app.sock", "write `unix:/run/app.sock`"),
            ("/run/app.sock", "write `unix:/run/app.sock`"),
            ("unix:app.sock", "write the whole path, from `/` on"),
            ("nowhere", "write `127.0.0.1:8080` or `[::1]:8080`"),
        ] {
            assert_eq!(told(text), Err(remedy.to_owned()));
        }
    }

    #[test]
    fn every_address_clashes_with_each() {
        let clash = |one: &str, other: &str| clash(one.parse().expect("one"), other.parse().expect("two"));
        assert!(clash("127.0.0.1:1", "127.0.0.1:1") && clash("0.0.0.0:1", "127.0.0.1:1") && clash("[::1]:1", "[::]:1"));
        assert!(!clash("127.0.0.1:1", "127.0.0.1:2") && !clash("127.0.0.1:1", "127.0.0.2:1"));
        assert!(!clash("127.0.0.1:0", "127.0.0.1:0"));
    }
}
