//! Paths that would lead elsewhere once a server has decoded and resolved them.

use crate::runtime::hex;

/// Checks a path before it is sent on. Servers resolve dot segments (RFC 3986, 5.2.4), many of them after they have decoded
/// the path, some twice, some with `\` as a slash, some after they have cut `;parameters` off a segment (Tomcat's `..;/`),
/// some after they have dropped what they cannot read, and Windows after it has cut spaces off. A path that is a dot
/// segment to any of them is refused. An encoded slash between other segments stays: it leads nowhere else.
///
/// # Errors
/// The fault, in words for the client.
pub fn check(path: &str) -> Result<(), &'static str> {
    if memchr::memchr2(b'.', b'%', path.as_bytes()).is_none() {
        return Ok(());
    }
    let (mut decoded, mut segment) = (DecodedPath(path.as_bytes()), Segment::default());
    while let Some(sign) = decoded.sign()? {
        match sign {
            Sign::Nul => return Err("the path has a NUL"),
            Sign::Slash | Sign::Cut if segment.leads_elsewhere() => return Err(DOTS),
            Sign::Slash => segment = Segment::default(),
            Sign::Dots(count) => segment.dots += count,
            Sign::Dropped => segment.dropped = true,
            Sign::Cut | Sign::Other => segment.other = true,
        }
    }
    if segment.leads_elsewhere() { Err(DOTS) } else { Ok(()) }
}

const DOTS: &str = "the path has a dot segment";
const PERCENT: &str = "the path has a `%` without two hexadecimal digits";

/// The state of a segment.
#[derive(Clone, Copy, Default)]
struct Segment {
    dots: u32,
    /// Something that some servers drop.
    dropped: bool,
    /// Something that makes it a name.
    other: bool,
}

impl Segment {
    /// Whether it is a dot segment to some server: dots alone, or dots among what is dropped.
    fn leads_elsewhere(self) -> bool {
        !self.other && (matches!(self.dots, 1 | 2) || (self.dots > 0 && self.dropped))
    }
}

/// A character of a path, as far as it matters to dot segments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Nul,
    /// A slash, or what some servers take for one.
    Slash,
    /// Ends a segment for some servers.
    Cut,
    /// So many dots, or what some servers take for them.
    Dots(u32),
    /// White space, a control character, or bytes that are not UTF-8.
    Dropped,
    Other,
}

/// The bytes of a path as the most eager server sees them: `%252e` is `.` to those that decode twice.
#[derive(Clone)]
struct DecodedPath<'a>(&'a [u8]);

impl DecodedPath<'_> {
    fn pair(&mut self) -> Option<u8> {
        let [high, low, rest @ ..] = self.0 else { return None };
        let byte = hex::byte(*high, *low)?;
        self.0 = rest;
        Some(byte)
    }

    /// The next byte; an error for a `%` that encodes nothing.
    fn byte(&mut self) -> Result<Option<u8>, &'static str> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(None) };
        self.0 = rest;
        if *first != b'%' {
            return Ok(Some(*first));
        }
        let mut byte = self.pair().ok_or(PERCENT)?;
        // Decoded, this is another `%`, perhaps with its two digits behind it.
        while byte == b'%' {
            match self.pair() {
                Some(next) => byte = next,
                None => break,
            }
        }
        Ok(Some(byte))
    }

    /// The next character. One that is longer than it need be (`%c0%ae`, `%e0%80%ae`) is what careless servers read.
    fn sign(&mut self) -> Result<Option<Sign>, &'static str> {
        let Some(first) = self.byte()? else { return Ok(None) };
        let (more, bits) = match first {
            0..=0x7f => return Ok(Some(Sign::from_char(first.into()))),
            0xc0..=0xdf => (1, first & 0x1f),
            0xe0..=0xef => (2, first & 0x0f),
            0xf0..=0xf7 => (3, first & 0x07),
            0xf8..=0xfb => (4, first & 0x03),
            0xfc..=0xfd => (5, first & 0x01),
            _ => return Ok(Some(Sign::Dropped)),
        };
        let (mut ahead, mut value) = (self.clone(), u32::from(bits));
        for _ in 0..more {
            match ahead.byte() {
                Ok(Some(byte @ 0x80..=0xbf)) => value = value << 6 | u32::from(byte & 0x3f),
                // The bytes behind it stand for themselves.
                _ => return Ok(Some(Sign::Dropped)),
            }
        }
        self.0 = ahead.0;
        let sound = char::from_u32(value).is_some_and(|c| c.len_utf8() == more + 1);
        Ok(Some(if sound || value < 0x80 { Sign::from_char(value) } else { Sign::Dropped }))
    }
}

impl Sign {
    fn from_char(c: u32) -> Self {
        match c {
            0 => Sign::Nul,
            // The full-width and small forms too: some servers map them to ASCII.
            0x2f | 0x5c | 0xff0f | 0xff3c | 0xfe68 => Sign::Slash,
            0x3b | 0x3f | 0x23 | 0xff1b => Sign::Cut,
            0x2e | 0xff0e | 0xfe52 | 0x2024 => Sign::Dots(1),
            0x2025 => Sign::Dots(2),
            0x01..=0x20 | 0x7f..=0xa0 | 0xad | 0x200b..=0x200f | 0x2060 | 0x3000 | 0xfeff => Sign::Dropped,
            _ => Sign::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_segment_is_found_however_it_is_written() {
        for path in [
            "/..",
            "/.",
            "/a/../b",
            "/a/./b",
            "..",
            "/%2e%2e/b",
            "/.%2E/b",
            "/%2e",
            "/a%2f..%2fb",
            "/a%2F..",
            "/..%5cb",
            "/a%5c..%5cb",
            "/%252e%252e/b",
            "/%25252e%25252e%25252fb",
            "/..;/b",
            "/.;x=1/b",
            "/..%3bx/b",
            "/..%3f/b",
            "/..%23",
            "/%c0%ae%c0%ae/b",
            "/..%c0%afb",
            "/..%c1%9cb",
            "/%25c0%25ae./b",
            "/%e0%80%ae%e0%80%ae/b",
            "/..%e0%80%af",
            "/..%E0%80%AFb",
            "/%f0%80%80%ae%f0%80%80%ae/b",
            "/%f8%80%80%80%ae./b",
            "/%fc%80%80%80%80%ae",
            "/a%e0%81%9c..%e0%81%9cb",
            "/%25e0%2580%25ae./b",
            "/..%e0%80%bbx/b",
            "/..%20",
            "/..%20/b",
            "/%20../b",
            "/.%20./b",
            "/..%2520/b",
            "/..%09/b",
            "/..%0a",
            "/...%20/b",
            "/..%ff/b",
            "/.%fe./b",
            "/..%e2%80%8b/b",
            "/..%c2%a0/b",
            "/%ef%bc%8e%ef%bc%8e/b",
            "/..%ef%bc%8fb",
            "/%e2%80%a5/b",
            "/..%c0/b",
            "/..%e0%80/b",
        ] {
            assert_eq!(check(path), Err(DOTS), "{path}");
        }
        for path in ["/a%00", "/..%00/b", "/%2500", "/a%c0%80", "/%e0%80%80"] {
            assert_eq!(check(path), Err("the path has a NUL"), "{path}");
        }
        for path in ["/%", "/a%2", "/%zz", "/%u002e", "/%%32e"] {
            assert!(check(path).is_err(), "{path}");
        }
    }

    #[test]
    fn other_paths_are_left_alone() {
        for path in [
            "",
            "/",
            "//",
            "/...",
            "/.a",
            "/a.",
            "/a..b/..c",
            "/a%2fb",
            "/%2F%2F",
            "/a%2e%2eb",
            "/100%25",
            "/%25zz",
            "/%2525",
            "/%C0/a",
            "/%C0%41",
            "/;a=../x;..",
            "/a%5cb",
            "/%e4%ff",
            "/.well-known/x",
            "/caf%c3%a9%20..x",
            "/%20",
            "/a%20",
            "/.a%20",
            "/%ff%fe",
            "/x%c0%aey",
            "/%ef%bc%8ehidden",
            "/%e2%80%a6",
        ] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
    }
}
