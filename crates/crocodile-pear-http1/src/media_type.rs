//! Media types: what the content type of a body says without its parameters.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// A media type without its parameters.
#[inline]
pub fn essence(media: &[u8]) -> &[u8] {
    media.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Whether the content type is that of JSON.
#[inline]
pub fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|media| essence(media.as_bytes()).eq_ignore_ascii_case(b"application/json"))
}

/// Whether a content type is that of server-sent events (WHATWG HTML, 9.2).
#[inline]
pub fn is_events(media: &[u8]) -> bool {
    const MEDIA: &[u8] = b"text/event-stream";
    let (kind, rest) = media.split_at(media.len().min(MEDIA.len()));
    kind.eq_ignore_ascii_case(MEDIA) && matches!(rest.first(), None | Some(b';' | b' ' | b'\t'))
}

/// Whether the content type is that of server-sent events.
#[inline]
pub fn has_events(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|media| is_events(media.as_bytes()))
}

/// Whether a content type is one of gRPC. gRPC-Web is not: its trailers are in its body.
#[inline]
pub fn is_grpc(media: &[u8]) -> bool {
    const MEDIA: &[u8] = b"application/grpc";
    let (kind, rest) = media.split_at(media.len().min(MEDIA.len()));
    kind.eq_ignore_ascii_case(MEDIA) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::media_type::*;

    #[test]
    fn parameters_and_case_do_not_matter() {
        let told =
            |media: &'static str| is_json(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media))]));
        assert!(told("application/json; charset=utf-8") && told("Application/JSON"));
        assert!(!told("text/plain") && !told("application/problem+json") && !is_json(&HeaderMap::new()));
        assert!(is_events(b"Text/Event-Stream; charset=utf-8") && !is_events(b"text/event-streams"));
        assert!(is_grpc(b"application/grpc+proto") && !is_grpc(b"application/grpc-web"));
    }
}
