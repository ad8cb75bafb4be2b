//! JSON:API: `relationships` name resources, `included` holds them, `links` have their addresses.

use std::collections::HashSet;

use bytes::Bytes;

use super::included::{CompoundDocument, key};
use super::part::Part;
use super::relation::{Identifier, Relation, RelationTarget, RelationTargets, choose};
use crate::json::Raw;
use crate::offload;

/// The leads of a relation; `None` if the document has no such relation.
pub(super) fn related(relation: &Relation, document: &Raw) -> Option<RelationTargets> {
    let (source, document) = (CompoundDocument::from_document(document.clone()), Part::from_document(document));
    // The address of `links` is that of a page, or of the document itself: nothing else stands for it.
    if let Some(link) = linked(document, &relation.name) {
        return Some((vec![link], false));
    }
    of_resource(relation, document.field("data").filter(|data| data.is_object()).unwrap_or(document), &source)
}

/// The same of a resource; `source` has the others that are included.
pub(super) fn of_resource(
    relation: &Relation,
    resource: Part<'_>,
    source: &CompoundDocument,
) -> Option<RelationTargets> {
    let Some(relationship) = resource.field("relationships").and_then(|all| all.field(&relation.name)) else {
        return linked(resource, &relation.name).map(|link| (vec![link], false));
    };
    let parts = || Some(vec![RelationTarget::Part(resolved(relationship, source)?)]);
    let links = || Some(vec![address(relationship.field("links")?.field("related")?)?]);
    let leads = choose(relation.prefer, parts, links).unwrap_or_else(|| named(relationship, source));
    Some((leads, false))
}

/// The address under a name in `links`.
fn linked(holder: Part<'_>, name: &str) -> Option<RelationTarget> {
    holder.field("links").and_then(|links| links.field(name)).and_then(address)
}

/// The resources of a document: that of `data`, or each of them.
pub(super) fn resources(document: Part<'_>) -> impl Iterator<Item = Part<'_>> {
    document.items().chain(document.field("data").into_iter().flat_map(Part::each))
}

/// A link is its URL or an object that holds it.
fn address(link: Part<'_>) -> Option<RelationTarget> {
    let url = if link.is_object() { link.field("href")? } else { link };
    Some(RelationTarget::Link(url.raw()))
}

/// The document that the address of a relationship would give: its resources, as far as all of them are included.
fn resolved(relationship: Part<'_>, source: &CompoundDocument) -> Option<Raw> {
    let linkage = relationship.fields().filter(|(name, _)| name == "data").last()?.1;
    // That nothing is related is known without a call.
    let found = identifiers(linkage).map(|identifier| source.get(identifier)).collect::<Option<Vec<_>>>()?;
    offload::hold(found.iter().map(|resource| resource.bytes().len()).sum());
    let mut made = b"{\"data\":".to_vec();
    match found.first() {
        None if !linkage.is_list() => made.extend_from_slice(b"null"),
        Some(one) if !linkage.is_list() => made.extend_from_slice(one.bytes()),
        _ => {
            made.push(b'[');
            for (at, resource) in found.iter().enumerate() {
                made.extend_from_slice(if at > 0 { b"," } else { b"" });
                made.extend_from_slice(resource.bytes());
            }
            made.push(b']');
        }
    }
    made.push(b'}');
    Raw::check(&Bytes::from(made)).ok()
}

/// The identifiers of a relationship, each once: a relationship is a set.
fn identifiers<'p>(linkage: Part<'p>) -> impl Iterator<Item = Part<'p>> {
    let mut seen = HashSet::new();
    let objects = linkage.each().filter(|identifier| identifier.is_object());
    objects.filter(move |identifier| key(*identifier).is_none_or(|key| seen.insert(key)))
}

/// The resources that a relationship names without an address.
fn named(relationship: Part<'_>, source: &CompoundDocument) -> Vec<RelationTarget> {
    let Some(linkage) = relationship.field("data") else { return Vec::new() };
    let text = |part: Part<'_>| match part.text() {
        Some(text) => text.into_owned(),
        None => String::from_utf8_lossy(part.bytes()).into_owned(),
    };
    let lead = |identifier: Part<'_>| {
        let (kind, id) = (text(identifier.field("type")?), text(identifier.field("id")?));
        let included = source.get(identifier).and_then(|found| {
            offload::hold(found.bytes().len());
            let made = [b"{\"data\":", found.bytes(), b"}"].concat();
            Raw::check(&Bytes::from(made)).ok()
        });
        Some(RelationTarget::Named(Identifier { kind, id, included, many: linkage.is_list() }))
    };
    identifiers(linkage).filter_map(lead).collect()
}
