//! JSON: checked strictly, spliced as it came.
use crate::{error::Error, jq::Value};
use bytes::Bytes;
pub fn read(_: &Bytes) -> Result<Value, Error> { todo!() }
pub fn check(_: &[u8]) -> Result<(), Error> { todo!() }
pub fn trim(_: &Bytes) -> Bytes { todo!() }
pub fn compact(_: &[u8], _: &mut Vec<u8>) { todo!() }
pub fn write(_: &Value, _: &mut Vec<u8>) -> Result<(), Error> { todo!() }
pub fn write_string(_: &str, _: &mut Vec<u8>) { todo!() }
pub fn to_bytes(_: &Value) -> Result<Bytes, Error> { todo!() }
