//! The fields of a checked object, found sixty-four bytes at a time.

use std::ops::Range;

use super::simd::{Level, Simd, dispatch};

use super::block::{Block, Carry, WIDTH, is, load, without_case};
use super::walk;

/// A field as it is in the document.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// With its quotes.
    key: &'a [u8],
    /// Its value as it is in the document.
    pub value: &'a [u8],
    /// Whether its key may have escapes.
    escapes: bool,
}

impl<'a> Field<'a> {
    /// Its key as it is in the document, with quotes; `None` if it may have escapes.
    #[inline]
    pub fn plain_key(&self) -> Option<&'a [u8]> {
        (!self.escapes).then_some(self.key)
    }

    /// Whether its key is this name, after resolving escapes.
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        if self.escapes {
            return walk::is(self.key, name);
        }
        self.key.len() == name.len() + 2 && &self.key[1..=name.len()] == name.as_bytes()
    }
}

/// Passes the fields of a checked object to `take` in order, until `take` returns `None`. Returns `None` then, and for
/// a value that is not an object.
///
/// A field costs a few steps, from comma to colon to comma, however long its text is.
#[inline]
pub fn fields<'a>(bytes: &'a [u8], take: &mut dyn FnMut(Field<'a>) -> Option<()>) -> Option<()> {
    if bytes.first() != Some(&b'{') {
        return None;
    }
    walk_object(bytes, take)
}

fn walk_object<'a>(bytes: &'a [u8], take: &mut dyn FnMut(Field<'a>) -> Option<()>) -> Option<()> {
    dispatch!(Level::new(), simd => walk_blocks(simd, bytes, take))
}

#[inline(always)]
fn walk_blocks<'a, S: Simd>(simd: S, bytes: &'a [u8], take: &mut dyn FnMut(Field<'a>) -> Option<()>) -> Option<()> {
    let (mut carry, mut escapes) = (Carry::default(), false);
    // How many lists and objects are open, where the field begins, and where its colon is.
    let (mut open, mut start, mut colon) = (0, 1, 0);
    for at in (0..bytes.len()).step_by(WIDTH) {
        let block = load(simd, bytes, at);
        let text = Block::of(block, &mut carry);
        escapes |= text.escaped != 0;
        if text.text & !text.quotes == !0 {
            // The whole block is inside one string.
            continue;
        }
        let outside = !text.text;
        let plain = without_case(block);
        let (opens, closes) = (is(plain, b'{') & outside, is(plain, b'}') & outside);
        if open > closes.count_ones() + 1 {
            // The block is too deep to have fields of the object itself.
            open = open + opens.count_ones() - closes.count_ones();
            continue;
        }
        let mut left = opens | closes | (is(block, b':') | is(block, b',')) & outside;
        while left != 0 {
            let place = at + left.trailing_zeros() as usize;
            left &= left - 1;
            match bytes[place] {
                b'{' | b'[' => open += 1,
                b':' if open == 1 => colon = place,
                b',' if open == 1 => {
                    take(field(bytes, start, colon, place, escapes))?;
                    start = place + 1;
                }
                b'}' | b']' => {
                    open -= 1;
                    if open == 0 {
                        return if colon < start { Some(()) } else { take(field(bytes, start, colon, place, escapes)) };
                    }
                }
                _ => {}
            }
        }
    }
    None
}

#[inline(always)]
fn field(bytes: &[u8], start: usize, colon: usize, end: usize, escapes: bool) -> Field<'_> {
    Field { key: bytes[start..colon].trim_ascii(), value: bytes[colon + 1..end].trim_ascii(), escapes }
}

/// The positions of the fields of an object, kept for a second search.
#[derive(Clone, Debug)]
pub struct FieldPlaces {
    /// For each field, its key and its value.
    places: Vec<(Range<usize>, Range<usize>)>,
    escapes: bool,
    /// Whether all fields are recorded.
    whole: bool,
}

/// Most fields that are recorded. An object with more is searched again from the start.
const MOST: usize = 64;

impl FieldPlaces {
    /// The positions in a checked object; `None` for another value.
    pub fn of_object(bytes: &[u8]) -> Option<Self> {
        // Usually one more field is added later.
        let mut known = FieldPlaces { places: Vec::with_capacity(8), escapes: false, whole: true };
        let within = |part: &[u8]| {
            let start = part.as_ptr().addr() - bytes.as_ptr().addr();
            start..start + part.len()
        };
        fields(bytes, &mut |field| {
            known.escapes |= field.escapes;
            known.add(within(field.key), within(field.value));
            Some(())
        })?;
        Some(known)
    }

    /// A copy with room for one more field; `None` if the object in `bytes` already has a field of this name.
    pub fn without(&self, bytes: &[u8], name: &str) -> Option<Self> {
        let has = match self.of(bytes) {
            Some(mut known) => known.any(|field| field.is(name)),
            None => fields(bytes, &mut |field| (!field.is(name)).then_some(())).is_none(),
        };
        let mut places = Vec::with_capacity(self.places.len() + 1);
        places.extend_from_slice(&self.places);
        (!has).then_some(FieldPlaces { places, ..*self })
    }

    /// Records one more field.
    pub fn add(&mut self, key: Range<usize>, value: Range<usize>) {
        self.whole &= self.places.len() < MOST;
        if self.whole {
            self.places.push((key, value));
        }
    }

    /// Records whether the key of an added field has escapes.
    pub fn escaped(&mut self, escapes: bool) {
        self.escapes |= escapes;
    }

    /// The fields of the object in `bytes`; `None` if there are too many to record.
    pub fn of<'a>(&'a self, bytes: &'a [u8]) -> Option<impl Iterator<Item = Field<'a>>> {
        let escapes = self.escapes;
        let field = move |(key, value): &(Range<usize>, Range<usize>)| Field {
            key: &bytes[key.clone()],
            value: &bytes[value.clone()],
            escapes,
        };
        self.whole.then(|| self.places.iter().map(field))
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::Entries;
    use super::*;

    fn found(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
        let mut found = Vec::new();
        fields(bytes, &mut |field| {
            found.push((field.key, field.value));
            Some(())
        })?;
        Some(found)
    }

    #[test]
    fn fields_are_those_that_one_finds_byte_by_byte() {
        let long = format!("{{\"a\":[{}],\"b\" : \"{}\"}}", "{\"x\":[1,2,\"}\"]},".repeat(30), "\\\",:".repeat(40));
        let objects = [
            "{}",
            "{ }",
            "{\"a\":1}",
            "{ \"a\" : 1 , \"b\\\"\": \"x,y:z\\\\\",\n\"\":{\"a\":{}},\"c\":[[],{}],\"d\":null }",
            &long,
        ];
        for object in objects {
            for before in (0..70).map(|length| "x".repeat(length)) {
                // Shift the object, so that it is read at every position of a block.
                let object = object.replacen(
                    '{',
                    &format!("{{\"{before}\":0{}", if object.contains(':') { "," } else { "" }),
                    1,
                );
                let wanted: Vec<_> = Entries::of(object.as_bytes()).expect("an object").collect();
                assert_eq!(found(object.as_bytes()).as_ref(), Some(&wanted), "{object}");
            }
            assert_eq!(found(object.as_bytes()), Some(Entries::of(object.as_bytes()).expect("an object").collect()));
        }
        assert_eq!(found(b"[1]").or(found(b"\"{}\"")).or(found(b"")), None);
    }

    #[test]
    fn a_key_means_what_its_escapes_mean() {
        let named = |object: &str, name: &str| {
            let mut names = 0;
            fields(object.as_bytes(), &mut |field| {
                names += usize::from(field.is(name));
                Some(())
            });
            names
        };
        assert_eq!(named("{\"a\":1,\"\\u0061\":2,\"aa\":3,\"A\":4}", "a"), 2);
        assert_eq!(named("{\"x\":\"\\\\\",\"\":0}", ""), 1);
        assert_eq!(named("{\"a\":1}", "\"a\""), 0);
    }

    #[test]
    fn who_has_enough_stops() {
        let mut seen = 0;
        let whole = fields(b"{\"a\":1,\"b\":2,\"c\":3}", &mut |_| {
            seen += 1;
            (seen < 2).then_some(())
        });
        assert_eq!((whole, seen), (None, 2));
    }
}
