//! Writes a line as a JSON object, with the names of OpenTelemetry's semantic conventions where they exist.
//! Hand-written for speed, because every request writes one.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crocodile_pear::unstable::request::facts::ClientAddress;
use crocodile_pear::unstable::telemetry::trace::Trace;
use http::header::USER_AGENT;

use super::entry::AccessLogEntry;
use super::escape;

/// The bytes before the value of a field, known at compile time, so that they are copied at once.
macro_rules! name {
    ($name:literal) => {
        concat!(",\"", $name, "\":").as_bytes()
    };
}

/// Writes the line, without its end.
pub fn write(entry: &AccessLogEntry<'_>, line: &mut Vec<u8>) {
    line.extend_from_slice(b"{\"timestamp\":\"");
    line.extend_from_slice(entry.time.rfc3339_digits());
    line.extend_from_slice(b"\",\"request.id\":\"");
    line.extend_from_slice(entry.id_digits());
    line.push(b'"');
    let mut object = Object(line);
    object.client(entry);
    object.text(name!("user.id"), entry.user().as_deref().map(str::as_bytes));
    object.plain(name!("http.request.method"), entry.method().map(str::as_bytes));
    object.text(name!("url.path"), entry.path().map(str::as_bytes));
    object.text(name!("url.query"), entry.query().as_deref().map(str::as_bytes));
    object.text(name!("http.route"), entry.route.map(str::as_bytes));
    object.text(name!("user_agent.original"), entry.field(&USER_AGENT));
    object.number(name!("http.response.status_code"), entry.status().into());
    object.number(name!("http.response.body.size"), entry.bytes());
    object.seconds(name!("duration"), Some(entry.duration));
    object.seconds(name!("first_byte"), entry.first_byte());
    object.calls(entry);
    object.plain(name!("cache"), entry.cache().map(str::as_bytes));
    object.plain(name!("trace_id"), entry.trace().map(|trace| Trace::digits(trace).as_slice()));
    object.plain(name!("ended"), Some(entry.how().as_bytes()));
    if let Some(error) = entry.error_type() {
        object.plain(name!("error.type"), Some(error.to_string().as_bytes()));
    }
    if let Some(error) = entry.error() {
        object.text(name!("error.message"), Some(error.as_bytes()));
    }
    line.push(b'}');
}

/// Writes the fields of an open object; fields without a value are left out.
struct Object<'a>(&'a mut Vec<u8>);

impl Object<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Writes text that needs no escaping.
    #[inline]
    fn plain(&mut self, name: &[u8], text: Option<&[u8]>) {
        if let Some(text) = text {
            self.put(name);
            self.put(b"\"");
            self.put(text);
            self.put(b"\"");
        }
    }

    #[inline]
    fn text(&mut self, name: &[u8], text: Option<&[u8]>) {
        if let Some(text) = text {
            self.put(name);
            escape::json(text, self.0);
        }
    }

    #[inline]
    fn number(&mut self, name: &[u8], number: u64) {
        self.put(name);
        self.put(itoa::Buffer::new().format(number).as_bytes());
    }

    #[inline]
    fn seconds(&mut self, name: &[u8], time: Option<Duration>) {
        if let Some(time) = time {
            self.put(name);
            seconds(time, self.0);
        }
    }

    fn calls(&mut self, entry: &AccessLogEntry<'_>) {
        let Some(record) = entry.record() else { return self.number(name!("upstream.calls"), 0) };
        record.look_slowest(|number, slowest| {
            self.number(name!("upstream.calls"), number);
            let Some(slowest) = slowest else { return };
            self.text(name!("upstream.slowest.name"), Some(slowest.upstream.as_bytes()));
            self.text(name!("upstream.slowest.server"), slowest.server.as_deref().map(str::as_bytes));
            self.seconds(name!("upstream.slowest.duration"), slowest.time());
        });
    }

    fn client(&mut self, entry: &AccessLogEntry<'_>) {
        let Some(client) = entry.client() else { return };
        self.put(b",\"client.address\":\"");
        address(client.address, self.0);
        self.put(b"\"");
        let version = client.protocol();
        self.plain(
            name!("network.protocol.version"),
            Some(version.strip_prefix("HTTP/").unwrap_or(version).as_bytes()),
        );
        self.plain(name!("url.scheme"), Some(client.scheme().as_bytes()));
    }
}

/// Writes an address, or the name that replaces it where there is none.
pub fn address(address: ClientAddress, line: &mut Vec<u8>) {
    match address.ip() {
        Some(IpAddr::V4(address)) => dotted(address, line),
        _ => line.extend_from_slice(address.to_string().as_bytes()),
    }
}

fn dotted(address: Ipv4Addr, line: &mut Vec<u8>) {
    let mut text = [b'.'; 16];
    let mut at = 0;
    for octet in address.octets() {
        let [tens, ones] = PAIRS[usize::from(octet % 100)];
        if octet >= 100 {
            text[at] = b'0' + octet / 100;
            at += 1;
        }
        if octet >= 10 {
            text[at] = tens;
            at += 1;
        }
        text[at] = ones;
        at += 2;
    }
    line.extend_from_slice(&text[..at - 1]);
}

/// The two digits of each number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

/// Writes seconds with six decimals.
pub fn seconds(time: Duration, line: &mut Vec<u8>) {
    let micros = time.subsec_micros();
    let [[a, b], [c, d], [e, f]] =
        [micros / 10_000, micros / 100 % 100, micros % 100].map(|pair| PAIRS[(pair % 100) as usize]);
    match time.as_secs() {
        // The most common case.
        whole @ 0..10 => line.extend_from_slice(&[b'0' + whole as u8, b'.', a, b, c, d, e, f]),
        whole => {
            line.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
            line.extend_from_slice(&[b'.', a, b, c, d, e, f]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::*;

    fn made<T>(write: fn(T, &mut Vec<u8>), value: T) -> String {
        let mut line = Vec::new();
        write(value, &mut line);
        String::from_utf8(line).expect("ASCII")
    }

    #[test]
    fn addresses_are_written_as_the_standard_library_writes_them() {
        for at in 0..=u8::MAX {
            let one = Ipv4Addr::new(at, at.wrapping_mul(7), 255 - at, at / 3);
            assert_eq!(made(dotted, one), one.to_string());
        }
    }

    #[test]
    fn seconds_have_six_decimals() {
        for micros in [0, 1, 42, 999_999, 1_000_000, 9_999_999, 10_000_000, 3_600_123_456] {
            let time = Duration::from_micros(micros);
            assert_eq!(made(seconds, time), format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000));
        }
    }
}
