//! Pieces of jq.

/// A text as a literal of jq.
pub fn text(value: &str) -> String {
    // JSON's escapes are jq's; `\(` begins an interpolation in jq only, and JSON never writes it.
    serde_json::to_string(value).unwrap_or_default()
}

/// The field of this name: `.name`, or `["a-b"]` after something.
pub fn field(name: &str) -> String {
    if is_name(name) { format!(".{name}") } else { format!("[{}]", text(name)) }
}

/// A path of fields, from `.` on: `.a.b`, `.["a-b"].c`.
pub fn path<T: AsRef<str>>(names: &[T]) -> String {
    let path: String = names.iter().map(|name| field(name.as_ref())).collect();
    if path.starts_with('[') { format!(".{path}") } else { path }
}

/// A key in an object that is constructed.
pub fn key(name: &str) -> String {
    if is_name(name) { name.to_owned() } else { text(name) }
}

/// Whether a name needs no quotes. jq's own words are no names everywhere.
pub fn is_name(name: &str) -> bool {
    const WORDS: [&str; 18] = [
        "and", "as", "catch", "def", "elif", "else", "end", "foreach", "if", "import", "include", "label", "module",
        "or", "reduce", "then", "try", "__loc__",
    ];
    let mut letters = name.chars();
    letters.next().is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && !WORDS.contains(&name)
}

/// A list of texts: `"a", "b"`.
pub fn texts<T: AsRef<str>>(values: &[T]) -> String {
    values.iter().map(|value| text(value.as_ref())).collect::<Vec<_>>().join(", ")
}
