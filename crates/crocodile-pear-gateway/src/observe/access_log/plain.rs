//! Text lines: the log's own format and the NCSA formats.

use std::io::Write;
use std::time::Duration;

use crocodile_pear::unstable::telemetry::trace::Trace;
use http::header::{REFERER, USER_AGENT};

use super::entry::AccessLogEntry;
use super::{escape, json};

/// Writes a line in the format of the log.
pub fn text(entry: &AccessLogEntry<'_>, line: &mut Vec<u8>) {
    let mut fields = Fields(line);
    // Writing to memory cannot fail.
    let _ = write!(fields.0, "{}  INFO crocodile_pear::access: id=\"{}\"", entry.time.rfc3339(), entry.id());
    if let Some(client) = entry.client() {
        let _ = write!(fields.0, " protocol=\"{}\" client={}", client.protocol(), client.address);
    }
    fields.quoted("user", entry.user().as_deref());
    fields.quoted("method", entry.method());
    fields.quoted("path", entry.path());
    fields.quoted("query", entry.query().as_deref());
    fields.quoted("route", entry.route);
    let _ = write!(fields.0, " status={} bytes={}", entry.status(), entry.bytes());
    fields.milliseconds("head_ms", entry.first_byte());
    fields.milliseconds("total_ms", Some(entry.duration));
    let calls = entry.calls();
    let _ = write!(fields.0, " calls={}", calls.calls);
    if let Some(slowest) = &calls.slowest {
        fields.quoted("slowest", slowest.server.as_deref().or(Some(&slowest.upstream)));
        fields.milliseconds("slowest_ms", Some(slowest.time));
    }
    fields.quoted("cache", entry.cache());
    fields.quoted("trace", entry.trace().map(Trace::id));
    fields.quoted("ended", Some(entry.how()));
    if let Some(error) = entry.error() {
        let _ = write!(fields.0, " error={}", error.escape_debug());
    }
}

struct Fields<'a>(&'a mut Vec<u8>);

impl Fields<'_> {
    fn quoted(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            let _ = write!(self.0, " {name}={text:?}");
        }
    }

    fn milliseconds(&mut self, name: &str, time: Option<Duration>) {
        if let Some(time) = time {
            let _ = write!(self.0, " {name}={:?}", time.as_micros() as f64 / 1000.0);
        }
    }
}

/// Writes the common log format: `HOST - USER [TIME] "REQUEST" STATUS BYTES`.
pub fn common(entry: &AccessLogEntry<'_>, line: &mut Vec<u8>) {
    match entry.client() {
        Some(client) => json::address(client.address, line),
        None => line.push(b'-'),
    }
    line.extend_from_slice(b" - ");
    match entry.user() {
        Some(user) if !user.is_empty() => escape::bare(user.as_bytes(), line),
        _ => line.push(b'-'),
    }
    line.extend_from_slice(b" [");
    line.extend_from_slice(entry.time.common().as_bytes());
    line.extend_from_slice(b"] \"");
    request(entry, line);
    line.extend_from_slice(b"\" ");
    line.extend_from_slice(itoa::Buffer::new().format(entry.status()).as_bytes());
    line.push(b' ');
    line.extend_from_slice(itoa::Buffer::new().format(entry.bytes()).as_bytes());
}

/// Writes the combined log format: the same, plus referer and user agent.
pub fn combined(entry: &AccessLogEntry<'_>, line: &mut Vec<u8>) {
    common(entry, line);
    for name in [REFERER, USER_AGENT] {
        line.extend_from_slice(b" \"");
        escape::nginx(entry.field(&name).unwrap_or(b"-"), line);
        line.push(b'"');
    }
}

/// Writes the request line; `-` if the request could not be read.
fn request(entry: &AccessLogEntry<'_>, line: &mut Vec<u8>) {
    let (Some(method), Some(path)) = (entry.method(), entry.path()) else { return line.push(b'-') };
    line.extend_from_slice(method.as_bytes());
    line.push(b' ');
    escape::nginx(path.as_bytes(), line);
    if let Some(query) = entry.query() {
        line.push(b'?');
        escape::nginx(query.as_bytes(), line);
    }
    line.extend_from_slice(b" HTTP/");
    line.extend_from_slice(entry.version().as_bytes());
}
