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
        Err(Outermost::Plain) | Ok(Outermost::Plain) => json(output),
        Ok(Outermost::Value(made)) | Err(Outermost::Value(made)) => made,
    }
}

fn json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| {
        Error::new(Kind::Expression, format!("what the closure gives cannot be JSON: {error}")).caused_by(error)
    })
}

/// The kind of the outermost value.
#[derive(Debug)]
enum Outermost {
    /// No `Result`.
    Plain,
    /// The value of a `Result`, or its error.
    Value(Result<Vec<u8>, Error>),
}

impl fmt::Display for Outermost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the outermost value")
    }
}

impl std::error::Error for Outermost {}

impl ser::Error for Outermost {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Outermost::Plain
    }
}

/// Looks at the outermost value alone: serde writes a `Result` as a variant of that name.
struct Probe;

macro_rules! plain {
    ($($method:ident($($argument:ty),*) -> $made:ty;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<$made, Outermost> {
            Err(Outermost::Plain)
        })*
    };
}

impl Serializer for Probe {
    type Ok = Outermost;
    type Error = Outermost;
    type SerializeSeq = Impossible<Outermost, Outermost>;
    type SerializeTuple = Impossible<Outermost, Outermost>;
    type SerializeTupleStruct = Impossible<Outermost, Outermost>;
    type SerializeTupleVariant = Impossible<Outermost, Outermost>;
    type SerializeMap = Impossible<Outermost, Outermost>;
    type SerializeStruct = Impossible<Outermost, Outermost>;
    type SerializeStructVariant = Impossible<Outermost, Outermost>;

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Outermost, Outermost> {
        Ok(match (name, variant) {
            ("Result", "Ok") => Outermost::Value(json(value)),
            ("Result", "Err") => Outermost::Value(Err(match json(value) {
                Ok(reason) => Error::of_program(String::from_utf8_lossy(&reason).into_owned()),
                Err(error) => error,
            })),
            _ => Outermost::Plain,
        })
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<Outermost, Outermost> {
        Ok(Outermost::Plain)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, _: &T) -> Result<Outermost, Outermost> {
        Ok(Outermost::Plain)
    }

    plain! {
        serialize_bool(bool) -> Outermost;
        serialize_i8(i8) -> Outermost;
        serialize_i16(i16) -> Outermost;
        serialize_i32(i32) -> Outermost;
        serialize_i64(i64) -> Outermost;
        serialize_u8(u8) -> Outermost;
        serialize_u16(u16) -> Outermost;
        serialize_u32(u32) -> Outermost;
        serialize_u64(u64) -> Outermost;
        serialize_f32(f32) -> Outermost;
        serialize_f64(f64) -> Outermost;
        serialize_char(char) -> Outermost;
        serialize_str(&str) -> Outermost;
        serialize_bytes(&[u8]) -> Outermost;
        serialize_none() -> Outermost;
        serialize_unit() -> Outermost;
        serialize_unit_struct(&'static str) -> Outermost;
        serialize_unit_variant(&'static str, u32, &'static str) -> Outermost;
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
