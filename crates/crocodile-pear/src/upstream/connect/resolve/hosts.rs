//! Names that need no DNS: `localhost` (RFC 6761, 6.3), and those in the file `hosts`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The names in a file `hosts`.
#[derive(Debug, Default)]
pub(super) struct Hosts(HashMap<String, Vec<IpAddr>>);

impl Hosts {
    /// Reads the file. Lines that are not of its form are left out, as libc does.
    pub(super) fn parse(text: &str) -> Self {
        let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
            words.for_each(|name| hosts.entry(plain(name)).or_default().push(address));
        }
        Hosts(hosts)
    }

    /// The addresses of a name that needs no DNS.
    pub(super) fn find(&self, name: &str) -> Option<Vec<IpAddr>> {
        let name = plain(name);
        let written = self.0.get(&name).cloned();
        let local = name == "localhost" || name.ends_with(".localhost");
        written.or_else(|| local.then(|| vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]))
    }
}

/// A name as it is compared.
fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::hosts::*;

    #[test]
    fn names_of_the_file_and_localhost_need_no_dns() {
        let hosts = Hosts::parse("127.0.0.1 one Two # three\n\n::1 one\n# 10.0.0.1 four\n10.0.0.999 five\nsix\n");
        let find = |name| hosts.find(name).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(find("one"), Some(vec!["127.0.0.1".to_owned(), "::1".to_owned()]));
        assert_eq!(find("TWO."), Some(vec!["127.0.0.1".to_owned()]));
        for name in ["three", "four", "five", "six", "localhost.example"] {
            assert_eq!(find(name), None, "{name}");
        }
        for name in ["localhost", "Localhost.", "shop.localhost"] {
            assert_eq!(find(name), Some(vec!["127.0.0.1".to_owned(), "::1".to_owned()]), "{name}");
        }
        assert_eq!(Hosts::parse("10.0.0.7 localhost").find("localhost"), Some(vec![IpAddr::from([10, 0, 0, 7])]));
    }
}
