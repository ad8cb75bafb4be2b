//! Which host a request is for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::Ipv6Addr;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::Located;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    Exact(String),
    /// Any below this domain: `*.example.com`.
    Below(String),
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

impl HostPattern {
    /// Reads a host; what is wrong is noted.
    pub fn parse(written: &Located<String>, problems: &mut Problems) -> Option<Self> {
        let text = written.as_str();
        let meant = meant(text);
        let below = meant.strip_prefix("*.");
        let domain = below.unwrap_or(&meant);
        if text == "*" {
            let remedy = "leave out `hosts`: a group without it serves every host that no other group names";
            return problems.error(written.span, "`*` is every host", remedy);
        }
        if !domain.is_ascii() {
            let remedy = "write it as DNS has it, with `xn--` before each label that is not ASCII";
            return problems.error(written.span, "a host has ASCII letters only", remedy);
        }
        if !is_host(domain) {
            let remedy = "write a name like `shop.example`, or `*.shop.example` for all names below it";
            return problems.error(written.span, format!("`{text}` is not a host"), remedy);
        }
        if below.is_some() && !text.contains("*.") {
            let message = "`*` stands for whole labels, and a `.` follows it";
            return problems.error(written.span, message, format!("write `{meant}`"));
        }
        if !text.trim_end_matches('.').eq_ignore_ascii_case(&meant) {
            let message = "a host has no scheme, port or path here: requests for any of its ports are served";
            return problems.error(written.span, message, format!("write `{meant}`"));
        }
        let name = normalise(domain.as_bytes())?.into_owned();
        Some(if below.is_some() { HostPattern::Below(name) } else { HostPattern::Exact(name) })
    }
}

/// The host of what may be a URL or have a port.
fn meant(text: &str) -> String {
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.split(['/', '?', '#']).next().unwrap_or_default();
    let port = text.rsplit_once(':').filter(|(host, port)| {
        let whole = !host.contains(':') || host.ends_with(']');
        whole && !host.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    let host = port.map_or(text, |(host, _)| host).trim_end_matches('.').to_ascii_lowercase();
    match (host.strip_prefix("*."), host.strip_prefix('*')) {
        // `*example.com` can only mean this.
        (None, Some(domain)) if domain.contains('.') => format!("*.{domain}"),
        _ if host.parse::<Ipv6Addr>().is_ok() => format!("[{host}]"),
        _ => host,
    }
}

/// A name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(text: &str) -> bool {
    if let Some(inner) = text.strip_prefix('[') {
        return inner.strip_suffix(']').is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok());
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// A host as it is compared: without port and last dot, in lower case, an IPv6 address in its one short form.
fn normalise(host: &[u8]) -> Option<Cow<'_, str>> {
    let host = std::str::from_utf8(host).ok()?;
    if let Some((address, _)) = host.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        let address: Ipv6Addr = address.parse().ok()?;
        return Some(format!("[{address}]").into());
    }
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Some(name.to_ascii_lowercase().into()),
        false => Some(name.into()),
    }
}

/// A value for each host.
pub struct Hosts<T> {
    exact: HashMap<String, T>,
    below: HashMap<String, T>,
    /// For all hosts that are not named.
    others: Option<T>,
}

impl<T> Default for Hosts<T> {
    fn default() -> Self {
        Hosts { exact: HashMap::new(), below: HashMap::new(), others: None }
    }
}

impl<T> Hosts<T> {
    /// The value for a host as written, or for all that are not named; made if there is none yet.
    pub fn entry(&mut self, pattern: Option<&HostPattern>, make: impl FnOnce() -> T) -> &mut T {
        match pattern {
            None => self.others.get_or_insert_with(make),
            Some(HostPattern::Exact(name)) => self.exact.entry(name.clone()).or_insert_with(make),
            Some(HostPattern::Below(domain)) => self.below.entry(domain.clone()).or_insert_with(make),
        }
    }

    /// The value for the host of a request. Its exact name counts first, then the longest domain that it is below.
    /// `host` is asked for only where hosts are named.
    pub fn find<'h>(&self, host: impl FnOnce() -> Option<&'h [u8]>) -> Option<&T> {
        if self.exact.is_empty() && self.below.is_empty() {
            return self.others.as_ref();
        }
        let named = host().and_then(normalise);
        named.and_then(|name| self.named(&name)).or(self.others.as_ref())
    }

    fn named(&self, name: &str) -> Option<&T> {
        let domains = || name.match_indices('.').map(|(at, _)| &name[at + 1..]);
        self.exact.get(name).or_else(|| domains().find_map(|domain| self.below.get(domain)))
    }
}

#[cfg(test)]
mod tests {
    use crocodile_pear::unstable::config::problem::Span;

    use super::super::host::*;

    fn parse(text: &str) -> Result<HostPattern, String> {
        let mut problems = Problems::default();
        let pattern = HostPattern::parse(&Located::new(text.to_owned(), Span::default()), &mut problems);
        pattern.ok_or_else(|| problems.into_sorted().remove(0).remedy.unwrap_or_default())
    }

    fn hosts(written: &[&str]) -> Hosts<String> {
        let mut hosts = Hosts::default();
        for text in written {
            let pattern = (*text != "others").then(|| parse(text).expect("a host"));
            hosts.entry(pattern.as_ref(), || (*text).to_owned());
        }
        hosts
    }

    #[test]
    fn the_exact_name_counts_before_the_longest_domain_and_that_before_the_rest() {
        let hosts = hosts(&["example.com", "*.example.com", "*.eu.example.com", "[::1]", "10.0.0.1", "others"]);
        for (host, wanted) in [
            ("example.com", "example.com"),
            ("EXAMPLE.com:8443", "example.com"),
            ("example.com.", "example.com"),
            ("a.example.com", "*.example.com"),
            ("a.b.example.com:80", "*.example.com"),
            ("a.eu.example.com", "*.eu.example.com"),
            ("eu.example.com", "*.example.com"),
            ("badexample.com", "others"),
            (".example.com", "*.example.com"),
            ("[0:0::1]:8080", "[::1]"),
            ("10.0.0.1:80", "10.0.0.1"),
            ("", "others"),
        ] {
            let found = hosts.find(|| Some(host.as_bytes()));
            assert_eq!(found.map(String::as_str), Some(wanted), "{host}");
        }
        assert_eq!(hosts.find(|| None).map(String::as_str), Some("others"));
    }

    #[test]
    fn without_names_nobody_asks_for_the_host() {
        assert_eq!(hosts(&["others"]).find(|| panic!("asked")).map(String::as_str), Some("others"));
        assert_eq!(hosts(&["a.example"]).find(|| Some(b"b.example")), None);
    }

    #[test]
    fn what_is_no_host_is_refused_with_the_remedy() {
        for (text, wanted) in [
            ("https://Shop.example/", "write `shop.example`"),
            ("shop.example:8080", "write `shop.example`"),
            ("*shop.example", "write `*.shop.example`"),
            ("::1", "write `[::1]`"),
            ("[::1]:80", "write `[::1]`"),
        ] {
            assert_eq!(parse(text), Err(wanted.to_owned()), "{text}");
        }
        for text in ["", "*", "a..b", "a.*.b", "*.", "caf\u{e9}.example", "a b", "[x]", "~.example"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("Shop.Example."), Ok(HostPattern::Exact("shop.example".to_owned())));
    }
}
