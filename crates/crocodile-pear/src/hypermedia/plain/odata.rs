//! OData: names with `@` are about a field, and no field; expanded entities stand where they belong.

use super::object::Object;
use super::rules::{ObjectLinks, PlainRules, list};
use crate::error::Error;
use crate::hypermedia::part::Part;

/// The version of a document, as far as its shape goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// 2 and 3, with `d`, `results` and `__metadata`.
    Two,
    /// 4 and 4.01.
    Four,
}

pub(super) fn document(plain: &PlainRules, document: Part<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let wrapped = document.fields().count() == 1;
    if let (Some(within), true) = (document.field("d"), wrapped) {
        let results = within.field("results").filter(|results| results.is_list());
        return value(plain, results.unwrap_or(within), Version::Two, out);
    }
    match document.field("value").filter(|_| is_wrapper(document)) {
        Some(within) => value(plain, within, Version::Four, out),
        None => value(plain, document, Version::Four, out),
    }
}

/// Whether a document is only what its `value` is: it has nothing else but annotations, and is no entity.
fn is_wrapper(document: Part<'_>) -> bool {
    !is_entity(document) && document.fields().all(|(name, _)| name == "value" || name.contains('@'))
}

/// Whether annotations say that an object is an entity.
pub(super) fn is_entity(object: Part<'_>) -> bool {
    let one = |name: &str| object.field(name).and_then(Part::text).is_some_and(|context| context.ends_with("/$entity"));
    let of_entity = ["@odata.id", "@odata.etag", "@odata.editLink", "@id", "@etag", "@editLink"];
    one("@odata.context") || one("@context") || of_entity.iter().any(|name| object.field(name).is_some())
}

pub(super) fn value(plain: &PlainRules, part: Part<'_>, version: Version, out: &mut Vec<u8>) -> Result<(), Error> {
    if part.is_list() {
        return list(part.items(), out, |item, out| value(plain, item, version, out));
    }
    if !part.is_object() {
        out.extend_from_slice(part.bytes());
        return Ok(());
    }
    let version = if part.field("__metadata").is_some() { Version::Two } else { version };
    let mut object = Object::default();
    let mut links = ObjectLinks::default();
    if let Some(own) = part.field("__metadata").and_then(|metadata| metadata.field("uri")) {
        links.add("self", own);
    }
    for (name, within) in part.fields() {
        if name.contains('@') {
            if let Some(name) = link(&name) {
                links.add(name, within);
            }
            continue;
        }
        if version == Version::Two {
            if name.starts_with("__") {
                continue;
            }
            if let Some(deferred) = within.field("__deferred") {
                if let Some(address) = deferred.field("uri") {
                    links.add(name, address);
                }
                continue;
            }
        }
        object.name(&name, out);
        let expanded = within.field("results").filter(|results| version == Version::Two && results.is_list());
        value(plain, expanded.unwrap_or(within), version, out)?;
    }
    object.links(plain, &links, |name| part.field(name).is_some(), out);
    object.end(out);
    Ok(())
}

/// The relation whose address an annotation is.
fn link(annotation: &str) -> Option<String> {
    let (field, term) = annotation.split_once('@')?;
    match (field, term.strip_prefix("odata.").unwrap_or(term)) {
        ("", "id") => Some("self".to_owned()),
        ("", "editLink") => Some("edit".to_owned()),
        ("", "readLink") => Some("read".to_owned()),
        ("", "nextLink") => Some("next".to_owned()),
        (field, "navigationLink") if !field.is_empty() => Some(field.to_owned()),
        _ => None,
    }
}
