//! The character set that a content type names.

use crate::http::http1::Fields;

/// The `charset` of a content type.
pub fn named(headers: &Fields) -> Option<&str> {
    let value = std::str::from_utf8(headers.media().filter(|media| media.is_ascii())?).ok()?;
    let parameters = value.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut found = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    found.next().map(|(_, label)| label.trim().trim_matches('"'))
}
