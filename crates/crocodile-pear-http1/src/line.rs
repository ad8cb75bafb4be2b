//! The lines of a head, read once and strictly (RFC 9112, 2.2 and 5): no name has a space behind it, no line is
//! continued, no control byte stands anywhere.

/// Why a line is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineFault {
    /// More bytes are needed.
    Partial,
    /// The name of a field.
    Name,
    /// The value of a field.
    Value,
    /// A line ends in anything but CR LF.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// CR LF and nothing else.
    Crlf,
    /// LF alone too, as RFC 9112 lets one read an answer.
    Lf,
}

/// A field, as it is in the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldLine<'a> {
    pub(crate) name: &'a [u8],
    /// Without the white space around it.
    pub(crate) value: &'a [u8],
    /// Whether the name has marks that a framing name has not.
    pub(crate) odd: bool,
}

/// Parses one field line at `at`, and returns where the next begins; `None` at the empty line, which ends there.
#[inline]
pub(crate) fn field(bytes: &[u8], at: usize, ends: LineEnd) -> Result<(Option<FieldLine<'_>>, usize), LineFault> {
    let rest = &bytes[at..];
    match rest {
        [b'\r', b'\n', ..] => return Ok((None, at + 2)),
        [b'\n', ..] if ends == LineEnd::Lf => return Ok((None, at + 1)),
        [] | [b'\r'] => return Err(LineFault::Partial),
        [b'\r' | b'\n', ..] => return Err(LineFault::End),
        _ => {}
    }
    let (mut length, mut seen) = (0, 0);
    for byte in rest {
        let class = NAME[usize::from(*byte)];
        if class == 0 {
            break;
        }
        seen |= class;
        length += 1;
    }
    match rest.get(length) {
        None => return Err(LineFault::Partial),
        Some(b':') if length > 0 => {}
        Some(_) => return Err(LineFault::Name),
    }
    let (value, end) = value(rest, length + 1, ends)?;
    Ok((Some(FieldLine { name: &rest[..length], value, odd: seen & ODD != 0 }), at + end))
}

/// The value at `at`, trimmed, and where the next line begins.
#[inline]
pub(crate) fn value(bytes: &[u8], at: usize, ends: LineEnd) -> Result<(&[u8], usize), LineFault> {
    let mut end = at;
    loop {
        end += plain(&bytes[end..]);
        match &bytes[end..] {
            [b'\t', ..] => end += 1,
            [b'\r', b'\n', ..] => return Ok((trim(&bytes[at..end]), end + 2)),
            [b'\n', ..] if ends == LineEnd::Lf => return Ok((trim(&bytes[at..end]), end + 1)),
            [] | [b'\r'] => return Err(LineFault::Partial),
            [b'\n', ..] => return Err(LineFault::End),
            [..] => return Err(LineFault::Value),
        }
    }
}

/// The first value of a field in lines that have been read before.
pub(crate) fn find<'a>(lines: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = lines;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let (line, next) = rest.split_at(end);
        if line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name) {
            let value = &line[name.len() + 1..];
            return Some(trim(value.strip_suffix(b"\r").unwrap_or(value)));
        }
        rest = &next[1..];
    }
    None
}

#[inline]
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// How many bytes from the start are not control bytes: eight are checked at once.
#[inline]
pub(crate) fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, tail) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The high bit of each byte that is below 0x20, and of each that is 0x7f; bytes from 0x80 on are neither. A byte
        // may be marked wrongly behind one that is marked rightly: the first mark counts.
        let below = word.wrapping_sub(ONES * 0x20) & !word;
        let delete = word ^ (ONES * 0x7f);
        let marks = (below | (delete.wrapping_sub(ONES) & !delete)) & HIGH;
        if marks != 0 {
            return at * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let control = |byte: &u8| *byte < 0x20 || *byte == 0x7f;
    words.len() * 8 + tail.iter().position(control).unwrap_or(tail.len())
}

/// A letter, a digit or `-`.
const COMMON: u8 = 1;
/// Any other byte of a token.
const ODD: u8 = 2;

/// The form of a byte in a name (RFC 9110, 5.6.2); 0 if it is not allowed there.
static NAME: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let at = byte as u8;
        table[byte] = match at {
            b'-' => COMMON,
            _ if at.is_ascii_alphanumeric() => COMMON,
            b'!' | b'#'..=b'\'' | b'*' | b'+' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~' => ODD,
            _ => 0,
        };
        byte += 1;
    }
    table
};

/// Whether a byte is allowed in a token.
pub(crate) fn is_token(byte: u8) -> bool {
    NAME[usize::from(byte)] != 0
}

#[cfg(test)]
mod tests {
    use super::super::line::*;

    #[test]
    fn control_bytes_are_found_wherever_they_stand() {
        for byte in 0..=u8::MAX {
            for at in 0..20 {
                for filler in [b'a', 0xff, 0x80, b' ', b'~'] {
                    let mut bytes = [filler; 20];
                    bytes[at] = byte;
                    let control = byte < 0x20 || byte == 0x7f;
                    assert_eq!(plain(&bytes), if control { at } else { 20 }, "{byte:#x} at {at} among {filler:#x}");
                }
            }
        }
    }

    #[test]
    fn a_field_is_read_whole_or_not_at_all() {
        let bytes = b"Host:\t a b \t\r\nx_y: \r\n\r\n";
        let (host, next) = field(bytes, 0, LineEnd::Crlf).expect("a field");
        let host = host.expect("a field");
        assert_eq!((host.name, host.value, host.odd), (b"Host".as_slice(), b"a b".as_slice(), false));
        let (odd, next) = field(bytes, next, LineEnd::Crlf).expect("a field");
        let odd = odd.expect("a field");
        assert_eq!((odd.name, odd.value, odd.odd), (b"x_y".as_slice(), b"".as_slice(), true));
        assert!(matches!(field(bytes, next, LineEnd::Crlf), Ok((None, 23))));
        for cut in 0..13 {
            assert_eq!(field(&bytes[..cut], 0, LineEnd::Crlf).err(), Some(LineFault::Partial), "{cut}");
        }
        for (line, fault) in [
            ("a b: c\r\n", LineFault::Name),
            (" a: b\r\n", LineFault::Name),
            (": b\r\n", LineFault::Name),
            ("a : b\r\n", LineFault::Name),
            ("a\r\n", LineFault::Name),
            ("a: b\n", LineFault::End),
            ("a: b\rc\r\n", LineFault::Value),
            ("a: b\0\r\n", LineFault::Value),
            ("a: b\x7f\r\n", LineFault::Value),
            ("\n", LineFault::End),
            ("\ra", LineFault::End),
        ] {
            assert_eq!(field(line.as_bytes(), 0, LineEnd::Crlf).err(), Some(fault), "{line:?}");
        }
    }
}
