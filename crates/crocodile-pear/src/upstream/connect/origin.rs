//! The origin of a URL, which identifies a server.

use http::uri::{Authority, Uri};

/// Scheme, host and port (RFC 6454, 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    scheme: Box<str>,
    pub(crate) host: Box<str>,
    port: u16,
}

impl Origin {
    /// The origin of an absolute http or https URL.
    pub fn from_url(url: &Uri) -> Option<Self> {
        Self::new(url.scheme_str()?, url.authority()?)
    }

    /// The same of its parts; `None` if they are not those of an http or https URL.
    pub(crate) fn new(scheme: &str, authority: &Authority) -> Option<Self> {
        let scheme = scheme.to_ascii_lowercase();
        let usual = match scheme.as_str() {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        // A port that is not a number is kept: it makes the URL invalid.
        let written = authority.as_str().len() > authority.host().len();
        let port = if written { authority.port_u16()? } else { usual };
        let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
        (!host.is_empty()).then(|| Origin { scheme: scheme.into(), host: host.into(), port })
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }
}
