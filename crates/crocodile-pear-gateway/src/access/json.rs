//! A line as a JSON object, with the names of OpenTelemetry's semantic conventions where those have one. Written by
//! hand: every request makes one.

use std::net::IpAddr;
use std::time::Duration;

use crocodile_pear::record::Summary;
use http::header::USER_AGENT;

use super::entry::Entry;
use super::escape;

/// Writes it, without its end.
pub fn write(entry: &Entry<'_>, line: &mut Vec<u8>) {
    line.extend_from_slice(b"{\"timestamp\":\"");
    line.extend_from_slice(entry.time.rfc3339().as_bytes());
    line.push(b'"');
    let mut object = Object(line);
    object.plain("request.id", entry.id());
    object.client(entry);
    object.text("user.id", entry.user().as_deref().map(str::as_bytes));
    object.text("http.request.method", entry.method().map(str::as_bytes));
    object.text("url.path", entry.path().map(str::as_bytes));
    object.text("url.query", entry.query().as_deref().map(str::as_bytes));
    object.text("http.route", entry.route.map(str::as_bytes));
    object.text("user_agent.original", entry.field(&USER_AGENT));
    object.number("http.response.status_code", entry.status().into());
    object.number("http.response.body.size", entry.bytes());
    object.seconds("duration", Some(entry.duration));
    object.seconds("first_byte", entry.first_byte());
    object.calls(&entry.calls());
    object.text("cache", entry.cache().map(str::as_bytes));
    object.text("trace_id", entry.trace().map(|trace| trace.id().as_bytes()));
    object.plain("ended", entry.how());
    if let Some(error) = entry.error() {
        object.text("error.type", entry.error_type().map(str::as_bytes));
        object.text("error.message", Some(error.as_bytes()));
    }
    line.push(b'}');
}

/// The fields of an object that is open; those without a value are left out.
struct Object<'a>(&'a mut Vec<u8>);

impl Object<'_> {
    fn name(&mut self, name: &str) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    /// Text with nothing in it to escape.
    fn plain(&mut self, name: &str, text: &str) {
        self.name(name);
        self.0.push(b'"');
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(b'"');
    }

    fn text(&mut self, name: &str, text: Option<&[u8]>) {
        if let Some(text) = text {
            self.name(name);
            escape::json(text, self.0);
        }
    }

    fn number(&mut self, name: &str, number: u64) {
        self.name(name);
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    fn seconds(&mut self, name: &str, time: Option<Duration>) {
        if let Some(time) = time {
            self.name(name);
            seconds(time, self.0);
        }
    }

    fn calls(&mut self, calls: &Summary) {
        self.number("upstream.calls", calls.calls);
        let Some(slowest) = &calls.slowest else { return };
        self.text("upstream.slowest.name", Some(slowest.upstream.as_bytes()));
        self.text("upstream.slowest.server", slowest.server.as_deref().map(str::as_bytes));
        self.seconds("upstream.slowest.duration", Some(slowest.time));
    }

    fn client(&mut self, entry: &Entry<'_>) {
        let Some(client) = entry.client() else { return };
        self.name("client.address");
        self.0.push(b'"');
        address(entry.ip(), self.0);
        self.0.push(b'"');
        let version = client.protocol();
        self.plain("network.protocol.version", version.strip_prefix("HTTP/").unwrap_or(version));
        self.plain("url.scheme", client.scheme());
    }
}

/// An address, or what stands for a Unix socket.
pub fn address(address: Option<IpAddr>, line: &mut Vec<u8>) {
    match address {
        Some(IpAddr::V4(address)) => {
            for (at, octet) in address.octets().into_iter().enumerate() {
                line.extend_from_slice(if at > 0 { b"." } else { b"" });
                line.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
            }
        }
        Some(IpAddr::V6(address)) => line.extend_from_slice(address.to_string().as_bytes()),
        None => line.extend_from_slice(b"unix:"),
    }
}

/// Seconds, with six decimals.
pub fn seconds(time: Duration, line: &mut Vec<u8>) {
    line.extend_from_slice(itoa::Buffer::new().format(time.as_secs()).as_bytes());
    line.push(b'.');
    let micros = time.subsec_micros();
    let digit = |divisor: u32| b'0' + (micros / divisor % 10) as u8;
    line.extend_from_slice(&[100_000, 10_000, 1000, 100, 10, 1].map(digit));
}
