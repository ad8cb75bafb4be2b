//! The one form of a request's target. Clients send some bytes raw that RFC 3986 wants percent-encoded: a target becomes
//! its encoded form here, before routes, keys and signatures are made of it. A target with no such form is refused.

use std::borrow::Cow;
use std::fmt::Write;

/// Ends a target: a control byte or a space.
const END: u8 = 0;
/// Stands as it is in a path and in a query.
const CLEAN: u8 = 1;
/// Is encoded or refused, or depends on where it stands.
const ODD: u8 = 2;

static CLASS: [u8; 256] = {
    let mut table = [END; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'"' | b'#' | b'<' | b'>' | b'\\' | b'^' | b'`' | 0x80..=0xff => ODD,
            b'!'..=b'~' => CLEAN,
            _ => END,
        };
        byte += 1;
    }
    table
};

const UNFIT: &str = "the request's target holds a byte that must be percent-encoded";

/// How many bytes from the start can be a target, and whether all of them stand as they are.
#[inline]
pub(crate) fn scan(bytes: &[u8]) -> (usize, bool) {
    let (mut length, mut seen) = (0, 0);
    for byte in bytes {
        let class = CLASS[usize::from(*byte)];
        if class == END {
            break;
        }
        seen |= class;
        length += 1;
    }
    (length, seen & ODD == 0)
}

/// The target in its one form; nothing is allocated for a target that has it already. The URL standard lets browsers
/// send `^` in a path, and `` ` `` in a query, raw; programs send raw UTF-8, `"`, `<` and `>`.
///
/// # Errors
/// Why it has no such form: a fragment never travels, a backslash in a path is a slash to some, and bytes that are not
/// UTF-8 are whatever a server takes them for.
pub fn canonical(target: &[u8]) -> Result<Cow<'_, str>, &'static str> {
    let text = std::str::from_utf8(target).map_err(|_| "the request's target is not UTF-8")?;
    match scan(target) {
        (length, true) if length == target.len() => Ok(text.into()),
        _ => encode(text).map(Cow::Owned),
    }
}

fn encode(text: &str) -> Result<String, &'static str> {
    let (mut out, mut query) = (String::with_capacity(text.len() + 32), false);
    for byte in text.bytes() {
        query |= byte == b'?';
        match byte {
            b'^' | b'\\' if query => out.push(byte.into()),
            b'"' | b'<' | b'>' | b'^' | b'`' | 0x80..=0xff => {
                // Writing to a string cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
            _ if CLASS[usize::from(byte)] == CLEAN => out.push(byte.into()),
            _ => return Err(UNFIT),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::target::*;

    #[test]
    fn what_browsers_and_programs_send_raw_has_one_form() {
        for (raw, form) in [
            ("/a?q=`x`", "/a?q=%60x%60"),
            ("/a^b?c^d", "/a%5Eb?c^d"),
            ("/caf\u{e9}/\u{1f40a}?\u{540d}=\u{5024}", "/caf%C3%A9/%F0%9F%90%8A?%E5%90%8D=%E5%80%A4"),
            ("/\"a\"<b>?\"c\"<d>", "/%22a%22%3Cb%3E?%22c%22%3Cd%3E"),
            ("/a`b", "/a%60b"),
            ("/{a}|[b]?{c}|[d]", "/{a}|[b]?{c}|[d]"),
            ("/a?b\\c", "/a?b\\c"),
            ("/caf%c3%a9%5e", "/caf%c3%a9%5e"),
            ("/\u{ff0e}\u{ff0e}/x", "/%EF%BC%8E%EF%BC%8E/x"),
            ("http://h/\u{e9}", "http://h/%C3%A9"),
        ] {
            assert_eq!(canonical(raw.as_bytes()).as_deref(), Ok(form), "{raw}");
            assert_eq!(canonical(form.as_bytes()).as_deref(), Ok(form), "{form}");
        }
    }

    #[test]
    fn a_target_that_cannot_be_made_one_form_is_refused() {
        let unfit: [&[u8]; 14] = [
            b"/a b",
            b"/a\tb",
            b"/a\0",
            b"/a\x7f",
            b"/a\r\nb",
            b"/a\\b",
            b"/\"\\?",
            b"/a#b",
            b"/a?b#c",
            b"/caf\xe9",
            b"/a?\xff",
            b"/\xc0\xae",
            b"/\xe0\x80\xae",
            b"/\xed\xa0\x80",
        ];
        for target in unfit {
            assert!(canonical(target).is_err(), "{}", target.escape_ascii());
        }
    }

    #[test]
    fn a_clean_target_is_not_copied() {
        assert!(matches!(canonical(b"/a/b%20c?d=e&f[]=%zz"), Ok(Cow::Borrowed(_))));
    }
}
