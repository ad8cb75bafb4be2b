#![doc = include_str!("../README.md")]
// Without expressions, some of what they use is left.
#![cfg_attr(not(feature = "expressions"), allow(dead_code, unused_imports))]

pub mod calendar;
mod error;
pub mod hex;
#[cfg(feature = "expressions")]
mod jq;
#[cfg(not(feature = "expressions"))]
#[path = "jq/absent.rs"]
mod jq;
pub mod json;
pub mod meter;

pub use error::{BoxError, Error, Kind};
pub use jq::{
    Closure, Data, Fault, Filter, Read, Value, as_str, assignment, is_function, kind, list, null, object, refused,
    string, variables,
};
