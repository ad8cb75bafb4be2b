//! The formats that a client prefers (RFC 9110, 12.5.1).

use http::HeaderMap;
use http::header::ACCEPT;

use super::form::Form;
use crate::http::list;

/// The format that the client likes best, of several the first, and the media type that it knows it by.
pub fn choose(forms: &[Form], headers: &HeaderMap) -> Option<(Form, &'static str)> {
    let accept: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let accept = accept.join(",");
    let first = forms.first().map(|form| (*form, form.media()[0]));
    if forms.len() == 1 || accept.trim().is_empty() {
        return first;
    }
    let mut best: Option<(u16, (Form, &'static str))> = None;
    for form in forms {
        for media in form.media() {
            let liking = quality(&accept, media);
            if liking > best.map_or(0, |(most, _)| most) {
                best = Some((liking, (*form, media)));
            }
        }
    }
    best.map(|(_, chosen)| chosen)
}

/// How much a client prefers a media type, in thousandths: its most specific range counts.
fn quality(accept: &str, media: &str) -> u16 {
    let (kind, _) = media.split_once('/').unwrap_or((media, ""));
    let ranges = list::texts(accept).filter_map(|range| {
        let name = list::name(range).to_ascii_lowercase();
        let rank = match name.as_str() {
            "*/*" => 1,
            name if name.strip_suffix("/*") == Some(kind) => 2,
            name if name == media => 3,
            _ => return None,
        };
        Some((rank, list::weight(range)))
    });
    ranges.max().map_or(0, |(_, quality)| quality)
}

#[cfg(test)]
mod tests {
    use super::super::accept::*;
    use http::HeaderValue;

    fn chosen(accept: &'static str) -> Option<(Form, &'static str)> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
        choose(&[Form::Json, Form::Xml, Form::Csv], &headers)
    }

    #[test]
    fn the_client_chooses_among_the_formats() {
        assert_eq!(chosen(""), Some((Form::Json, "application/json")));
        assert_eq!(chosen("*/*"), Some((Form::Json, "application/json")));
        assert_eq!(chosen("text/xml"), Some((Form::Xml, "text/xml")));
        assert_eq!(chosen("text/*"), Some((Form::Xml, "text/xml")));
        assert_eq!(chosen("text/xml;q=0, */*;q=0.5, application/json;q=0"), Some((Form::Xml, "application/xml")));
        assert_eq!(chosen("text/*;q=0.5, application/json;q=0.4"), Some((Form::Xml, "text/xml")));
        assert_eq!(chosen("application/xml;q=0.9, text/csv, */*;q=0.1"), Some((Form::Csv, "text/csv")));
        assert_eq!(chosen("application/json;q=0, */*;q=0.2"), Some((Form::Xml, "application/xml")));
        assert_eq!(chosen("text/html"), None);
        assert_eq!(chosen("application/json;q=0"), None);
        assert_eq!(chosen("text/csv;q=x"), None);
        assert_eq!(chosen("TEXT/CSV; header=present; q=1.000"), Some((Form::Csv, "text/csv")));
    }
}
