//! Which fields may follow a body (RFC 9110, 6.5.1). Every place that reads or writes trailers asks here.

use http::{HeaderMap, HeaderName};

use crate::fields::{hop_by_hop, imitates};

/// Whether a field may be a trailer. A field that a recipient needs before the body may not: one that frames the message,
/// routes it, says who sent it, limits it, or says how to read, keep or show its body.
pub fn may_trail(name: &HeaderName) -> bool {
    !hop_by_hop(name) && !imitates(name.as_str().as_bytes()) && !needed_first(name.as_str())
}

/// Whether a field must stand in the head.
fn needed_first(name: &str) -> bool {
    const PREFIXES: [&str; 6] = ["access-control-", "content-", "if-", "proxy-", "sec-", "x-forwarded-"];
    const NAMES: [&str; 36] = [
        "age",
        "allow",
        "alt-svc",
        "authentication-info",
        "authorization",
        "cache-control",
        "clear-site-data",
        "cookie",
        "cross-origin-embedder-policy",
        "cross-origin-opener-policy",
        "cross-origin-resource-policy",
        "date",
        "expect",
        "expires",
        "forwarded",
        "host",
        "http2-settings",
        "location",
        "max-forwards",
        "origin",
        "pragma",
        "priority",
        "proxy",
        "range",
        "refresh",
        "retry-after",
        "set-cookie",
        "status",
        "strict-transport-security",
        "trailer",
        "vary",
        "via",
        "warning",
        "www-authenticate",
        "x-frame-options",
        "x-real-ip",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.binary_search(&name).is_ok()
}

/// The trailers that pass: those that may be trailers and that `passes` lets through. `None` if none does.
pub fn pass(mut trailers: HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> Option<HeaderMap> {
    let stays = |name: &HeaderName| may_trail(name) && passes(name);
    if !trailers.keys().all(stays) {
        let gone: Vec<HeaderName> = trailers.keys().filter(|name| !stays(name)).cloned().collect();
        for name in gone {
            trailers.remove(name);
        }
    }
    (!trailers.is_empty()).then_some(trailers)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::trailers::*;

    fn name(name: &'static str) -> HeaderName {
        HeaderName::from_static(name)
    }

    #[test]
    fn a_trailer_cannot_say_what_a_head_must_say() {
        for unfit in [
            "content-length",
            "content_length",
            "transfer-encoding",
            "host",
            "authorization",
            "cookie",
            "set-cookie",
            "x-forwarded-for",
            "forwarded",
            "if-match",
            "range",
            "content-type",
            "content-range",
            "cache-control",
            "vary",
            "location",
            "access-control-allow-origin",
            "proxy-authorization",
            "trailer",
            "te",
            "via",
            "x-real-ip",
            "www-authenticate",
            "age",
        ] {
            assert!(!may_trail(&name(unfit)), "{unfit}");
        }
        for fit in ["grpc-status", "server-timing", "x-checksum", "repr-digest", "etag", "x-y_z", "signature"] {
            assert!(may_trail(&name(fit)), "{fit}");
        }
    }

    #[test]
    fn trailers_pass_by_the_rule_of_the_place_too() {
        let fields = ["x-sum", "x-role", "cookie"].map(|field| (name(field), HeaderValue::from_static("1")));
        let passed = pass(fields.into_iter().collect(), |name| name.as_str() != "x-role").expect("one");
        assert_eq!(passed.keys().collect::<Vec<_>>(), [&name("x-sum")]);
        assert!(pass(passed, |_| false).is_none());
    }
}
