//! Networks as written, `10.0.0.0/8`, and whether an address is in one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Node, NodeKind};
use crocodile_pear::unstable::request::facts::ClientAddress;

/// A network in CIDR notation, or one address; or all who come over Unix sockets. IPv4 addresses that are mapped into IPv6
/// (`::ffff:10.0.0.1`) are IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The addresses that begin with as many bits of the first one.
    Range {
        first: IpAddr,
        /// How many bits they have in common.
        prefix: u32,
    },
    /// The clients of Unix sockets.
    Unix,
}

const WANTED: &str = "a network, as `10.0.0.0/8`, or an address";

/// The clients of Unix sockets, as written: nginx has it with a colon.
const UNIX: [&str; 2] = ["unix", "unix:"];

impl Network {
    /// A network; `Err` is what is wrong, and the remedy.
    fn parse(text: &str) -> Result<Self, (String, String)> {
        if UNIX.contains(&text) {
            return Ok(Network::Unix);
        }
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let Ok(address) = address.parse::<IpAddr>() else { return Err(no_network(text)) };
        let bits = bits(address);
        let prefix = match prefix.map(str::parse::<u32>) {
            None => bits,
            Some(Ok(prefix)) if prefix <= bits => prefix,
            Some(_) => {
                let family = if bits == 32 { "an IPv4" } else { "an IPv6" };
                let message = format!("`{text}` is not a network");
                return Err((message, format!("the prefix of {family} network is a number from 0 to {bits}")));
            }
        };
        let (address, prefix) = match address.to_canonical() {
            canonical if canonical != address && prefix >= 96 => (canonical, prefix - 96),
            _ => (address, prefix),
        };
        let first = masked(address, prefix);
        match first == address {
            true => Ok(Network::Range { first, prefix }),
            false => {
                let message = format!("`{text}` is an address within a network");
                Err((message, format!("write `{first}/{prefix}` for the network, or `{address}` for the one address")))
            }
        }
    }

    pub fn contains(&self, address: ClientAddress) -> bool {
        match self {
            Network::Range { first, prefix } => {
                address.ip().is_some_and(|ip| bits(ip) == bits(*first) && masked(ip, *prefix) == *first)
            }
            Network::Unix => matches!(address, ClientAddress::Unix),
        }
    }

    /// Whether every address of `other` is in it.
    pub fn covers(&self, other: &Network) -> bool {
        match (self, other) {
            (Network::Range { first, prefix }, Network::Range { first: other, prefix: longer }) => {
                prefix <= longer && bits(*other) == bits(*first) && masked(*other, *prefix) == *first
            }
            (one, other) => one == other,
        }
    }
}

fn no_network(text: &str) -> (String, String) {
    let message = format!("`{text}` is not a network");
    let octets: Vec<&str> = text.trim_end_matches(".*").split('.').collect();
    let numbers = octets.iter().all(|octet| octet.parse::<u8>().is_ok());
    let remedy = match (text.ends_with(".*") && numbers, octets.len()) {
        (true, known @ 1..4) => format!("write `{}{}/{}`", octets.join("."), ".0".repeat(4 - known), known * 8),
        _ if text == "*" || text == "all" || text == "any" => {
            "write `0.0.0.0/0` and `::/0` for all addresses".to_owned()
        }
        _ if text == "localhost" => "write `127.0.0.0/8` and `::1`".to_owned(),
        _ => "write `10.0.0.0/8`, `192.0.2.7`, `2001:db8::/32` or `::1`".to_owned(),
    };
    (message, remedy)
}

fn bits(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The first address of the network of this size that an address is in.
fn masked(address: IpAddr, prefix: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Network::Range { first, prefix } if *prefix == bits(*first) => first.fmt(f),
            Network::Range { first, prefix } => write!(f, "{first}/{prefix}"),
            Network::Unix => f.write_str("unix"),
        }
    }
}

impl Decode for Network {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        // `[unix:]` is a map to YAML.
        if let Some([(key, Node { kind: NodeKind::Null, .. })]) = node.as_map()
            && key.as_str() == "unix"
        {
            return Some(Network::Unix);
        }
        let text = node.expect_text(WANTED, problems)?;
        Network::parse(text.as_str())
            .map_err(|(message, remedy)| {
                if !problems.found_within(text.span) {
                    problems.error::<()>(text.span, message, remedy);
                }
            })
            .ok()
    }

    fn schema(_: &mut Definitions) -> Json {
        serde_json::json!({"type": "string", "examples": ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7", "unix"]})
    }
}

/// How many bits of an IPv6 address make one client, where clients are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Prefix(u8);

impl Default for Ipv6Prefix {
    /// The smallest network that a provider gives to a customer (RFC 6177).
    fn default() -> Self {
        Ipv6Prefix(64)
    }
}

impl Ipv6Prefix {
    /// The client that an address belongs to: an IPv4 address stands for itself, an IPv6 address for its network.
    pub fn client(self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V6(address) => masked(address.into(), self.0.into()),
            address => address,
        }
    }
}

impl Decode for Ipv6Prefix {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let bits = NonZeroU32::decode(node, problems)?.get();
        let fits = u8::try_from(bits).ok().filter(|bits| (16..=128).contains(bits));
        fits.map(Ipv6Prefix).or_else(|| {
            let remedy = "write a number from 16 to 128; 64 is usual, 128 counts each address for itself";
            problems.error(node.span, format!("{bits} bits of an IPv6 address are not a client"), remedy)
        })
    }

    fn schema(_: &mut Definitions) -> Json {
        serde_json::json!({"type": "integer", "minimum": 16, "maximum": 128})
    }

    fn written(&self) -> Option<Json> {
        Some(self.0.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cidr::*;

    fn contains(network: &str, address: &str) -> bool {
        Network::parse(network).expect("a network").contains(at(address))
    }

    /// An address; `unix:` is that of a Unix socket.
    fn at(address: &str) -> ClientAddress {
        match address {
            "unix:" => ClientAddress::Unix,
            address => std::net::SocketAddr::new(address.parse().expect("an address"), 1).into(),
        }
    }

    #[test]
    fn an_address_is_in_its_network_in_either_spelling() {
        for (network, address) in [
            ("10.0.0.0/8", "10.255.0.1"),
            ("10.0.0.0/8", "::ffff:10.0.0.1"),
            ("::ffff:10.0.0.0/104", "10.1.2.3"),
            ("::ffff:10.0.0.7", "10.0.0.7"),
            ("0.0.0.0/0", "192.0.2.1"),
            ("::/0", "2001:db8::1"),
            ("2001:db8::/32", "2001:db8:ffff::"),
            ("192.0.2.4/30", "192.0.2.7"),
            ("unix", "unix:"),
            ("unix:", "unix:"),
        ] {
            assert!(contains(network, address), "{network} {address}");
        }
        for (network, address) in [
            ("10.0.0.0/8", "11.0.0.0"),
            ("0.0.0.0/0", "::1"),
            ("::/0", "10.0.0.1"),
            ("::/0", "::ffff:10.0.0.1"),
            ("192.0.2.4/30", "192.0.2.8"),
            ("::1", "::2"),
            ("::/0", "unix:"),
            ("unix", "127.0.0.1"),
        ] {
            assert!(!contains(network, address), "{network} {address}");
        }
    }

    #[test]
    fn what_is_no_network_is_told_with_what_to_write() {
        for (text, remedy) in [
            ("10.0.0.1/8", "write `10.0.0.0/8` for the network, or `10.0.0.1` for the one address"),
            ("10.*", "write `10.0.0.0/8`"),
            ("192.168.1.*", "write `192.168.1.0/24`"),
            ("10.0.0.0/33", "the prefix of an IPv4 network is a number from 0 to 32"),
            ("10.0.0.0/", "the prefix of an IPv4 network is a number from 0 to 32"),
            ("localhost", "write `127.0.0.0/8` and `::1`"),
            ("*", "write `0.0.0.0/0` and `::/0` for all addresses"),
            ("10.0.0", "write `10.0.0.0/8`, `192.0.2.7`, `2001:db8::/32` or `::1`"),
        ] {
            assert_eq!(Network::parse(text).expect_err("no network").1, remedy, "{text}");
        }
    }

    #[test]
    fn what_is_unknown_is_in_no_network() {
        for network in ["0.0.0.0/0", "::/0", "unix", "127.0.0.1"] {
            assert!(!Network::parse(network).expect("a network").contains(ClientAddress::Unknown), "{network}");
        }
    }

    #[test]
    fn an_ipv6_client_is_its_network() {
        let client = |bits, address: &str| Ipv6Prefix(bits).client(address.parse().expect("an address")).to_string();
        assert_eq!(client(64, "2001:db8::ffff:1"), "2001:db8::");
        assert_eq!(client(56, "2001:db8:0:ff::1"), "2001:db8::");
        assert_eq!(client(128, "2001:db8::1"), "2001:db8::1");
        assert_eq!(client(64, "::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(client(64, "192.0.2.1"), "192.0.2.1");
    }

    #[test]
    fn a_network_covers_those_within() {
        let network = |text| Network::parse(text).expect("a network");
        assert!(network("10.0.0.0/8").covers(&network("10.1.0.0/16")));
        assert!(!network("10.1.0.0/16").covers(&network("10.0.0.0/8")));
        assert!(!network("0.0.0.0/0").covers(&network("::/0")));
        assert!(network("unix").covers(&network("unix:")) && !network("::/0").covers(&network("unix")));
    }
}
