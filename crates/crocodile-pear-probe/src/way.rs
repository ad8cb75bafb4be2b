//! The ways in which a server may be spoken to.

use crocodile_pear::unstable::net::tls::TlsVersion;

use crate::target::Scheme;

/// A version of HTTP, and what it goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolStack {
    pub http: Http,
    pub tls: Option<TlsVersion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1; the answer may be HTTP/1.0.
    One,
    Two,
}

/// The newest last.
const TLS: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

impl ProtocolStack {
    pub fn all(scheme: Scheme) -> Vec<Self> {
        let over = |http| match scheme {
            Scheme::Http => vec![ProtocolStack { http, tls: None }],
            Scheme::Https => TLS.map(|tls| ProtocolStack { http, tls: Some(tls) }).to_vec(),
        };
        [Http::One, Http::Two].into_iter().flat_map(over).collect()
    }

    pub fn label(self) -> String {
        match (self.http, self.tls) {
            (http, Some(tls)) => format!("{} TLS {}", http.label(), tls.word()),
            (Http::One, None) => Http::One.label().to_owned(),
            (Http::Two, None) => "HTTP/2 (h2c)".to_owned(),
        }
    }
}

impl Http {
    pub fn label(self) -> &'static str {
        match self {
            Http::One => "HTTP/1.1",
            Http::Two => "HTTP/2",
        }
    }

    /// The version as JSON has it.
    pub fn number(self) -> &'static str {
        match self {
            Http::One => "1.1",
            Http::Two => "2",
        }
    }

    /// The version as TLS has it (RFC 7301).
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Http::One => b"http/1.1",
            Http::Two => b"h2",
        }
    }
}
