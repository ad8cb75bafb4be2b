//! Whole documents.

use bytes::Bytes;

use super::rules::{Format, PlainRules};
use super::{atom, collection_json, hal, json_api, json_ld, odata, siren};
use crate::error::Error;
use crate::hypermedia::part::Part;
use crate::json::Raw;

/// The plain form of a whole document.
///
/// # Errors
/// `Unusable` for a document of another format, and `Oversized` for one that becomes larger than the bound.
pub fn document(plain: &PlainRules, document: &Raw) -> Result<Raw, Error> {
    let part = Part::from_document(document);
    if !part.is_object() && !part.is_list() {
        return Ok(document.clone());
    }
    let mut out = Vec::with_capacity(document.bytes().len());
    match plain.format {
        Format::Hal => hal::document(plain, part, &mut out),
        Format::JsonApi => json_api::document(plain, part, &mut out),
        Format::Siren => siren::document(plain, part, &mut out),
        Format::CollectionJson => collection_json::document(plain, part, &mut out),
        Format::Odata => odata::document(plain, part, &mut out),
        Format::JsonLd => json_ld::document(plain, part, &mut out),
        Format::Atom => atom::document(plain, part, &mut out),
    }?;
    let made = Bytes::from(out);
    match plain.format {
        // What is nested in one of these was nested deeper before.
        Format::Hal | Format::Siren | Format::CollectionJson if plain.links.is_none() => {
            Ok(Raw::sound(made, document.depth()))
        }
        _ => Ok(Raw::check(&made)?),
    }
}
