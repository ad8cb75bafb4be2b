//! Atom and RSS: each entry is an object, its text without its type, its categories as a list of terms.

use std::borrow::Cow;

use super::object::Object;
use super::rules::{ObjectLinks, PlainRules, each, list};
use crate::error::{Error, Kind};
use crate::hypermedia::part::Part;

pub(super) fn document(plain: &PlainRules, document: Part<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let entries = |holder: Part<'_>, name: &str, out: &mut Vec<u8>| {
        list(holder.field(name).into_iter().flat_map(Part::each), out, |one, out| entry(plain, one, out))
    };
    // A feed without any element is a text.
    let feed = document.fields().find(|(name, _)| name == "feed").map(|(_, feed)| feed);
    let channel = document.field("rss").map(|rss| rss.field("channel").unwrap_or(rss));
    match (feed, channel, document.field("rdf:RDF"), document.field("entry")) {
        (Some(feed), ..) => entries(feed, "entry", out),
        (_, Some(channel), ..) => entries(channel, "item", out),
        (_, _, Some(rdf), _) => entries(rdf, "item", out),
        (.., Some(one)) => entry(plain, one, out),
        _ if is_entry(document) => entry(plain, document, out),
        _ if document.is_list() => list(document.items(), out, |one, out| entry(plain, one, out)),
        _ => Err(Error::new(Kind::Unusable, "this is no feed: it has neither `feed`, `rss` nor `entry`")),
    }
}

/// Whether this is an entry that a step took out of its feed.
fn is_entry(part: Part<'_>) -> bool {
    ["id", "guid", "title", "description", "link"].iter().any(|name| part.field(name).is_some())
}

fn entry(plain: &PlainRules, part: Part<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut object = Object::default();
    let mut links = ObjectLinks::default();
    for (name, value) in part.fields() {
        match &*name {
            "link" => value.each().for_each(|link| add(&mut links, link)),
            "category" => {
                object.name("category", out);
                list(value.each(), out, |category, out| {
                    match category.field("@term") {
                        Some(term) => out.extend_from_slice(term.bytes()),
                        None => element(category, out),
                    }
                    Ok(())
                })?;
            }
            name if name.starts_with("@xmlns") => {}
            name => {
                object.name(name.trim_start_matches('@'), out);
                each(value, plain.is_list(name), out, |one, out| {
                    element(one, out);
                    Ok(())
                })?;
            }
        }
    }
    object.links(plain, &links, |name| part.field(name).is_some() && name != "link", out);
    object.end(out);
    Ok(())
}

/// A link of Atom has its address in an attribute, one of RSS is its address.
fn add<'a>(links: &mut ObjectLinks<'a>, link: Part<'a>) {
    let rel = link.field("@rel").and_then(Part::text).unwrap_or(Cow::Borrowed("alternate"));
    if let Some(address) = link.field("@href").or_else(|| link.field("#text")) {
        links.add(rel, address);
    } else if !link.is_object() {
        links.add(rel, link);
    }
}

/// An element: its text, or an object without the marks of attributes.
fn element(value: Part<'_>, out: &mut Vec<u8>) {
    if value.is_list() {
        out.push(b'[');
        for (at, item) in value.items().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            element(item, out);
        }
        out.push(b']');
        return;
    }
    let is_text = value.fields().all(|(name, _)| name == "#text" || name.starts_with('@'));
    match value.field("#text").filter(|_| is_text) {
        Some(text) => out.extend_from_slice(text.bytes()),
        None if value.is_object() => {
            let mut object = Object::default();
            let fields = value.fields().filter(|(name, _)| !name.starts_with("@xmlns"));
            for (name, within) in fields {
                let plain = name.trim_start_matches('@');
                if plain.len() < name.len() && value.field(plain).is_some() {
                    continue;
                }
                object.name(plain, out);
                element(within, out);
            }
            object.end(out);
        }
        None => out.extend_from_slice(value.bytes()),
    }
}
