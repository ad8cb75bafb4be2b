//! Which versions of HTTP are spoken with a server.

crate::choice! {
    /// The version of HTTP to use.
    pub enum Protocol {
        /// With TLS, the version that the upstream chooses; otherwise HTTP/1.1.
        Auto = "auto",
        /// HTTP/1.1.
        Http1 = "http1",
        /// HTTP/2; without TLS, with prior knowledge.
        Http2 = "http2",
    }
}

/// The message about `http2` in a build without it.
pub(crate) const UNBUILT: &str =
    "HTTP/2 needs the feature `http2` of the crate crocodile-pear, which this build is without";

impl Protocol {
    /// Whether this build speaks it.
    pub(crate) fn is_built(self) -> bool {
        cfg!(feature = "http2") || self != Protocol::Http2
    }

    /// The versions to offer by ALPN, the preferred one first.
    pub(crate) fn offers(self) -> &'static [&'static [u8]] {
        match self {
            Protocol::Auto if cfg!(feature = "http2") => &[b"h2", b"http/1.1"],
            Protocol::Auto => &[b"http/1.1"],
            Protocol::Http1 => &[b"http/1.1"],
            Protocol::Http2 => &[b"h2"],
        }
    }
}

/// Which versions of HTTP a connection is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// All versions of the configuration.
    All,
    /// HTTP/1.1 alone.
    Http1,
}
