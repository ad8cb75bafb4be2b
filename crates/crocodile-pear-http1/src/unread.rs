//! The header fields of an answer. They become a map when they are needed: for most items they are not.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{LazyLock, OnceLock};

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

use crate::fields::hop_by_hop;
use crate::line::FieldLine;
use crate::name::{self, NameSet};

/// The fields of an answer. They are used as the map that they are; what kind of body they announce is known without one.
#[derive(Clone, Default)]
pub struct AnswerFields(Option<Box<HeldFields>>);

#[derive(Clone, Default)]
struct HeldFields {
    lines: FieldLines,
    map: OnceLock<HeaderMap>,
}

/// The lines of a head that are fields of the answer, checked and not yet read.
#[derive(Clone, Default)]
pub(crate) struct FieldLines {
    bytes: Bytes,
    places: Vec<FieldPlace>,
    /// The marks of all names: a look for other names need not read them.
    marks: u64,
    media: Option<Range<u32>>,
    coded: bool,
}

#[derive(Clone)]
struct FieldPlace {
    name: Range<u32>,
    value: Range<u32>,
}

/// Most answers have fewer.
const USUAL: usize = 12;

impl FieldLines {
    pub(crate) fn new() -> Self {
        FieldLines { places: Vec::with_capacity(USUAL), ..FieldLines::default() }
    }

    pub(crate) fn add(&mut self, line: &FieldLine<'_>, lines: &[u8]) {
        let place = |part: &[u8]| {
            // A longer head is refused before a place is read.
            let start = (part.as_ptr().addr() - lines.as_ptr().addr()) as u32;
            start..start + part.len() as u32
        };
        let value = place(line.value);
        match line.name.len() {
            12 if self.media.is_none() && line.name.eq_ignore_ascii_case(b"content-type") => {
                self.media = Some(value.clone());
            }
            16 if line.name.eq_ignore_ascii_case(b"content-encoding") => self.coded = true,
            _ => {}
        }
        self.marks |= name::mark(line.name);
        self.places.push(FieldPlace { name: place(line.name), value });
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The fields of these lines, of which `lines` are the bytes.
    pub(crate) fn within(mut self, lines: &[u8]) -> AnswerFields {
        if self.places.is_empty() {
            return AnswerFields::default();
        }
        // Copied once; every value is a slice of it.
        self.bytes = Bytes::copy_from_slice(lines);
        AnswerFields(Some(Box::new(HeldFields { lines: self, map: OnceLock::new() })))
    }

    fn name(&self, place: &FieldPlace) -> &[u8] {
        self.bytes.get(place.name.start as usize..place.name.end as usize).unwrap_or_default()
    }

    #[inline]
    fn has_any(&self, names: &NameSet) -> bool {
        names.may_have(self.marks) && self.places.iter().any(|place| names.contains(self.name(place)))
    }

    fn remove(&mut self, names: &NameSet) {
        if !names.may_have(self.marks) {
            return;
        }
        let mut places = std::mem::take(&mut self.places);
        places.retain(|place| !names.contains(self.name(place)));
        self.places = places;
        if names.contains(CONTENT_TYPE.as_str().as_bytes()) {
            self.media = None;
        }
        self.coded &= !names.contains(CONTENT_ENCODING.as_str().as_bytes());
    }

    fn read(&self) -> HeaderMap {
        let part = |place: &Range<u32>| place.start as usize..place.end as usize;
        let mut map = HeaderMap::with_capacity(self.places.len() + 1);
        for FieldPlace { name, value } in &self.places {
            let name = self.bytes.get(part(name)).and_then(name::of).filter(|name| !hop_by_hop(name));
            let value = HeaderValue::from_maybe_shared(self.bytes.slice(part(value)));
            if let (Some(name), Ok(value)) = (name, value) {
                map.append(name, value);
            }
        }
        map
    }
}

impl HeldFields {
    #[inline]
    fn map(&self) -> &HeaderMap {
        self.map.get_or_init(|| self.lines.read())
    }
}

impl AnswerFields {
    /// The content type.
    #[inline]
    pub fn media(&self) -> Option<&[u8]> {
        let held = self.0.as_deref()?;
        match (held.map.get(), &held.lines.media) {
            (Some(map), _) => map.get(CONTENT_TYPE).map(HeaderValue::as_bytes),
            (None, Some(place)) => held.lines.bytes.get(place.start as usize..place.end as usize),
            (None, None) => None,
        }
    }

    /// Whether the body has a content coding.
    #[inline]
    pub fn is_coded(&self) -> bool {
        self.0.as_deref().is_some_and(|held| match held.map.get() {
            Some(map) => map.contains_key(CONTENT_ENCODING),
            None => held.lines.coded,
        })
    }

    /// Whether one of these fields is there. Costs no map.
    #[inline]
    pub fn has_any(&self, names: &NameSet) -> bool {
        self.0.as_deref().is_some_and(|held| match held.map.get() {
            Some(map) => names.is_in(map),
            None => held.lines.has_any(names),
        })
    }

    /// Removes these fields. Costs no map.
    #[inline]
    pub fn remove_all(&mut self, names: &NameSet) {
        let Some(held) = self.0.as_deref_mut() else { return };
        match held.map.get_mut() {
            Some(map) => names.iter().for_each(|name| drop(map.remove(name))),
            None => held.lines.remove(names),
        }
    }

    /// The fields, to keep.
    #[inline]
    pub fn into_map(self) -> HeaderMap {
        self.0.map_or_else(HeaderMap::new, |held| {
            let HeldFields { lines, map } = *held;
            map.into_inner().unwrap_or_else(|| lines.read())
        })
    }
}

impl From<HeaderMap> for AnswerFields {
    #[inline]
    fn from(map: HeaderMap) -> Self {
        if map.is_empty() {
            return AnswerFields::default();
        }
        AnswerFields(Some(Box::new(HeldFields { lines: FieldLines::default(), map: map.into() })))
    }
}

impl Deref for AnswerFields {
    type Target = HeaderMap;

    #[inline]
    fn deref(&self) -> &HeaderMap {
        static NONE: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
        self.0.as_deref().map_or(&NONE, HeldFields::map)
    }
}

impl DerefMut for AnswerFields {
    #[inline]
    fn deref_mut(&mut self) -> &mut HeaderMap {
        let held = self.0.get_or_insert_default();
        if held.map.get().is_none() {
            held.map = held.lines.read().into();
        }
        held.map.get_mut().expect("it has just been set")
    }
}

impl fmt::Debug for AnswerFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_LENGTH, ETAG, LOCATION, SERVER};

    use super::super::unread::*;
    use crate::answer::{MethodKind, parse};

    fn fields(lines: &str) -> AnswerFields {
        let head = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        parse(head.as_bytes(), MethodKind::Other).expect("a head").expect("a whole one").0.headers
    }

    fn is_read(fields: &AnswerFields) -> bool {
        fields.0.as_deref().is_some_and(|held| held.map.get().is_some())
    }

    #[test]
    fn what_a_body_is_needs_no_map() {
        let one = fields("Server: x\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n");
        assert_eq!((one.media(), one.is_coded(), is_read(&one)), (Some(&b"text/html"[..]), true, false));
        assert_eq!((one.len(), one.clone().into_map().len()), (3, 3));
        assert_eq!((one.media(), one.is_coded(), is_read(&one)), (Some(&b"text/html"[..]), true, true));
        let none = fields("Content-Length: 1\r\n");
        assert!(none.is_empty() && none.media().is_none() && !none.is_coded());
    }

    #[test]
    fn fields_are_there_when_they_are_asked_for() {
        let one = fields("X: 1\r\nx:  2 \r\nKeep-Alive: timeout=5\r\nConnection: y\r\nY: 3\r\nServer:\r\n");
        assert_eq!(one.get_all("x").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((one.len(), one.get(SERVER)), (3, Some(&HeaderValue::from_static(""))));
    }

    #[test]
    fn fields_are_found_and_removed_without_a_map() {
        let mut one = fields("Content-Type: a/b\r\nETag: x\r\nContent-Encoding: br\r\nServer: y\r\netag: z\r\n");
        assert!(one.has_any(&NameSet::of([LOCATION, ETAG])) && !one.has_any(&NameSet::of([LOCATION])));
        one.remove_all(&NameSet::of([ETAG, CONTENT_TYPE]));
        assert_eq!((one.media(), one.is_coded(), is_read(&one)), (None, true, false));
        assert!(!one.has_any(&NameSet::of([ETAG])));
        one.remove_all(&NameSet::of([CONTENT_ENCODING]));
        assert!(!one.is_coded() && !is_read(&one));
        assert_eq!((one.len(), one.get(SERVER)), (1, Some(&HeaderValue::from_static("y"))));
        assert!(one.has_any(&NameSet::of([SERVER])));
        one.remove_all(&NameSet::of([SERVER]));
        assert!(
            one.is_empty()
                && !one.has_any(&NameSet::of([SERVER]))
                && !AnswerFields::default().has_any(&NameSet::of([SERVER]))
        );
    }

    #[test]
    fn a_change_counts_more_than_what_came() {
        let mut one = fields("Content-Type: a/b\r\nContent-Encoding: br\r\n");
        one.insert(CONTENT_TYPE, HeaderValue::from_static("c/d"));
        one.remove(CONTENT_ENCODING);
        assert_eq!((one.media(), one.is_coded()), (Some(&b"c/d"[..]), false));
        let mut none = AnswerFields::default();
        none.insert(CONTENT_LENGTH, HeaderValue::from_static("1"));
        assert_eq!((none.media(), none.len()), (None, 1));
        let first = fields("Content-Type: a/b\r\ncontent-type: c/d\r\n");
        assert_eq!(first.media(), first.get(CONTENT_TYPE).map(HeaderValue::as_bytes));
    }
}
