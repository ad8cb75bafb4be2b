//! JSON that every reader understands alike: a name that comes twice in one object is an error.

use std::fmt;

use crocodile_pear::unstable::offload;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads one value.
///
/// # Errors
/// When this is no JSON, nests deeper than 128 levels, or names a field twice.
pub fn read(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(bytes).map(|Strict(value)| value)
}

/// Reads an object; nothing for anything else, and where a field is named twice, at any depth.
pub fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match read(bytes) {
        Ok(Value::Object(fields)) => Some(fields),
        _ => None,
    }
}

/// Values whose memory is counted at a time, while a long list is read.
const COUNTED: usize = 256;

/// The room of one value in a list.
const ITEM: usize = size_of::<Value>();

/// The room of a field, with its name and its place in the index, and of an object without one.
const FIELD: usize = 2 * (size_of::<Value>() + size_of::<String>() + 32);
const OBJECT: usize = 256;

/// The fields of a small object, whose room is what it has.
const FEW: usize = 8;

/// Counts the memory of what is read, where somebody bounds it.
fn count(items: usize, each: usize) {
    if items > 0 && items.is_multiple_of(COUNTED) {
        offload::hold(COUNTED * each);
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Strict)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::from).ok_or_else(|| E::custom("a number is too large"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
            count(list.len(), ITEM);
        }
        offload::hold(list.len() % COUNTED * ITEM);
        // Room for four is made for the first one: lists of one within each other would have 144 bytes for each byte read.
        list.shrink_to_fit();
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut first = Vec::new();
        while let Some(name) = fields.next_key::<String>()? {
            let Strict(value) = fields.next_value()?;
            first.push((name, value));
            if first.len() == FEW {
                break;
            }
        }
        // An object that grows by itself begins with room for four.
        let (read, mut map) = (first.len(), Map::with_capacity(first.len()));
        for (name, value) in first {
            put(&mut map, name, value)?;
        }
        while read == FEW
            && let Some(name) = fields.next_key::<String>()?
        {
            let Strict(value) = fields.next_value()?;
            put(&mut map, name, value)?;
            count(map.len(), FIELD);
        }
        offload::hold(OBJECT + map.len() % COUNTED * FIELD);
        Ok(map.into())
    }
}

fn put<E: Error>(map: &mut Map<String, Value>, name: String, value: Value) -> Result<(), E> {
    match map.insert(name, value) {
        None => Ok(()),
        Some(_) => Err(E::custom("a name comes twice in one object")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::unique_json::*;

    #[test]
    fn only_what_has_one_meaning_is_read() {
        for good in ["null", "[1, -2, 2.5, \"a\\n\", true]", "{\"a\": {\"b\": []}, \"c\": 1}"] {
            assert_eq!(read(good.as_bytes()).expect(good), serde_json::from_str::<Value>(good).expect(good));
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        for bad in ["", "{", "{} {}", "{\"a\": 1, \"a\": 2}", "[{\"a\": 1, \"\\u0061\": 2}]", &deep, "1e999"] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_an_object_is_an_object() {
        assert!(object(br#" {"a": [1, {"b": null}], "c": 1.5e3, "b": "x"} "#).is_some());
        for wrong in
            [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, r#"{"x":[{"a":1,"a":2}]}"#, "[]", "1", "{}{}", "{", ""]
        {
            assert!(object(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(object(&[b"{\"a\":\"", &[0xff][..], b"\"}"].concat()).is_none());
    }
}
