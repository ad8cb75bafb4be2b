//! Siren: `properties` are the fields, sub-entities the parts, under the last word of their relation.

use std::borrow::Cow;

use super::object::Object;
use super::rules::{ObjectLinks, PlainRules, list};
use crate::error::Error;
use crate::hypermedia::part::{Members, Part};
use crate::json::ordered::Ordered;

/// Members of an entity. Others were put into it.
const MEMBERS: [&str; 8] = ["class", "rel", "href", "type", "title", "properties", "entities", "actions"];

pub(super) fn document(plain: &PlainRules, document: Part<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    match document.is_list() {
        true => list(document.items(), out, |item, out| entity(plain, item, 0, out)),
        false => entity(plain, document, 0, out),
    }
}

fn is_member(name: &str) -> bool {
    name == "links" || MEMBERS.contains(&name)
}

/// Whether an object is an entity: properties alone may be anything.
fn is_entity(part: Part<'_>) -> bool {
    part.is_object()
        && ["properties", "entities", "links", "actions", "class"].iter().any(|name| part.field(name).is_some())
}

pub(super) fn entity(plain: &PlainRules, part: Part<'_>, level: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    if part.is_list() {
        return list(part.items(), out, |item, out| entity(plain, item, level, out));
    }
    if !is_entity(part) {
        out.extend_from_slice(part.bytes());
        return Ok(());
    }
    let mut object = Object::default();
    rest(plain, part, level, &mut object, &|_| false, out)?;
    object.end(out);
    Ok(())
}

/// Appends what an entity has, but for the sub-entities of some names.
pub(super) fn rest(
    plain: &PlainRules,
    part: Part<'_>,
    level: usize,
    object: &mut Object,
    written: &dyn Fn(&str) -> bool,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let properties = part.field("properties").filter(|properties| properties.is_object());
    let (of_properties, own) = (Members::from_part(properties), Members::from_part(Some(part)));
    let is_property = |name: &str| of_properties.has(name);
    if let Some(properties) = properties {
        match properties.fields().any(|(name, _)| written(&name)) {
            false => object.splice(properties, out),
            true => {
                for (name, value) in properties.fields().filter(|(name, _)| !written(name)) {
                    object.name(&name, out);
                    out.extend_from_slice(value.bytes());
                }
            }
        }
    }
    let mut links = ObjectLinks::default();
    let mut parts: Ordered<Cow<'_, str>, Vec<Part<'_>>> = Ordered::default();
    for sub in part.field("entities").into_iter().flat_map(Part::items) {
        let Some(name) = name(sub) else { continue };
        if let Some(address) = sub.field("href") {
            links.add(name, address);
            continue;
        }
        if !plain.nests(level + 1) || written(&name) {
            continue;
        }
        parts.get_or_add(name, Vec::new).push(sub);
    }
    for (name, subs) in parts.iter() {
        // What a step has put into the entity stands for its sub-entity.
        if is_property(name) || (!is_member(name) && own.has(name)) {
            continue;
        }
        object.name(name, out);
        match subs.as_slice() {
            [one] if !is_always_list(plain, name) => entity(plain, *one, level + 1, out)?,
            several => list(several.iter().copied(), out, |sub, out| entity(plain, sub, level + 1, out))?,
        }
    }
    for (name, value) in part.fields().filter(|(name, _)| !is_member(name)) {
        if is_property(&name) || written(&name) {
            continue;
        }
        object.name(&name, out);
        entity(plain, value, level + 1, out)?;
    }
    for link in part.field("links").into_iter().flat_map(Part::items) {
        if let (Some(name), Some(address)) = (name(link), link.field("href")) {
            links.add(name, address);
        }
    }
    object.links(plain, &links, is_property, out);
    Ok(())
}

/// The members of a collection are a list also where there is one.
pub(super) fn is_always_list(plain: &PlainRules, name: &str) -> bool {
    name == "item" || plain.is_list(name)
}

/// The last word of the first relation: `customer` of `http://x.io/rels/customer`.
pub(super) fn name(related: Part<'_>) -> Option<Cow<'_, str>> {
    let rel = related.field("rel")?.each().next()?.text()?;
    let is_address = rel.contains('/') || rel.contains('#');
    let last = rel.trim_end_matches('/').rsplit(['/', '#']).next().filter(|last| is_address && !last.is_empty());
    Some(match last {
        Some(last) => last.to_owned().into(),
        None => rel,
    })
}
