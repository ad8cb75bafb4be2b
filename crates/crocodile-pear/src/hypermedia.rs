//! The formats of hypermedia: where a document has its relations, as parts of it or as links.

mod action;
mod hal;
mod holders;
mod included;
mod json_api;
pub mod links;
mod part;
pub mod plain;
mod relation;
mod siren;

use crate::json::Raw;

pub use self::action::{Action, action};
pub use self::holders::{Holder, holders, objects};
pub use self::included::CompoundDocument;
use self::part::Part;
pub use self::relation::{Identifier, Preference, Relation, RelationFormat, RelationTarget};

/// Where a relation leads from this document. None, if it has no such relation; also none if it says that nothing is
/// related.
pub fn leads(relation: &Relation, document: &Raw) -> Vec<RelationTarget> {
    let related = match relation.form {
        RelationFormat::Hal => hal::related(relation, Part::from_document(document)),
        RelationFormat::JsonApi => json_api::related(relation, document),
        RelationFormat::Siren => siren::related(relation, Part::from_document(document)),
    };
    related.map(|(leads, _)| leads).unwrap_or_default()
}

/// A field of an object, as a document of its own; `None` also if it is null.
pub fn field(document: &Raw, name: &str) -> Option<Raw> {
    Part::from_document(document).field(name).map(Part::raw)
}

#[cfg(test)]
mod tests;
