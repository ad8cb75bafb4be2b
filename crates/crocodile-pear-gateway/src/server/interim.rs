//! Interim answers as bytes of HTTP/1.1.

use crocodile_pear::unstable::http::http1::{fields, write};
use http::{HeaderMap, StatusCode};

/// An interim answer (RFC 9110, 15.2).
pub fn write_interim(out: &mut Vec<u8>, status: StatusCode, headers: &HeaderMap) {
    write_status(out, status);
    for (name, value) in fields::of_interim(headers) {
        write::field(out, name.as_str().as_bytes(), value);
    }
    out.extend_from_slice(b"\r\n");
}

/// The first line of an answer.
pub fn write_status(out: &mut Vec<u8>, status: StatusCode) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}
