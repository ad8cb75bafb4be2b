//! Paths that would lead elsewhere once a server has decoded and resolved them.

/// Checks a path before it is sent on. Servers resolve dot segments (RFC 3986, 5.2.4), many of them after they have decoded
/// the path, some twice, some with `\` as a slash, and some after they have cut `;parameters` off a segment (Tomcat's
/// `..;/`). A path that is a dot segment to any of them is refused. An encoded slash between other segments stays: it
/// leads nowhere else.
///
/// # Errors
/// What is wrong, in words for the client.
pub fn check(path: &str) -> Result<(), &'static str> {
    if memchr::memchr2(b'.', b'%', path.as_bytes()).is_none() {
        return Ok(());
    }
    let mut segment = Segment::Empty;
    for byte in Decoded(path.as_bytes()) {
        segment = match (byte.ok_or("the path has a `%` without two hexadecimal digits")?, segment) {
            (0, _) => return Err("the path has a NUL"),
            (b'/' | b'\\' | b';' | b'?' | b'#', Segment::Dot | Segment::Dots) => return Err(DOTS),
            (b'/' | b'\\', _) => Segment::Empty,
            (b'.', Segment::Empty) => Segment::Dot,
            (b'.', Segment::Dot) => Segment::Dots,
            _ => Segment::Other,
        };
    }
    if matches!(segment, Segment::Dot | Segment::Dots) { Err(DOTS) } else { Ok(()) }
}

const DOTS: &str = "the path has a dot segment";

/// What a segment is so far.
#[derive(Clone, Copy)]
enum Segment {
    Empty,
    Dot,
    Dots,
    Other,
}

/// The bytes of a path as the most eager server sees them: `%252e` is `.` to those that decode twice, `%c0%ae` to those
/// that take overlong UTF-8. `None` for a `%` that encodes nothing.
#[derive(Clone)]
struct Decoded<'a>(&'a [u8]);

impl Decoded<'_> {
    fn pair(&mut self) -> Option<u8> {
        let [high, low, rest @ ..] = self.0 else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let byte = digit(*high)? << 4 | digit(*low)?;
        self.0 = rest;
        Some(byte)
    }
}

impl Iterator for Decoded<'_> {
    type Item = Option<u8>;

    fn next(&mut self) -> Option<Option<u8>> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        if *first != b'%' {
            return Some(Some(*first));
        }
        let Some(mut byte) = self.pair() else { return Some(None) };
        // Decoded, this is another `%`, perhaps with its two digits behind it.
        while byte == b'%' {
            match self.pair() {
                Some(next) => byte = next,
                None => return Some(Some(b'%')),
            }
        }
        if let 0xC0 | 0xC1 = byte {
            let mut ahead = self.clone();
            if let Some(Some(next @ 0x80..=0xBF)) = ahead.next() {
                self.0 = ahead.0;
                return Some(Some((byte & 1) << 6 | next & 0x3F));
            }
        }
        Some(Some(byte))
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
        ] {
            assert_eq!(check(path), Err(DOTS), "{path}");
        }
        for path in ["/a%00", "/..%00/b", "/%2500"] {
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
        ] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
    }
}
