//! An entry as bytes, for a tier outside of the process. What is damaged, cut or of another version is no entry.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use flate2::Crc;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::encoded_copies::Copies;
use super::entry::Entry;
use super::shared_body::SharedBody;
use crate::cache::rules::policy::ReuseTerms;
use crate::cache::rules::tags::{MOST_TAGS, Tags};
use crate::http::date::Moment;

/// The form of the bytes. Another form has another number; a gateway of another version reads it as a miss.
const VERSION: u32 = 0x4350_0001;

/// The bytes of an entry whose body is here.
pub fn encode(entry: &Entry) -> Option<Vec<u8>> {
    let pieces = entry.body.pieces()?;
    let length: usize = pieces.iter().map(Bytes::len).sum();
    let mut out = Vec::with_capacity(length + 1024);
    out.put_u32(VERSION);
    out.put_u32(0);
    out.put_u16(entry.status.as_u16());
    put_fields(&mut out, &entry.headers);
    out.put_u32(u32::try_from(entry.selector.len()).ok()?);
    for (name, value) in &entry.selector {
        put_text(&mut out, name.as_str().as_bytes());
        out.put_u8(value.is_some().into());
        put_text(&mut out, value.as_deref().unwrap_or_default());
    }
    out.put_u32(u32::try_from(entry.tags.len()).ok()?);
    entry.tags.names().iter().for_each(|name| out.put_u64(name.number()));
    put_terms(&mut out, &entry.terms);
    out.put_u8(entry.body.trailers().is_some().into());
    put_fields(&mut out, entry.body.trailers().unwrap_or(&HeaderMap::new()));
    out.put_u64(length as u64);
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    let sum = sum(&out[8..]);
    out[4..8].copy_from_slice(&sum.to_be_bytes());
    Some(out)
}

/// The entry of these bytes. Its body shares them.
pub fn decode(mut bytes: Bytes) -> Option<Entry> {
    if bytes.try_get_u32().ok()? != VERSION || bytes.try_get_u32().ok()? != sum(&bytes) {
        return None;
    }
    let status = StatusCode::from_u16(bytes.try_get_u16().ok()?).ok()?;
    let headers = fields(&mut bytes)?;
    let mut selector = Vec::new();
    for _ in 0..bytes.try_get_u32().ok()? {
        let name = HeaderName::from_bytes(&text(&mut bytes)?).ok()?;
        let is_there = bytes.try_get_u8().ok()? == 1;
        let value = text(&mut bytes)?;
        selector.push((name, is_there.then(|| value.to_vec().into())));
    }
    let count = bytes.try_get_u32().ok().filter(|count| *count as usize <= MOST_TAGS)?;
    let tags = (0..count).map(|_| bytes.try_get_u64().ok()).collect::<Option<Vec<u64>>>()?;
    let terms = terms(&mut bytes)?;
    let has_trailers = bytes.try_get_u8().ok()? == 1;
    let trailers = Some(fields(&mut bytes)?).filter(|_| has_trailers);
    if bytes.try_get_u64().ok()? != bytes.len() as u64 {
        return None;
    }
    Some(Entry {
        status,
        headers,
        selector: selector.into(),
        tags: Tags::of_numbers(tags),
        terms,
        body: body(bytes, trailers),
        copies: Copies::default(),
    })
}

fn body(bytes: Bytes, trailers: Option<HeaderMap>) -> SharedBody {
    // A copy of its own size: the bytes around it are not kept with it.
    let bytes = Bytes::copy_from_slice(&bytes);
    if trailers.is_none() {
        return SharedBody::from(bytes);
    }
    let (body, writer) = SharedBody::arriving(Some(bytes.len() as u64));
    writer.push(bytes);
    writer.finish(trailers);
    body
}

fn sum(bytes: &[u8]) -> u32 {
    let mut sum = Crc::new();
    sum.update(bytes);
    sum.sum()
}

fn put_fields(out: &mut Vec<u8>, fields: &HeaderMap) {
    out.put_u32(u32::try_from(fields.len()).unwrap_or(u32::MAX));
    for (name, value) in fields {
        put_text(out, name.as_str().as_bytes());
        out.put_u8(value.is_sensitive().into());
        put_text(out, value.as_bytes());
    }
}

fn put_terms(out: &mut Vec<u8>, terms: &ReuseTerms) {
    out.put_u64(terms.born.0);
    let lifetimes = [terms.fresh, terms.stale_while_revalidate, terms.stale_if_error, terms.stale_if_unreachable];
    lifetimes.iter().for_each(|time| out.put_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)));
    out.put_u8(u8::from(terms.always_validate) | u8::from(terms.must_revalidate) << 1);
}

fn terms(bytes: &mut Bytes) -> Option<ReuseTerms> {
    let mut number = || bytes.try_get_u64().ok();
    let born = Moment(number()?);
    let mut lifetime = || number().map(Duration::from_millis);
    let (fresh, stale_while_revalidate) = (lifetime()?, lifetime()?);
    let (stale_if_error, stale_if_unreachable) = (lifetime()?, lifetime()?);
    let flags = bytes.try_get_u8().ok()?;
    let (always_validate, must_revalidate) = (flags & 1 != 0, flags & 2 != 0);
    Some(ReuseTerms {
        born,
        fresh,
        stale_while_revalidate,
        stale_if_error,
        stale_if_unreachable,
        always_validate,
        must_revalidate,
    })
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
    out.extend_from_slice(text);
}

fn fields(bytes: &mut Bytes) -> Option<HeaderMap> {
    let count = bytes.try_get_u32().ok()? as usize;
    // Each takes nine bytes at least: a wrong number allocates nothing.
    let mut fields = HeaderMap::with_capacity(count.min(bytes.len() / 9).min(256));
    for _ in 0..count {
        let name = HeaderName::from_bytes(&text(bytes)?).ok()?;
        let is_sensitive = bytes.try_get_u8().ok()? == 1;
        let mut value = HeaderValue::from_bytes(&text(bytes)?).ok()?;
        value.set_sensitive(is_sensitive);
        fields.try_append(name, value).ok()?;
    }
    Some(fields)
}

fn text(bytes: &mut Bytes) -> Option<Bytes> {
    let length = bytes.try_get_u32().ok()? as usize;
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

#[cfg(test)]
mod tests {
    use crocodile_pear_peers::test_rng::TestRng;

    use super::super::codec::*;

    fn entry(trailers: Option<HeaderMap>) -> Entry {
        let (body, writer) = SharedBody::arriving(None);
        writer.push(Bytes::from(vec![7; 100_000]));
        writer.push(Bytes::from_static(b"end"));
        writer.finish(trailers);
        let mut headers = HeaderMap::new();
        headers.append("etag", HeaderValue::from_static("\"x\""));
        headers.append("x-odd-name", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        headers.append("x-odd-name", HeaderValue::from_static(""));
        let selector = vec![(http::header::ACCEPT_LANGUAGE, Some(b"sv"[..].into())), (http::header::COOKIE, None)];
        let tags = Tags::new(["item:1", "items"]);
        let (selector, copies) = (selector.into(), Copies::default());
        let terms = ReuseTerms {
            born: Moment(1_700_000_000_123),
            fresh: Duration::from_secs(30),
            stale_if_error: Duration::from_millis(1),
            must_revalidate: true,
            ..ReuseTerms::default()
        };
        Entry { status: StatusCode::NOT_FOUND, headers, selector, tags, terms, body, copies }
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let trailers: HeaderMap = [(http::header::ETAG, HeaderValue::from_static("\"y\""))].into_iter().collect();
        for trailers in [None, Some(trailers)] {
            let before = entry(trailers);
            let after = decode(encode(&before).unwrap().into()).unwrap();
            assert_eq!(
                (before.status, &before.headers, &before.selector),
                (after.status, &after.headers, &after.selector)
            );
            assert_eq!(before.terms, after.terms);
            assert_eq!((&before.tags, before.body.trailers()), (&after.tags, after.body.trailers()));
            let whole = |entry: &Entry| entry.body.pieces().unwrap().concat();
            assert!(whole(&before) == whole(&after));
        }
    }

    #[test]
    fn what_is_damaged_cut_or_of_another_version_is_no_entry() {
        let bytes = encode(&entry(None)).unwrap();
        for at in (0..200).chain([bytes.len() - 1]) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(decode(damaged.into()).is_none(), "byte {at}");
        }
        for length in (0..300).chain([bytes.len() - 1]) {
            assert!(decode(Bytes::copy_from_slice(&bytes[..length])).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn a_right_sum_over_nonsense_does_no_harm() {
        let mut rng = TestRng(1);
        for length in 0..2_000 {
            let mut bytes = VERSION.to_be_bytes().to_vec();
            bytes.extend([0; 4]);
            for _ in 0..length % 97 {
                bytes.push(if rng.rare(3) { 0 } else { rng.roll() as u8 });
            }
            let right = sum(&bytes[8..]);
            bytes[4..8].copy_from_slice(&right.to_be_bytes());
            assert!(decode(bytes.into()).is_none());
        }
    }
}
