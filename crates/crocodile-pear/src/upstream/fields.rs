//! Which header fields belong to one hop and never travel further (RFC 9110, 7.6.1).

use http::HeaderName;

/// Whether a field says something about one connection only, or frames one message.
///
/// `content-length` is not among them: an answer to HEAD carries it as information.
pub(super) fn hop_by_hop(name: &HeaderName) -> bool {
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

/// Whether the gateway writes a field of a request itself, or must not send it at all.
pub(super) fn rebuilt(name: &HeaderName) -> bool {
    // `expect` is answered where the client's connection ends; the upstream would be asked in vain.
    hop_by_hop(name)
        || matches!(name.as_str(), "host" | "content-length" | "expect")
        || name.as_str().starts_with("proxy-")
}

/// Whether a call may carry this field by the configuration's word.
pub fn may_send(name: &HeaderName) -> bool {
    !rebuilt(name)
}
