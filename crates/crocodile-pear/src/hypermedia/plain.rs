//! Documents of hypermedia as plain JSON: the fields of each resource, and its related parts under their names.

mod atom;
mod collection_json;
mod document;
mod hal;
mod json_api;
mod json_ld;
mod object;
mod odata;
mod rules;
mod siren;
mod stream;

pub use self::document::document;
pub use self::rules::{Format, PlainRules};
pub use self::stream::{PlainStream, WriteProgress};

#[cfg(test)]
mod tests;
