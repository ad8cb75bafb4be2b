//! Characters that nobody sees and a terminal obeys: controls, bidirectional marks, separators of lines.

use std::borrow::Cow;
use std::io::Write;

/// Whether a character moves the cursor, turns the direction of the text around, or takes no room.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// A text with U+FFFD in the place of each hidden character; as many characters as before.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// The same JSON, with an escape in the place of each hidden character of its strings.
pub fn json(text: &str) -> Cow<'_, str> {
    // Below it JSON allows spaces and line breaks between values, and serializers escape the rest.
    let wanted = |c: char| c >= '\u{7f}' && is_hidden(c);
    if !text.contains(wanted) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if wanted(c) => escape(c, &mut out),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// A line for people, with an escape in the place of each hidden character; its end stays. `colours` says whether the
/// line has escape sequences of its own.
pub fn line(text: &str, colours: bool) -> Cow<'_, str> {
    let wanted = |c: char| is_hidden(c) && !(colours && c == '\u{1b}');
    let body = text.strip_suffix('\n').unwrap_or(text);
    if !body.contains(wanted) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in body.chars() {
        match c {
            c if !wanted(c) => out.push(c),
            c => out.extend(c.escape_default()),
        }
    }
    out.push_str(&text[body.len()..]);
    Cow::Owned(out)
}

/// `\u202e`, as JSON has it.
pub fn escape(c: char, out: &mut Vec<u8>) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to memory cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::visible::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_as_text() {
        let evil = "a\u{9b}31m\u{202e}b\u{2066}c\u{200f}\u{2028}\u{e0041}\u{7f}";
        assert_eq!(plain(evil), "a\u{fffd}31m\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
        let written = format!("{{\"a\": \"é{evil}\"}}\n");
        let shown = json(&written);
        assert!(!shown.trim_end().contains(is_hidden), "{shown:?}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(read(&shown), read(&written));
        assert_eq!(line("one\ntwo\r\u{1b}[2J\u{85}\n", false), "one\\ntwo\\r\\u{1b}[2J\\u{85}\n");
        assert_eq!(line("\u{1b}[31mred\u{9b}\n", true), "\u{1b}[31mred\\u{9b}\n");
    }

    #[test]
    fn what_people_write_stays() {
        for text in ["Grüße, 世界, नमस्ते, עברית, 🐊", ""] {
            assert_eq!((plain(text).as_str(), &*json(text), &*line(text, false)), (text, text, text));
        }
    }
}
