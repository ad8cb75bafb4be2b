//! JSON:API: `type`, `id` and `attributes` are the fields; relationships are the included resources that they name.

use super::object::Object;
use super::rules::{ObjectLinks, PlainRules, each, list};
use crate::error::{Error, Kind};
use crate::hypermedia::included::{Included, ResourceKey, key};
use crate::hypermedia::part::{Members, Part};
use crate::json::Raw;
use crate::offload;

/// Where a resource is written.
struct ResourcePath<'a> {
    included: &'a Included,
    /// The resources on the way to this one, with itself.
    trail: Vec<ResourceKey<'a>>,
    start: usize,
}

/// Members of a resource. Others were put into it.
const MEMBERS: [&str; 7] = ["type", "id", "lid", "attributes", "relationships", "links", "meta"];

pub(super) fn document(plain: &PlainRules, document: Part<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    if document.is_list() {
        return list(document.items(), out, |one, out| item(plain, one, &Included::default(), out));
    }
    let top = |name: &str| document.fields().any(|(member, _)| member == name);
    if !top("data") {
        return match () {
            () if document.field("type").is_some() => item(plain, document, &Included::default(), out),
            () if !top("errors") && (top("meta") || top("jsonapi")) => {
                out.extend_from_slice(b"null");
                Ok(())
            }
            () => Err(foreign()),
        };
    }
    let Some(data) = document.field("data") else {
        out.extend_from_slice(b"null");
        return Ok(());
    };
    let others = document.field("included").into_iter().flat_map(Part::items);
    let included =
        if plain.resolves(1) { Included::from_resources(others.chain(data.each())) } else { Included::default() };
    let start = out.len();
    each(data, false, out, |one, out| {
        if out.len() - start > plain.spread() {
            return Err(spread(plain));
        }
        item(plain, one, &included, out)
    })
}

fn foreign() -> Error {
    Error::new(Kind::Unusable, "this is no document of JSON:API: it has neither `data` nor `type`")
}

/// Why no more items are resolved.
pub(super) fn spread(plain: &PlainRules) -> Error {
    let detail = format!("with their parts, the items are larger than {} bytes; nest less by `depth`", plain.spread());
    Error::new(Kind::Oversized, detail)
}

/// Whether a resource names others, so that it needs what is included.
pub(super) fn names_others(resource: &Raw) -> bool {
    let related = Part::from_document(resource).field("relationships");
    related.into_iter().flat_map(Part::fields).any(|(_, one)| one.field("data").is_some_and(|data| !is_empty(data)))
}

fn is_empty(data: Part<'_>) -> bool {
    data.is_list() && data.items().next().is_none()
}

/// Writes a resource of the document.
pub(super) fn item(plain: &PlainRules, part: Part<'_>, included: &Included, out: &mut Vec<u8>) -> Result<(), Error> {
    if !part.is_object() {
        out.extend_from_slice(part.bytes());
        return Ok(());
    }
    if part.field("type").is_none() {
        return Err(foreign());
    }
    resource(plain, part, &mut ResourcePath { included, trail: Vec::new(), start: out.len() }, out)
}

fn resource<'a>(
    plain: &PlainRules,
    part: Part<'a>,
    way: &mut ResourcePath<'a>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    offload::hold(64);
    plain.check_size(out.len() - way.start)?;
    let mut object = Object::default();
    let attributes = part.field("attributes");
    let relationships = part.field("relationships");
    // What a step has put into the resource stands for what it names.
    let (own, of_attributes, related) =
        (Members::from_part(Some(part)), Members::from_part(attributes), Members::from_part(relationships));
    let is_put = |name: &str| !MEMBERS.contains(&name) && own.names(name);
    let is_attribute = |name: &str| of_attributes.has(name);
    for name in ["type", "id"] {
        if let Some(value) = part.field(name) {
            object.name(name, out);
            out.extend_from_slice(value.bytes());
        }
    }
    if let Some(attributes) = attributes {
        object.splice(attributes, out);
    }
    let level = way.trail.len() + 1;
    way.trail.push(key(part).unwrap_or_default());
    let mut links = ObjectLinks::default();
    for (name, address) in part.field("links").into_iter().flat_map(Part::fields) {
        links.add(name, href(address));
    }
    for (name, relationship) in relationships.into_iter().flat_map(Part::fields) {
        let related = relationship.field("links").and_then(|links| links.field("related"));
        if let Some(address) = related {
            links.add(name.clone(), href(address));
        }
        let linkage = relationship.fields().find(|(member, _)| member == "data").map(|(_, linkage)| linkage);
        let Some(linkage) = linkage.filter(|_| !is_attribute(&name) && !is_put(&name)) else { continue };
        object.name(&name, out);
        each(linkage, false, out, |identifier, out| named(plain, identifier, level, way, out))?;
    }
    for (name, value) in part.fields().filter(|(name, _)| !MEMBERS.contains(&&**name)) {
        if !is_attribute(&name) {
            object.name(&name, out);
            put(plain, value, out)?;
        }
    }
    way.trail.pop();
    object.links(plain, &links, |name| is_attribute(name) || related.has(name), out);
    object.end(out);
    Ok(())
}

/// A link is its address, or an object that has it.
fn href(link: Part<'_>) -> Part<'_> {
    link.field("href").filter(|_| link.is_object()).unwrap_or(link)
}

/// The resource that an identifier names; the identifier where it is not included, or stands on the way to itself.
fn named<'a>(
    plain: &PlainRules,
    identifier: Part<'a>,
    level: usize,
    way: &mut ResourcePath<'a>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let found = key(identifier).filter(|key| plain.resolves(level) && !way.trail.contains(key));
    match found.and_then(|key| way.included.get(key)) {
        Some(found) => resource(plain, found, way, out),
        None if identifier.is_object() => {
            let mut object = Object::default();
            for (name, value) in identifier.fields().filter(|(name, _)| name != "meta") {
                object.name(&name, out);
                out.extend_from_slice(value.bytes());
            }
            object.end(out);
            Ok(())
        }
        None => {
            out.extend_from_slice(identifier.bytes());
            Ok(())
        }
    }
}

/// Writes a value that a step has put into an item: a document, or anything else.
fn put(plain: &PlainRules, value: Part<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let member = |name: &str| matches!(name, "data" | "included" | "links" | "meta" | "jsonapi");
    let typed = |data: Part<'_>| data.each().next().is_none_or(|one| one.is_null() || one.field("type").is_some());
    let is_document = |part: Part<'_>| {
        let mut data = part.fields().filter(|(name, _)| name == "data").map(|(_, data)| data);
        data.next().is_some_and(typed) && part.fields().all(|(name, _)| member(&name))
    };
    match value.is_list() {
        true => list(value.items(), out, |one, out| put(plain, one, out)),
        false if is_document(value) => document(plain, value, out),
        false => {
            out.extend_from_slice(value.bytes());
            Ok(())
        }
    }
}
