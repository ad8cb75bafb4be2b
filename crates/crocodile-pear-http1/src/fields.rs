//! Which header fields belong to one hop and never travel further (RFC 9110, 7.6.1).

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Whether a field belongs to one connection only, or frames one message.
///
/// `content-length` is not among them: an answer to HEAD carries it as information.
pub fn hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authentication-info"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// The fields that an interim answer hands on: neither those of one connection, nor those that frame a message.
#[inline]
pub fn of_interim(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    headers.iter().filter(|(name, _)| !hop_by_hop(name) && **name != CONTENT_LENGTH)
}

/// Whether a gateway writes a field of a request itself, or must not send it at all.
pub fn rebuilt(name: &HeaderName) -> bool {
    // `expect` is handled at the client's connection; the upstream must not see it. Servers that hand fields on as variables
    // make `HTTP_PROXY` of `proxy`, and the programs that they start call through that (httpoxy).
    hop_by_hop(name)
        || matches!(name.as_str(), "host" | "content-length" | "expect" | "proxy")
        || name.as_str().starts_with("proxy-")
}

/// Whether a call may carry this field by the configuration's word.
#[inline]
pub fn may_send(name: &HeaderName) -> bool {
    !rebuilt(name)
}

/// Whether a name has one reading: letters, digits and `-` alone. Servers that hand fields on as variables (CGI, WSGI, PHP)
/// read `x_role` as `x-role`, some of them `x.role` too.
#[inline]
pub fn plain(name: &HeaderName) -> bool {
    name.as_str().bytes().all(is_plain)
}

#[inline]
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// Names that decide where a message ends or where it goes, or that belong to one connection only.
const FRAMING: [&str; 11] = [
    "content-length",
    "transfer-encoding",
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "content-encoding",
];

/// Whether a name differs from one that frames messages by punctuation alone. CGI-like servers read `content_length` as
/// `content-length`, others drop what they do not know: such a name has two readings.
pub fn imitates(name: &[u8]) -> bool {
    if name.iter().copied().all(is_plain) {
        return false;
    }
    let letters = |name: &'static str| name.bytes().filter(|byte| *byte != b'-');
    let bare = || name.iter().copied().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    FRAMING.iter().any(|framing| letters(framing).eq(bare()))
}
