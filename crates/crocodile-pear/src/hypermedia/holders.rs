//! The resources of a document that have a relation: the document itself, or those within it.

use std::ops::Range;

use super::included::CompoundDocument;
use super::part::Part;
use super::relation::{Relation, RelationFormat, RelationTarget, RelationTargets};
use super::{hal, json_api, siren};
use crate::json::Raw;

/// A resource that has a relation.
#[derive(Debug)]
pub struct Holder {
    /// Where it stands in the bytes of its document.
    pub place: Range<usize>,
    /// Where the relation leads.
    pub leads: Vec<RelationTarget>,
    /// Whether the resource says that this is a list.
    pub many: bool,
}

/// The resources of a document that have this relation, in their order: the document itself; if it has none, the items of a
/// list, the resources that HAL and Siren embed, those under `data` of JSON:API. `included` is the document that holds what a
/// part of JSON:API names.
pub fn holders(relation: &Relation, document: &Raw, included: Option<&CompoundDocument>) -> Vec<Holder> {
    let whole = Part::from_document(document);
    let own = CompoundDocument::from_document(document.clone());
    let source = included.unwrap_or(&own);
    let related = |part: Part<'_>| match relation.form {
        RelationFormat::Hal => hal::related(relation, part),
        RelationFormat::JsonApi => json_api::of_resource(relation, part, source),
        RelationFormat::Siren => siren::related(relation, part),
    };
    let holder = |part: Part<'_>| {
        let (leads, many): RelationTargets = related(part)?;
        let start = part.bytes().as_ptr() as usize - whole.bytes().as_ptr() as usize;
        Some(Holder { place: start..start + part.bytes().len(), leads, many })
    };
    if let Some(own) = holder(whole) {
        return vec![own];
    }
    match relation.form {
        RelationFormat::Hal => hal::resources(whole).filter_map(holder).collect(),
        RelationFormat::JsonApi => json_api::resources(whole).filter_map(holder).collect(),
        RelationFormat::Siren => siren::resources(whole).filter_map(holder).collect(),
    }
}

/// A document and every object within it, as documents of their own.
pub fn objects(document: &Raw) -> Vec<Raw> {
    let mut found = vec![document.clone()];
    let mut left = vec![Part::from_document(document)];
    while let Some(part) = left.pop() {
        let inner = part.items().chain(part.fields().map(|(_, value)| value));
        for inner in inner.filter(|inner| inner.is_object() || inner.is_list()) {
            if inner.is_object() {
                found.push(inner.raw());
            }
            left.push(inner);
        }
    }
    found
}
