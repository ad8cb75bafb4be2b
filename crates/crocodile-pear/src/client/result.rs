//! The result of a closure, as JSON. The value of an `Ok` is the row; an `Err` is a failed item, never a row.

use std::fmt;

use serde::ser::{self, Impossible, Serialize, Serializer};

use crate::error::{Error, Kind};

/// The JSON of what a closure returned.
///
/// # Errors
/// The `Err` that it returned, or why its value cannot be JSON.
pub fn write<T: Serialize + ?Sized>(output: &T) -> Result<Vec<u8>, Error> {
    match output.serialize(Probe) {
        Err(Found::Plain) | Ok(Found::Plain) => json(output),
        Ok(Found::Value(made)) | Err(Found::Value(made)) => made,
    }
}

fn json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| {
        Error::new(Kind::Expression, format!("what the closure gives cannot be JSON: {error}")).caused_by(error)
    })
}

/// The kind of the outermost value.
#[derive(Debug)]
enum Found {
    /// No `Result`.
    Plain,
    /// The value of a `Result`, or its error.
    Value(Result<Vec<u8>, Error>),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the outermost value")
    }
}

impl std::error::Error for Found {}

impl ser::Error for Found {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Found::Plain
    }
}

/// Looks at the outermost value alone: serde writes a `Result` as a variant of that name.
struct Probe;

macro_rules! plain {
    ($($method:ident($($argument:ty),*) -> $made:ty;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<$made, Found> {
            Err(Found::Plain)
        })*
    };
}

impl Serializer for Probe {
    type Ok = Found;
    type Error = Found;
    type SerializeSeq = Impossible<Found, Found>;
    type SerializeTuple = Impossible<Found, Found>;
    type SerializeTupleStruct = Impossible<Found, Found>;
    type SerializeTupleVariant = Impossible<Found, Found>;
    type SerializeMap = Impossible<Found, Found>;
    type SerializeStruct = Impossible<Found, Found>;
    type SerializeStructVariant = Impossible<Found, Found>;

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Found, Found> {
        Ok(match (name, variant) {
            ("Result", "Ok") => Found::Value(json(value)),
            ("Result", "Err") => Found::Value(Err(match json(value) {
                Ok(reason) => Error::of_program(String::from_utf8_lossy(&reason).into_owned()),
                Err(error) => error,
            })),
            _ => Found::Plain,
        })
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<Found, Found> {
        Ok(Found::Plain)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, _: &T) -> Result<Found, Found> {
        Ok(Found::Plain)
    }

    plain! {
        serialize_bool(bool) -> Found;
        serialize_i8(i8) -> Found;
        serialize_i16(i16) -> Found;
        serialize_i32(i32) -> Found;
        serialize_i64(i64) -> Found;
        serialize_u8(u8) -> Found;
        serialize_u16(u16) -> Found;
        serialize_u32(u32) -> Found;
        serialize_u64(u64) -> Found;
        serialize_f32(f32) -> Found;
        serialize_f64(f64) -> Found;
        serialize_char(char) -> Found;
        serialize_str(&str) -> Found;
        serialize_bytes(&[u8]) -> Found;
        serialize_none() -> Found;
        serialize_unit() -> Found;
        serialize_unit_struct(&'static str) -> Found;
        serialize_unit_variant(&'static str, u32, &'static str) -> Found;
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::*;

    #[test]
    fn an_error_is_never_a_row() {
        let row = |made: Result<u8, &str>| write(&made).map_err(|error| error.to_string());
        assert_eq!(row(Ok(1)), Ok(b"1".to_vec()));
        assert_eq!(row(Err("no total")), Err("a step of the program failed: \"no total\"".to_owned()));
        assert_eq!(write(&Some(3)).expect("JSON"), b"3");
        assert_eq!(write(&vec![1, 2]).expect("JSON"), b"[1,2]");
        assert_eq!(write("a").expect("JSON"), b"\"a\"");
    }
}
