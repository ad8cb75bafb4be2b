//! Collection+JSON: each item is an object of its `data`.

use std::borrow::Cow;

use super::object::Object;
use super::rules::{ObjectLinks, PlainRules, list};
use crate::error::{Error, Kind};
use crate::hypermedia::part::Part;
use crate::json::ordered::Ordered;

pub(super) fn document(plain: &PlainRules, document: Part<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    if document.is_list() {
        return list(document.items(), out, |entry, out| item(plain, entry, out));
    }
    match document.field("collection").filter(|collection| collection.is_object()) {
        Some(collection) => {
            list(collection.field("items").into_iter().flat_map(Part::items), out, |entry, out| item(plain, entry, out))
        }
        None if document.field("data").is_some_and(Part::is_list) || document.field("href").is_some() => {
            item(plain, document, out)
        }
        None => Err(Error::new(Kind::Unusable, "this is no document of Collection+JSON: it has no `collection`")),
    }
}

pub(super) fn item(plain: &PlainRules, part: Part<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut object = Object::default();
    let mut names: Ordered<Cow<'_, str>, ()> = Ordered::default();
    for datum in part.field("data").into_iter().flat_map(Part::items) {
        let Some(name) = datum.field("name").and_then(Part::text) else { continue };
        if names.has(&name) {
            continue;
        }
        object.name(&name, out);
        let value = ["value", "array", "object"].iter().find_map(|member| datum.field(member));
        out.extend_from_slice(value.map_or(b"null", Part::bytes));
        names.get_or_add(name, || ());
    }
    // Documents that were put into the item.
    let own = |name: &str| matches!(name, "data" | "href" | "links" | "rel" | "prompt");
    for (name, value) in part.fields().filter(|(name, _)| !own(name)) {
        if names.has(&name) {
            continue;
        }
        object.name(&name, out);
        match value.field("collection").is_some() {
            true => document(plain, value, out)?,
            false => out.extend_from_slice(value.bytes()),
        }
        names.get_or_add(name, || ());
    }
    let mut links = ObjectLinks::default();
    if let Some(own) = part.field("href") {
        links.add("self", own);
    }
    for link in part.field("links").into_iter().flat_map(Part::items) {
        if let (Some(rel), Some(address)) = (link.field("rel").and_then(Part::text), link.field("href")) {
            links.add(rel, address);
        }
    }
    object.links(plain, &links, |name| names.has(name), out);
    object.end(out);
    Ok(())
}
