//! Header fields that are lists (RFC 9110, 5.6.1), and the weights of their members (12.4.2).

use http::{HeaderMap, HeaderName};

/// The members of a list in one line, without the blanks around them. Empty members say nothing and are left out.
#[inline]
pub fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// The members of a list in a text.
#[inline]
pub fn texts(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(str::trim).filter(|member| !member.is_empty())
}

/// The members of a field in all of its lines.
#[inline]
pub fn field<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    headers.get_all(name).iter().flat_map(|line| members(line.as_bytes()))
}

/// The members of a field in all of its lines that are text.
#[inline]
pub fn text_field<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> + use<'a> {
    headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).flat_map(texts)
}

/// Whether a field has this member, in upper or lower case.
#[inline]
pub fn has(headers: &HeaderMap, name: &HeaderName, member: &str) -> bool {
    field(headers, name).any(|known| known.eq_ignore_ascii_case(member.as_bytes()))
}

/// Whether `Vary` says that an answer depends on this field.
#[inline]
pub fn varies(headers: &HeaderMap, on: &str) -> bool {
    field(headers, &http::header::VARY).any(|name| name == b"*" || name.eq_ignore_ascii_case(on.as_bytes()))
}

/// The value of a parameter of a member or of a media type, without its quotes.
#[inline]
pub fn parameter<'a>(member: &'a str, name: &str) -> Option<&'a str> {
    let parameters = member.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut found = parameters.filter(|(known, _)| known.trim().eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim().trim_matches('"'))
}

/// The name of a member, without its parameters.
#[inline]
pub fn name(member: &str) -> &str {
    member.split(';').next().unwrap_or_default().trim()
}

/// How much a client likes a member, in thousandths. A weight that is no number is 0.
pub fn weight(member: &str) -> u16 {
    let weight = parameter(member, "q").map_or(1.0, |weight| weight.parse::<f32>().unwrap_or(0.0));
    (weight.clamp(0.0, 1.0) * 1000.0).round() as u16
}

/// Whether the list of an `Accept` field takes this name.
pub fn takes(accept: &str, wanted: &str) -> bool {
    texts(accept).any(|member| name(member).eq_ignore_ascii_case(wanted) && weight(member) > 0)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{TE, VARY};

    use super::super::list::*;

    #[test]
    fn a_list_may_come_in_several_lines_and_with_empty_members() {
        let lines = [(TE, "gzip;q=0.5, ,"), (TE, " Trailers"), (VARY, "accept ,\u{fc}, Origin")];
        let mut headers = HeaderMap::new();
        for (name, line) in lines {
            headers.append(name, HeaderValue::from_bytes(line.as_bytes()).expect("a value"));
        }
        assert_eq!(field(&headers, &TE).collect::<Vec<_>>(), [&b"gzip;q=0.5"[..], b"Trailers"]);
        assert_eq!(text_field(&headers, &TE).collect::<Vec<_>>(), ["gzip;q=0.5", "Trailers"]);
        assert!(has(&headers, &TE, "trailers") && !has(&headers, &TE, "gzip"));
        assert!(varies(&headers, "origin") && !varies(&headers, "cookie"));
        headers.append(VARY, HeaderValue::from_static("*"));
        assert!(varies(&headers, "cookie"));
    }

    #[test]
    fn weights_are_read_as_clients_write_them() {
        for (member, wanted) in [
            ("gzip", 1000),
            ("gzip;q=0.5", 500),
            ("text/html; level=1; Q = 0.25", 250),
            ("*; q=.2", 200),
            ("gzip;q=1.000", 1000),
            ("gzip;q=7", 1000),
            ("gzip;q=0", 0),
            ("gzip;q=0.000", 0),
            ("gzip;q=-1", 0),
            ("gzip;q=x", 0),
            ("gzip;q=nan", 0),
            ("gzip;q=", 0),
            ("gzip;quality=0", 1000),
        ] {
            assert_eq!(weight(member), wanted, "{member}");
        }
    }

    #[test]
    fn a_client_says_whether_it_takes_a_coding() {
        assert!(takes("gzip", "gzip") && takes("br, GZIP;q=0.5", "gzip"));
        assert!(!takes("", "gzip") && !takes("gzip;q=0", "gzip") && !takes("x-gzip-not, br", "gzip"));
    }

    #[test]
    fn parameters_are_found_in_either_case_and_without_quotes() {
        let media = "text/csv; header=present; Charset=\"utf-8\"";
        assert_eq!((name(media), parameter(media, "charset")), ("text/csv", Some("utf-8")));
        assert_eq!((parameter(media, "header"), parameter("charset=a", "charset")), (Some("present"), None));
    }
}
