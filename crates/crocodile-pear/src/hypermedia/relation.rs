//! A relation as a step names it, and where it leads.

use crate::json::Raw;

/// A relation, as a step names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// How the document says it.
    pub form: RelationFormat,
    pub name: String,
    /// The name of the link, where several share a relation.
    pub link_name: Option<String>,
    /// The choice where a document has both.
    pub prefer: Preference,
}

/// A format, as far as relations go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationFormat {
    /// HAL: `_embedded` and `_links`.
    Hal,
    /// JSON:API: `included`, `relationships` and `links`.
    JsonApi,
    /// Siren: `entities` and `links`.
    Siren,
}

impl RelationFormat {
    /// The members of a document that its relations are read from.
    pub fn members(self) -> &'static [&'static str] {
        match self {
            RelationFormat::Hal => &["_embedded", "_links"],
            RelationFormat::JsonApi => &["data", "included", "links", "relationships"],
            RelationFormat::Siren => &["entities", "links"],
        }
    }
}

/// The choice where a document has both a part and a link to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// The part.
    #[default]
    Embedded,
    Link,
}

#[derive(Clone, Debug)]
pub enum RelationTarget {
    /// To an address: a text, or what stands in its place.
    Link(Raw),
    /// To a part of the document.
    Part(Raw),
    /// To a resource that is only named.
    Named(Identifier),
}

/// A resource of JSON:API that is named by its type and ID.
#[derive(Clone, Debug)]
pub struct Identifier {
    /// Its type.
    pub kind: String,
    pub id: String,
    /// Its document, if it is included while others of the same relationship are not.
    pub included: Option<Raw>,
    /// Whether the relationship is one to many.
    pub many: bool,
}

/// The leads that are wanted first, or else the others. None of a kind is not the same as an empty list of it.
pub(super) fn choose<T>(
    prefer: Preference,
    parts: impl FnOnce() -> Option<T>,
    links: impl FnOnce() -> Option<T>,
) -> Option<T> {
    match prefer {
        Preference::Embedded => parts().or_else(links),
        Preference::Link => links().or_else(parts),
    }
}

/// The targets of a relation, and whether the document says that they are a list.
pub(super) type RelationTargets = (Vec<RelationTarget>, bool);
