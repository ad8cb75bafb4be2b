//! JSON objects in which no name stands twice: of two, one reader takes the first and another the last.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads an object; nothing for anything else, and where a name stands twice, at any depth.
pub fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value = fields.next_value_seed(Strict)?;
            if object.insert(name, value).is_some() {
                return Err(de::Error::custom("a name stands twice"));
            }
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_once() {
        assert!(object(br#" {"a": [1, {"b": null}], "c": 1.5e3, "b": "x"} "#).is_some());
        for wrong in
            [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, r#"{"x":[{"a":1,"a":2}]}"#, "[]", "1", "{}{}", "{", ""]
        {
            assert!(object(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(object(&[b"{\"a\":\"", &[0xff][..], b"\"}"].concat()).is_none());
    }
}
