//! Ranges of bytes (RFC 9110, 14), as far as a cache serves them: one range.

use std::ops::Range;

use http::header::{CONTENT_RANGE, HeaderMap, RANGE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRequest {
    /// From the first position to the last, if there is one.
    From(u64, Option<u64>),
    /// So many bytes at the end.
    Last(u64),
}

/// The bytes that a part holds, and the length of the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// From the first position to before the last.
    pub bytes: Range<u64>,
    /// All bytes, if that is known.
    pub whole: Option<u64>,
}

/// The part of a body to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeSelection {
    Bytes(Range<u64>),
    /// The range is outside the body (416).
    Unsatisfiable,
}

/// The one range of a request; `None` if it has several, other units or a syntax error: then it gets the whole.
pub fn asked(headers: &HeaderMap) -> Option<RangeRequest> {
    let mut values = headers.get_all(RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (unit, range) = value.to_str().ok()?.split_once('=')?;
    let (first, last) = range.trim().split_once('-').filter(|_| unit.trim().eq_ignore_ascii_case("bytes"))?;
    match (position(first), position(last)) {
        (Some(first), Some(last)) => (first <= last).then_some(RangeRequest::From(first, Some(last))),
        (Some(first), None) if last.is_empty() => Some(RangeRequest::From(first, None)),
        (None, Some(count)) if first.is_empty() => Some(RangeRequest::Last(count)),
        _ => None,
    }
}

fn position(text: &str) -> Option<u64> {
    let sound = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    sound.then(|| text.parse().unwrap_or(u64::MAX))
}

impl RangeRequest {
    /// The bytes of this range, of a body of this length.
    pub fn of(self, length: u64) -> RangeSelection {
        let bytes = match self {
            RangeRequest::From(first, last) => first..last.map_or(length, |last| last.saturating_add(1).min(length)),
            RangeRequest::Last(count) => length.saturating_sub(count)..length,
        };
        if bytes.start < bytes.end { RangeSelection::Bytes(bytes) } else { RangeSelection::Unsatisfiable }
    }

    /// The bytes of this range, as positions of the whole; `None` if the part does not have all of them.
    pub fn within(self, part: &ContentRange) -> Option<Range<u64>> {
        let RangeSelection::Bytes(bytes) = self.of(part.whole?) else { return None };
        (part.bytes.start <= bytes.start && bytes.end <= part.bytes.end).then_some(bytes)
    }
}

/// The range of a 206; `None` if there are several.
pub fn part(headers: &HeaderMap) -> Option<ContentRange> {
    let mut values = headers.get_all(CONTENT_RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (unit, range) = value.to_str().ok()?.trim().split_once(' ')?;
    let (bytes, whole) = range.trim().split_once('/').filter(|_| unit.eq_ignore_ascii_case("bytes"))?;
    let (first, last) = bytes.split_once('-')?;
    let (first, last) = (position(first)?, position(last)?.checked_add(1)?);
    let whole = if whole == "*" { None } else { Some(position(whole)?) };
    (first < last && whole.is_none_or(|whole| last <= whole)).then_some(ContentRange { bytes: first..last, whole })
}

/// `content-range` of these bytes.
pub fn content_range(bytes: &Range<u64>, whole: Option<u64>) -> String {
    let (first, last) = (bytes.start, bytes.end - 1);
    whole.map_or_else(|| format!("bytes {first}-{last}/*"), |whole| format!("bytes {first}-{last}/{whole}"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::range::*;

    fn read(range: &'static str) -> Option<RangeRequest> {
        asked(&HeaderMap::from_iter([(RANGE, HeaderValue::from_static(range))]))
    }

    #[test]
    fn one_range_is_read_and_others_are_no_range() {
        assert_eq!(read("bytes=0-1"), Some(RangeRequest::From(0, Some(1))));
        assert_eq!(read("bytes=1-"), Some(RangeRequest::From(1, None)));
        assert_eq!(read("bytes=-5"), Some(RangeRequest::Last(5)));
        for other in ["bytes=0-1,3-4", "items=0-1", "bytes=5-1", "bytes=-", "bytes=a-b", "bytes 0-1"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn ranges_are_cut_of_wholes_and_of_parts() {
        assert_eq!(RangeRequest::From(2, Some(99)).of(10), RangeSelection::Bytes(2..10));
        assert_eq!(RangeRequest::Last(99).of(10), RangeSelection::Bytes(0..10));
        assert_eq!(RangeRequest::From(10, None).of(10), RangeSelection::Unsatisfiable);
        assert_eq!(RangeRequest::Last(0).of(10), RangeSelection::Unsatisfiable);
        let part = ContentRange { bytes: 4..9, whole: Some(10) };
        assert_eq!(RangeRequest::From(6, Some(8)).within(&part), Some(6..9));
        assert_eq!(RangeRequest::From(6, None).within(&part), None);
        assert_eq!(RangeRequest::From(0, Some(5)).within(&part), None);
    }

    #[test]
    fn a_part_says_what_it_holds() {
        let read =
            |value: &'static str| part(&HeaderMap::from_iter([(CONTENT_RANGE, HeaderValue::from_static(value))]));
        assert_eq!(read("bytes 4-8/10"), Some(ContentRange { bytes: 4..9, whole: Some(10) }));
        assert_eq!(read("bytes 4-8/*"), Some(ContentRange { bytes: 4..9, whole: None }));
        for wrong in ["bytes 8-4/10", "bytes 4-10/10", "bytes */10", "items 1-2/3", "bytes 4-8"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(content_range(&(4..9), Some(10)), "bytes 4-8/10");
    }
}
