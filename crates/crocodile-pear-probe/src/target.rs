//! The URL that is probed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::Uri;
use tokio::net::lookup_host;

use crate::trouble::{Trouble, TroubleCause, UsageError, span};

/// A URL that can be probed.
#[derive(Clone, Debug)]
pub struct Target {
    /// `http` or `https`.
    pub scheme: Scheme,
    /// The host without brackets.
    pub host: String,
    /// The port, also where the URL has none.
    pub port: u16,
    /// Host and port as written.
    pub authority: String,
    /// Path and query.
    pub path: String,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain text.
    Http,
    /// TLS.
    Https,
}

impl Scheme {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Scheme::Http => Scheme::Https,
            Scheme::Https => Scheme::Http,
        }
    }

    fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

impl Target {
    /// Reads a URL as an upstream's is written.
    ///
    /// # Errors
    /// The text is not such a URL; the error says what to write.
    pub fn read(text: &str) -> Result<Self, UsageError> {
        const REMEDY: &str = "write http://HOST:PORT/PATH or https://HOST:PORT/PATH";
        let wrong = |what: &str| UsageError::new(format!("{what}: {REMEDY}"));
        let url: Uri = text.parse().map_err(|_| wrong("this is not a URL"))?;
        let scheme = match url.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) => return Err(wrong("only http and https URLs can be probed")),
            None => return Err(wrong("the URL has no scheme")),
        };
        let authority = url.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| wrong("the URL has no host"))?;
        if authority.as_str().contains('@') {
            return Err(UsageError::new("a URL holds no credentials here: send them with --header"));
        }
        let written = authority.as_str().len() > authority.host().len();
        let port = authority.port_u16().or((!written).then_some(scheme.port()));
        let port = port.ok_or_else(|| wrong("the URL's port is not a number up to 65535"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Target { scheme, host, port, authority: authority.to_string(), path })
    }

    pub(crate) fn url(&self) -> String {
        format!("{}{}", self.origin(), self.path)
    }

    /// The URL without the path: where an upstream is.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme.word(), self.authority)
    }

    /// The addresses, and how long finding them took.
    ///
    /// # Errors
    /// There is no address, or none within `limit`.
    pub async fn resolve(&self, limit: Duration) -> Result<(Vec<SocketAddr>, Duration), Trouble> {
        let fail = |what| Trouble::new(TroubleCause::Unreachable, what);
        let begun = Instant::now();
        let found = tokio::time::timeout(limit, lookup_host((self.host.as_str(), self.port))).await;
        let found = found.map_err(|_| fail(format!("`{}` was not resolved within {}", self.host, span(limit))))?;
        let found: Vec<SocketAddr> = found.map_err(|_| fail(format!("`{}` cannot be resolved", self.host)))?.collect();
        match found.is_empty() {
            true => Err(fail(format!("`{}` has no address", self.host))),
            false => Ok((found, begun.elapsed())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_an_upstream_s() {
        let read = |text| Target::read(text).map(|target| (target.host, target.port, target.path));
        let good = |host: &str, port, path: &str| Ok((host.to_owned(), port, path.to_owned()));
        assert_eq!(read("http://a.test"), good("a.test", 80, "/"));
        assert_eq!(read("https://a.test/b?c=d"), good("a.test", 443, "/b?c=d"));
        assert_eq!(read("https://[::1]:8443/"), good("::1", 8443, "/"));
        for (text, told) in [
            ("a.test/b", "no"),
            ("/b", "no scheme"),
            ("ftp://a.test/", "only http and https"),
            ("http://a.test:70000/", "not a number up to 65535"),
            ("http://me:secret@a.test/", "credentials"),
            ("http://:80/", "no"),
        ] {
            assert!(read(text).is_err_and(|error| error.to_string().contains(told)), "{text}: {:?}", read(text));
        }
    }
}
