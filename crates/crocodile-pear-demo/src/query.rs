//! The parameters of a query.

/// The decoded value of the first query parameter of that name.
pub fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pair = query?.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?;
    let spaced = pair.1.replace('+', " ");
    Some(percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}
