//! HAL: `_embedded` are the parts, `_links` the links; everything else is a field.

use std::borrow::Cow;

use memchr::memmem;

use super::object::Object;
use super::rules::{ObjectLinks, PlainRules, each, list};
use crate::error::Error;
use crate::hypermedia::part::{self, Members, Part};
use crate::json::ordered::Ordered;
use crate::json::walk;

pub(super) fn document(plain: &PlainRules, document: Part<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    match document.is_list() {
        true => list(document.items(), out, |item, out| resource(plain, item, 0, out)),
        false => resource(plain, document, 0, out),
    }
}

/// Whether there may be a resource in a value: documents that were put into an item are resources too.
fn has_resource(bytes: &[u8]) -> bool {
    memmem::find(bytes, b"\"_links\"").is_some() || memmem::find(bytes, b"\"_embedded\"").is_some()
}

/// Whether a field is a control of the format.
fn is_control(key: &[u8]) -> bool {
    walk::is(key, "_links") || walk::is(key, "_embedded") || walk::is(key, "_templates")
}

pub(super) fn resource(plain: &PlainRules, part: Part<'_>, level: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    if part.is_list() && has_resource(part.bytes()) {
        return list(part.items(), out, |item, out| resource(plain, item, level, out));
    }
    let Some(entries) = walk::Entries::of(part.bytes()) else {
        out.extend_from_slice(part.bytes());
        return Ok(());
    };
    let mut object = Object::default();
    let mut parts: Ordered<Cow<'_, str>, ()> = Ordered::default();
    // Fields that stay as they are leave in one piece.
    let bytes = part.bytes();
    let place = |within: &[u8]| within.as_ptr() as usize - bytes.as_ptr() as usize;
    let mut kept = 0..0;
    for (key, value) in entries {
        let nested = matches!(value.first(), Some(b'{' | b'['));
        let control = (nested || value == b"null") && is_control(key);
        if !control && parts.is_empty() && !(nested && has_resource(value)) {
            let end = place(value) + value.len();
            kept = if kept.is_empty() { place(key)..end } else { kept.start..end };
            continue;
        }
        object.run(&bytes[std::mem::replace(&mut kept, 0..0)], out);
        if control {
            self::control(plain, part, (key, part.at(value)), (level, &mut parts), &mut object, out)?;
        } else if parts.is_empty() || !part::text(key).is_some_and(|name| parts.has(&name)) {
            object.key(key, out);
            resource(plain, part.at(value), level + 1, out)?;
        }
    }
    object.run(&bytes[kept], out);
    object.end(out);
    Ok(())
}

/// Appends the links, or the parts. A part with the name of an earlier field is left out.
fn control<'a>(
    plain: &PlainRules,
    part: Part<'a>,
    (key, value): (&'a [u8], Part<'a>),
    (level, parts): (usize, &mut Ordered<Cow<'a, str>, ()>),
    object: &mut Object,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    if walk::is(key, "_links") {
        if plain.links.is_some() {
            object.links(plain, &links(value), |name| part.field(name).is_some(), out);
        }
        return Ok(());
    }
    if !walk::is(key, "_embedded") || !plain.nests(level + 1) {
        return Ok(());
    }
    let before = Members::before(part, key);
    for (name, value) in value.fields() {
        if !is_member(&name) && before.names(&name) {
            continue;
        }
        object.name(&name, out);
        embedded(plain, &name, value, level, out)?;
        parts.get_or_add(name, || ());
    }
    Ok(())
}

/// Whether this is the name of a control, which no part hides behind.
fn is_member(name: &str) -> bool {
    matches!(name, "_links" | "_embedded" | "_templates")
}

/// Appends the parts of one relation.
pub(super) fn embedded(
    plain: &PlainRules,
    name: &str,
    value: Part<'_>,
    level: usize,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    each(value, plain.is_list(name), out, |item, out| resource(plain, item, level + 1, out))
}

/// The addresses of `_links`.
pub(super) fn links(value: Part<'_>) -> ObjectLinks<'_> {
    let mut links = ObjectLinks::default();
    for (name, value) in value.fields().filter(|(name, _)| name != "curies") {
        for link in value.each() {
            if let Some(address) = link.field("href") {
                links.add(name.clone(), address);
            }
        }
    }
    links
}
