//! Which coding an answer gets: `Accept-Encoding` (RFC 9110, 12.5.3) against what is offered.

use crocodile_pear::unstable::http::list;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

crocodile_pear::unstable::choice! {
    /// A content coding.
    pub enum Coding {
        /// Zstandard (RFC 8878), in a window of 256 KiB.
        Zstd = "zstd",
        /// The one that every client knows (RFC 1952).
        Gzip = "gzip",
        /// Brotli (RFC 7932).
        Br = "br",
        /// zlib's format (RFC 1950).
        Deflate = "deflate",
    }
}

impl Coding {
    /// All of them. At their usual levels br is no smaller than gzip, and finds nothing again of what it delivered.
    pub const ALL: [Coding; 4] = [Coding::Zstd, Coding::Gzip, Coding::Br, Coding::Deflate];
}

/// The coding for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodingChoice {
    /// The answer as it is.
    Plain,
    /// A coding, where it pays.
    Coded(Coding),
    /// A coding in any case: the client refuses the answer as it is.
    Only(Coding),
}

/// The coding that the client likes best; among equals, the first that is offered.
pub fn choose(headers: &HeaderMap, offered: &[Coding]) -> CodingChoice {
    let wishes = Wishes::from_headers(headers);
    // `max_by_key` would take the last among equals.
    let best = offered.iter().rev().max_by_key(|coding| wishes.weight(coding.word()));
    let best = best.copied().filter(|coding| wishes.weight(coding.word()) > 0);
    match best {
        None => CodingChoice::Plain,
        Some(coding) if wishes.plain == Some(0) => CodingChoice::Only(coding),
        // Listed, and liked better than any coding. Unlisted, it is what codings are asked for instead of.
        Some(coding) if wishes.plain.is_some_and(|plain| plain > wishes.weight(coding.word())) => CodingChoice::Plain,
        Some(coding) => CodingChoice::Coded(coding),
    }
}

/// The client's preferences, in thousandths.
struct Wishes<'a> {
    listed: Vec<(&'a str, u16)>,
    any: Option<u16>,
    plain: Option<u16>,
}

impl<'a> Wishes<'a> {
    fn from_headers(headers: &'a HeaderMap) -> Self {
        let mut wishes = Wishes { listed: Vec::new(), any: None, plain: None };
        for (coding, weight) in list::text_field(headers, &ACCEPT_ENCODING).filter_map(element) {
            match coding {
                "*" => wishes.any = Some(weight),
                _ if coding.eq_ignore_ascii_case("identity") => wishes.plain = Some(weight),
                _ => wishes.listed.push((coding, weight)),
            }
        }
        // `*;q=0` refuses what is not listed, and the answer as it is with it.
        if wishes.any == Some(0) && wishes.plain.is_none() {
            wishes.plain = Some(0);
        }
        wishes
    }

    fn weight(&self, coding: &str) -> u16 {
        let same =
            |name: &str| name.eq_ignore_ascii_case(coding) || (coding == "gzip" && name.eq_ignore_ascii_case("x-gzip"));
        let listed = self.listed.iter().find(|(name, _)| same(name)).map(|(_, weight)| *weight);
        listed.or(self.any).unwrap_or(0)
    }
}

/// `gzip;q=0.5`. What cannot be read asks for nothing.
fn element(text: &str) -> Option<(&str, u16)> {
    let (coding, parameter) = text.split_once(';').map_or((text, None), |(coding, rest)| (coding, Some(rest)));
    let coding = coding.trim();
    let weight = match parameter.map(str::trim) {
        None => 1000,
        Some(parameter) => weight(parameter.strip_prefix(['q', 'Q'])?.trim_start().strip_prefix('=')?.trim())?,
    };
    (!coding.is_empty()).then_some((coding, weight))
}

/// `0`, `0.5`, `1.000`: at most three digits behind the point (RFC 9110, 12.4.2).
fn weight(text: &str) -> Option<u16> {
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    if digits.len() > 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths: u16 = format!("{digits:0<3}").parse().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::negotiate::*;

    fn asked(value: &'static str) -> CodingChoice {
        choose(&HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]), &Coding::ALL)
    }

    #[test]
    fn a_client_gets_what_it_likes_best() {
        use Coding::{Br, Deflate, Gzip, Zstd};
        use CodingChoice::{Coded, Only, Plain};
        for (value, wanted) in [
            ("gzip", Coded(Gzip)),
            ("GZIP", Coded(Gzip)),
            ("x-gzip", Coded(Gzip)),
            ("gzip, deflate, br, zstd", Coded(Zstd)),
            ("gzip, deflate, br", Coded(Gzip)),
            ("br;q=1.0, gzip;q=0.8, *;q=0.1", Coded(Br)),
            ("gzip;q=0.5,deflate;q=0.501", Coded(Deflate)),
            ("gzip ; q=0.5 , br ; Q=0.4", Coded(Gzip)),
            ("gzip;q=0", Plain),
            ("gzip;q=0, *", Coded(Zstd)),
            ("zstd;q=0, *;q=0.5", Coded(Gzip)),
            ("*", Coded(Zstd)),
            ("", Plain),
            ("identity", Plain),
            ("compress, sdch", Plain),
            ("gzip;q=0.5, identity", Plain),
            ("gzip, identity;q=0.5", Coded(Gzip)),
            ("identity;q=0", Plain),
            ("gzip, identity;q=0", Only(Gzip)),
            ("gzip, *;q=0", Only(Gzip)),
            ("*, identity;q=0", Only(Zstd)),
            ("gzip;q=2", Plain),
            ("gzip;q=0.1234", Plain),
            ("gzip;q=", Plain),
            ("gzip;level=9", Plain),
            ("gzip;q=1.001, br;q=0.001", Coded(Br)),
        ] {
            assert_eq!(asked(value), wanted, "{value}");
        }
    }

    #[test]
    fn a_client_that_says_nothing_gets_the_answer_as_it_is() {
        assert_eq!(choose(&HeaderMap::new(), &Coding::ALL), CodingChoice::Plain);
    }

    #[test]
    fn a_list_may_come_in_several_fields() {
        let mut headers = HeaderMap::new();
        headers.append(ACCEPT_ENCODING, HeaderValue::from_static("gzip;q=0.5"));
        headers.append(ACCEPT_ENCODING, HeaderValue::from_static("br"));
        assert_eq!(choose(&headers, &Coding::ALL), CodingChoice::Coded(Coding::Br));
    }

    #[test]
    fn only_what_is_offered_is_chosen() {
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip, br;q=0.1"))]);
        assert_eq!(choose(&headers, &[Coding::Br]), CodingChoice::Coded(Coding::Br));
        assert_eq!(choose(&headers, &[]), CodingChoice::Plain);
    }
}
