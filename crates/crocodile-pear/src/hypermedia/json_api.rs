//! JSON:API: `relationships` name resources, `included` holds them, `links` have their addresses.

use std::collections::HashMap;

use bytes::Bytes;

use super::part::Part;
use super::relation::{Identifier, Lead, Related, Relation, choose};
use crate::json::Raw;

/// The leads of a relation; `None` if the document has no such relation.
pub(super) fn related(relation: &Relation, document: Part<'_>) -> Option<Related> {
    // The address of `links` is that of a page, or of the document itself: nothing else stands for it.
    if let Some(link) = linked(document, &relation.name) {
        return Some((vec![link], false));
    }
    of_resource(relation, document.field("data").filter(|data| data.is_object()).unwrap_or(document), document)
}

/// The same of a resource; `source` has the others that are included.
pub(super) fn of_resource(relation: &Relation, resource: Part<'_>, source: Part<'_>) -> Option<Related> {
    let Some(relationship) = resource.field("relationships").and_then(|all| all.field(&relation.name)) else {
        return linked(resource, &relation.name).map(|link| (vec![link], false));
    };
    let parts = || Some(vec![Lead::Part(resolved(relationship, source)?)]);
    let links = || Some(vec![address(relationship.field("links")?.field("related")?)?]);
    let leads = choose(relation.prefer, parts, links).unwrap_or_else(|| named(relationship, source));
    Some((leads, false))
}

/// The address under a name in `links`.
fn linked(holder: Part<'_>, name: &str) -> Option<Lead> {
    holder.field("links").and_then(|links| links.field(name)).and_then(address)
}

/// The resources of a document: that of `data`, or each of them.
pub(super) fn resources(document: Part<'_>) -> impl Iterator<Item = Part<'_>> {
    document.items().chain(document.field("data").into_iter().flat_map(Part::each))
}

/// A link is its URL or an object that holds it.
fn address(link: Part<'_>) -> Option<Lead> {
    let url = if link.is_object() { link.field("href")? } else { link };
    Some(Lead::Link(url.raw()))
}

/// The document that the address of a relationship would give: its resources, as far as all of them are included.
fn resolved(relationship: Part<'_>, document: Part<'_>) -> Option<Raw> {
    let linkage = relationship.fields().filter(|(name, _)| name == "data").last()?.1;
    let wanted: Vec<Part<'_>> = linkage.each().filter(|identifier| identifier.is_object()).collect();
    let found: Option<Vec<Part<'_>>> = match wanted.as_slice() {
        // That nothing is related is known without a call.
        [] => Some(Vec::new()),
        [one] => {
            document.field("included")?.items().find(|resource| key(*resource) == key(*one)).map(|found| vec![found])
        }
        several => {
            let included: HashMap<_, _> =
                document.field("included")?.items().map(|resource| (key(resource), resource)).collect();
            several.iter().map(|identifier| included.get(&key(*identifier)).copied()).collect()
        }
    };
    let found = found?;
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

/// The resources that a relationship names without an address.
fn named(relationship: Part<'_>, document: Part<'_>) -> Vec<Lead> {
    let Some(linkage) = relationship.field("data") else { return Vec::new() };
    let included: HashMap<_, _> = document
        .field("included")
        .into_iter()
        .flat_map(Part::items)
        .map(|resource| (key(resource), resource))
        .collect();
    let text = |part: Part<'_>| match part.text() {
        Some(text) => text.into_owned(),
        None => String::from_utf8_lossy(part.bytes()).into_owned(),
    };
    let lead = |identifier: Part<'_>| {
        let (kind, id) = (text(identifier.field("type")?), text(identifier.field("id")?));
        let included = included.get(&key(identifier)).and_then(|found| {
            let made = [b"{\"data\":", found.bytes(), b"}"].concat();
            Raw::check(&Bytes::from(made)).ok()
        });
        Some(Lead::Named(Identifier { kind, id, included, many: linkage.is_list() }))
    };
    linkage.each().filter_map(lead).collect()
}

/// The type and the ID of a resource, as they are written.
fn key<'a>(resource: Part<'a>) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
    let bytes = |name: &str| resource.field(name).map(Part::bytes);
    (bytes("type"), bytes("id"))
}
