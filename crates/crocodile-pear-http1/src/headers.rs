//! The header fields of a request: bytes until they are needed.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{MAX_FORWARDS, VIA};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::line::{self, LineEnd};
use crate::name;

/// Header fields. A request that is handed on without a look at them pays nothing for them.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// The lines as they came; they have been read once.
    lines: Bytes,
    seen: Seen,
    map: OnceLock<HeaderMap>,
}

/// Fields that were seen while a head was parsed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// `Via` or `Max-Forwards`.
    pub(crate) forwarded: bool,
    /// There is a `traceparent`, or the fields were not parsed.
    pub(crate) traced: bool,
}

impl Headers {
    /// The fields in these lines, each of which has been parsed.
    pub(crate) fn of_lines(lines: Bytes, seen: Seen) -> Self {
        Headers { lines, seen, map: OnceLock::new() }
    }

    /// Whether there is `Via` or `Max-Forwards`: the request may have come through another gateway. Costs no look at the
    /// fields.
    #[inline]
    pub fn forwarded(&self) -> bool {
        self.seen.forwarded
    }

    /// Whether there may be `traceparent`: the client has a trace. Costs as little.
    #[inline]
    pub fn traced(&self) -> bool {
        self.seen.traced
    }

    /// The fields.
    #[inline]
    pub fn map(&self) -> &HeaderMap {
        self.map.get_or_init(|| read(&self.lines))
    }

    /// The first value of a field, without a look at the others.
    #[inline]
    pub fn first(&self, name: &HeaderName) -> Option<&[u8]> {
        if let Some(map) = self.map.get() {
            return map.get(name).map(HeaderValue::as_bytes);
        }
        line::find(&self.lines, name.as_str().as_bytes())
    }

    /// The fields, to keep.
    #[inline]
    pub fn into_map(mut self) -> HeaderMap {
        self.map();
        self.map.take().unwrap_or_default()
    }
}

/// Reads lines that were read before: what cannot be read is not there.
fn read(lines: &Bytes) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(memchr::memchr_iter(b'\n', lines).count());
    let mut at = 0;
    while let Ok((Some(field), next)) = line::field(lines, at, LineEnd::Crlf) {
        let value = HeaderValue::from_maybe_shared(lines.slice_ref(field.value));
        if let (Some(name), Ok(value)) = (name::of(field.name), value) {
            map.append(name, value);
        }
        at = next;
    }
    map
}

impl Deref for Headers {
    type Target = HeaderMap;

    #[inline]
    fn deref(&self) -> &HeaderMap {
        self.map()
    }
}

impl DerefMut for Headers {
    #[inline]
    fn deref_mut(&mut self) -> &mut HeaderMap {
        self.map();
        self.map.get_mut().expect("made in the line before")
    }
}

impl From<HeaderMap> for Headers {
    fn from(map: HeaderMap) -> Self {
        let forwarded = map.contains_key(VIA) || map.contains_key(MAX_FORWARDS);
        // Where there is a map, it costs little to look when it matters.
        let seen = Seen { forwarded, traced: true };
        Headers { lines: Bytes::new(), seen, map: map.into() }
    }
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, HOST};

    use super::super::headers::*;

    #[test]
    fn fields_are_there_when_they_are_asked_for() {
        let mut headers =
            Headers::of_lines(Bytes::from_static(b"Host: h\r\nx: 1\r\nX: 2\r\nempty:\r\n\r\n"), Seen::default());
        assert_eq!(headers.first(&HOST), Some(&b"h"[..]));
        assert!(headers.map.get().is_none() && headers.first(&ACCEPT).is_none());
        assert_eq!(headers.len(), 4);
        assert_eq!(headers.first(&HOST), Some(&b"h"[..]));
        let values: Vec<_> = headers.get_all("x").iter().collect();
        assert_eq!(values, ["1", "2"]);
        assert_eq!(headers["empty"], "");
        headers.remove("x");
        assert_eq!(headers.into_map().len(), 2);
    }
}
