//! Names and characters (XML 1.0, fifth edition, 2.2 and 2.3).

/// Whether a document may have this character.
pub fn is_character(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Whether a name may begin with it.
pub fn begins(c: char) -> bool {
    matches!(c, ':' | '_' | 'A'..='Z' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
        | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}' | '\u{2070}'..='\u{218f}'
        | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}'
        | '\u{10000}'..='\u{effff}')
}

/// Whether a name may continue with it.
pub fn goes_on(c: char) -> bool {
    begins(c) || matches!(c, '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
}

/// The prefix and the local part of a name. `None` unless it has at most one colon, with a name on each side
/// (Namespaces in XML, 4).
pub fn split(name: &str) -> Option<(Option<&str>, &str)> {
    let Some((prefix, local)) = name.split_once(':') else { return Some((None, name)) };
    let sound = !prefix.is_empty() && !local.contains(':') && local.chars().next().is_some_and(begins);
    sound.then_some((Some(prefix), local))
}
