//! Escapes text from clients, so that it cannot end a line or a field, or control a terminal.

use crocodile_pear::unstable::runtime::hex;

use crate::config::visible;

/// Escapes as nginx does: `"`, `\`, control characters and non-ASCII bytes become `\xHH`.
pub fn nginx(bytes: &[u8], line: &mut Vec<u8>) {
    coded(bytes, |byte| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\'), line);
}

/// The same for a field without quotes, which spaces and brackets would end.
pub fn bare(bytes: &[u8], line: &mut Vec<u8>) {
    coded(bytes, |byte| !matches!(byte, b'!'..=b'~') || matches!(byte, b'"' | b'\\' | b'[' | b']'), line);
}

fn coded(bytes: &[u8], harmful: impl Fn(u8) -> bool, line: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| harmful(*byte)) {
        line.extend_from_slice(&rest[..at]);
        line.extend_from_slice(b"\\x");
        line.extend_from_slice(&hex::upper_pair(rest[at]));
        rest = &rest[at + 1..];
    }
    line.extend_from_slice(rest);
}

/// Writes a JSON string with its quotes. Invalid UTF-8 becomes U+FFFD.
pub fn json(bytes: &[u8], line: &mut Vec<u8>) {
    line.push(b'"');
    if is_plain(bytes) {
        line.extend_from_slice(bytes);
    } else {
        bytes.utf8_chunks().for_each(|chunk| {
            json_text(chunk.valid(), line);
            if !chunk.invalid().is_empty() {
                line.extend_from_slice("\u{fffd}".as_bytes());
            }
        });
    }
    line.push(b'"');
}

/// Whether nothing needs escaping: printable ASCII without `"` and `\`. Checks eight bytes at a time.
fn is_plain(bytes: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // Sets the high bit of each harmful byte. Bytes after a harmful one may be marked too.
    let marks = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let is = |byte: u8| {
            let zero = word ^ (ONES * u64::from(byte));
            zero.wrapping_sub(ONES) & !zero
        };
        (word | control | is(b'"') | is(b'\\') | is(0x7f)) & HIGH
    };
    match bytes.last_chunk() {
        Some(last) => bytes.as_chunks().0.iter().fold(marks(last), |seen, word| seen | marks(word)) == 0,
        None => bytes.iter().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')),
    }
}

/// The first bytes of the hidden characters that are not ASCII.
const HIDDEN: [u8; 6] = [0xc2, 0xd8, 0xe1, 0xe2, 0xef, 0xf3];

fn json_text(text: &str, line: &mut Vec<u8>) {
    let harmful = |byte: &u8| matches!(byte, 0..=0x1f | b'"' | b'\\' | 0x7f) || HIDDEN.contains(byte);
    let mut rest = text;
    // Each of these bytes begins a character.
    while let Some((at, c)) =
        rest.as_bytes().iter().position(harmful).and_then(|at| Some((at, rest[at..].chars().next()?)))
    {
        line.extend_from_slice(&rest.as_bytes()[..at]);
        let end = at + c.len_utf8();
        match c {
            '"' | '\\' => line.extend_from_slice(&[b'\\', rest.as_bytes()[at]]),
            c if visible::is_hidden(c) => visible::escape(c, line),
            _ => line.extend_from_slice(&rest.as_bytes()[at..end]),
        }
        rest = &rest[end..];
    }
    line.extend_from_slice(rest.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::escape::*;

    fn made(escape: fn(&[u8], &mut Vec<u8>), bytes: &[u8]) -> String {
        let mut line = Vec::new();
        escape(bytes, &mut line);
        String::from_utf8(line).expect("UTF-8")
    }

    #[test]
    fn no_byte_ends_a_line_or_a_field() {
        for byte in 0..=u8::MAX {
            let text = [b'a', byte, b'z'];
            for escaped in [made(nginx, &text), made(bare, &text)] {
                assert!(escaped.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !escaped.contains('"'), "{escaped}");
            }
            assert!(!made(bare, &text).contains([' ', '[', ']']));
            let json = made(json, &text);
            let read: String = serde_json::from_str(&json).expect("JSON");
            assert_eq!(read, String::from_utf8_lossy(&text), "{json}");
            assert!(!json.contains(|c: char| c.is_ascii_control()), "{json:?}");
        }
    }

    #[test]
    fn no_character_of_a_json_line_is_hidden() {
        for c in ('\0'..=char::MAX).filter(|c| visible::is_hidden(*c) || (*c as u32).is_multiple_of(257)) {
            let text = format!("a{c}é{c}");
            let json = made(json, text.as_bytes());
            assert!(!json.contains(visible::is_hidden), "{json:?}");
            assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
        }
    }

    #[test]
    fn it_is_written_as_nginx_writes_it() {
        assert_eq!(made(nginx, b"a \"b\"\\\r\n\x7f\xc3\xa4"), r"a \x22b\x22\x5C\x0D\x0A\x7F\xC3\xA4");
        assert_eq!(made(bare, b"a b"), r"a\x20b");
        assert_eq!(made(json, "ä\"\n\u{2028}".as_bytes()), "\"ä\\\"\\u000a\\u2028\"");
        assert_eq!(made(json, b"\xff\xfe"), "\"\u{fffd}\u{fffd}\"");
    }
}
