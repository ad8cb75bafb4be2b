//! Allowed origins as written: `https://shop.example`, `https://*.shop.example` or `*`.

use std::fmt;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::Located;

/// An allowed origin, or a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedOrigin {
    /// Every origin.
    Any,
    Exact(Box<str>),
    /// Origins that begin with the first text and end with the second: `https://` and `.shop.example`.
    Below(Box<str>, Box<str>),
}

impl AllowedOrigin {
    pub fn read(written: &Located<String>, problems: &mut Problems) -> Option<Self> {
        let text = written.as_str();
        match parse(text) {
            Ok(origin) => Some(origin),
            Err(remedy) => problems.error(written.span, format!("`{text}` is not an origin"), remedy),
        }
    }

    /// Whether the `Origin` field of a request is allowed.
    pub fn admits(&self, origin: &str) -> bool {
        match self {
            AllowedOrigin::Any => true,
            AllowedOrigin::Exact(exact) => **exact == *origin,
            AllowedOrigin::Below(scheme, parent) => {
                let name = origin.strip_prefix(&**scheme).and_then(|rest| rest.strip_suffix(&**parent));
                name.is_some_and(is_name)
            }
        }
    }
}

impl fmt::Display for AllowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllowedOrigin::Any => f.write_str("every origin"),
            AllowedOrigin::Exact(origin) => f.write_str(origin),
            AllowedOrigin::Below(scheme, parent) => write!(f, "{scheme}*{parent}"),
        }
    }
}

/// Whether a text consists of domain labels in the form that browsers send.
fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
    };
    text.split('.').all(label)
}

/// Parses an origin; the error is the remedy.
fn parse(text: &str) -> Result<AllowedOrigin, String> {
    if text == "*" {
        return Ok(AllowedOrigin::Any);
    }
    if text == "null" {
        return Err("leave it out: files and sandboxed frames of any site have this origin".to_owned());
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        let name = text.split(':').next().unwrap_or_default();
        return Err(match name {
            "localhost" => format!("write `http://{text}`, with the scheme"),
            _ if name.contains('.') && is_name(name.trim_start_matches("*.")) => {
                format!("write `https://{text}`, with the scheme")
            }
            _ if ["true", "on", "yes", "all"].contains(&text) => {
                "write `'*'` for every origin, or name them".to_owned()
            }
            _ => USUAL.to_owned(),
        });
    };
    let lower = text.to_ascii_lowercase();
    if lower != text {
        return Err(format!("write `{lower}`: browsers send it in lower case"));
    }
    if let Some(at) = rest.find(['/', '?', '#']) {
        return Err(format!("write `{scheme}://{}`: an origin has no path", &rest[..at]));
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !rest.ends_with(']') => (host, Some(port)),
        _ => (rest, None),
    };
    let usual = match scheme {
        "http" => Some("80"),
        "https" => Some("443"),
        _ => None,
    };
    if port.is_some() && port == usual {
        return Err(format!("write `{scheme}://{host}`: browsers leave out the usual port"));
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err("a port is a number up to 65535".to_owned());
    }
    let good_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.'));
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match host.strip_prefix("*.") {
        _ if !good_scheme => Err(USUAL.to_owned()),
        Some(parent) if is_name(parent) => {
            let parent = format!(".{}", rest.trim_start_matches("*."));
            Ok(AllowedOrigin::Below(format!("{scheme}://").into(), parent.into()))
        }
        None if is_name(host) || bracketed.is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok()) => {
            Ok(AllowedOrigin::Exact(text.into()))
        }
        _ if host.contains('*') => {
            Err("`*` stands for whole labels at the beginning: write `https://*.shop.example`".to_owned())
        }
        _ if !host.is_ascii() => Err("write the name as browsers send it, in Punycode: `xn--…`".to_owned()),
        _ => Err(USUAL.to_owned()),
    }
}

const USUAL: &str = "write `https://shop.example`, `https://*.shop.example` or `http://localhost:3000`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_origin_itself_or_its_subdomains_are_admitted() {
        let admits = |written, origin| parse(written).expect("an origin").admits(origin);
        for (written, origin) in [
            ("https://shop.example", "https://shop.example"),
            ("https://*.shop.example", "https://a.shop.example"),
            ("https://*.shop.example", "https://b.a.shop.example"),
            ("https://*.shop.example:8443", "https://a.shop.example:8443"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("capacitor://localhost", "capacitor://localhost"),
            ("*", "null"),
        ] {
            assert!(admits(written, origin), "{written} {origin}");
        }
        for (written, origin) in [
            ("https://shop.example", "http://shop.example"),
            ("https://shop.example", "https://shop.example:8443"),
            ("https://shop.example", "https://shop.example.evil.example"),
            ("https://shop.example", "null"),
            ("https://*.shop.example", "https://shop.example"),
            ("https://*.shop.example", "https://.shop.example"),
            ("https://*.shop.example", "https://evilshop.example"),
            ("https://*.shop.example", "https://evil.example/.shop.example"),
            ("https://*.shop.example", "https://evil.example:1.shop.example"),
            ("https://*.shop.example", "https://evil.example@a.shop.example"),
            ("https://*.shop.example", "https://a.shop.example.evil.example"),
            ("https://*.shop.example", "http://a.shop.example"),
            ("https://*.shop.example", "https://a.shop.example:8443"),
        ] {
            assert!(!admits(written, origin), "{written} {origin}");
        }
    }

    #[test]
    fn what_no_browser_sends_is_told_with_what_to_write() {
        for (written, remedy) in [
            ("shop.example", "write `https://shop.example`, with the scheme"),
            ("*.shop.example", "write `https://*.shop.example`, with the scheme"),
            ("localhost:3000", "write `http://localhost:3000`, with the scheme"),
            ("true", "write `'*'` for every origin, or name them"),
            ("https://shop.example/", "write `https://shop.example`: an origin has no path"),
            ("https://shop.example:443", "write `https://shop.example`: browsers leave out the usual port"),
            ("HTTPS://Shop.example", "write `https://shop.example`: browsers send it in lower case"),
            ("https://shop.*", "`*` stands for whole labels at the beginning: write `https://*.shop.example`"),
            ("https://a*.shop.example", "`*` stands for whole labels at the beginning: write `https://*.shop.example`"),
            ("https://käse.example", "write the name as browsers send it, in Punycode: `xn--…`"),
            ("http://localhost:*", "a port is a number up to 65535"),
            ("null", "leave it out: files and sandboxed frames of any site have this origin"),
            ("", USUAL),
        ] {
            assert_eq!(parse(written), Err(remedy.to_owned()), "{written}");
        }
    }
}
