//! HAL (draft-kelly-json-hal): `_embedded` holds resources, `_links` their addresses.

use std::borrow::Cow;

use super::part::Part;
use super::relation::{Lead, Related, Relation, choose};

/// The leads of a relation; `None` if the document has no such relation.
pub(super) fn related(relation: &Relation, document: Part<'_>) -> Option<Related> {
    let curies = document.field("_links").and_then(|links| links.field("curies"));
    let named = |holder: &str| find(document.field(holder)?, &relation.name, curies);
    // What is embedded has no name, so it may be another one of the same relation.
    let parts = || match relation.link_name {
        Some(_) => None,
        None => {
            let found = named("_embedded")?;
            let parts = found.each().filter(|part| !part.is_null());
            Some((parts.map(|part| Lead::Part(part.raw())).collect(), found.is_list()))
        }
    };
    let links = || {
        let wanted = |link: &Part<'_>| match &relation.link_name {
            Some(name) => link.field("name").is_some_and(|found| found.is(name)),
            None => true,
        };
        let found = named("_links")?;
        let links = found.each().filter(wanted);
        let leads = links.filter_map(|link| Some(Lead::Link(link.field("href")?.raw()))).collect();
        Some((leads, found.is_list()))
    };
    choose(relation.prefer, parts, links)
}

/// The resources within a document: those of a list, or those that are embedded.
pub(super) fn resources(document: Part<'_>) -> impl Iterator<Item = Part<'_>> {
    let embedded = document.field("_embedded").into_iter().flat_map(Part::fields).flat_map(|(_, part)| part.each());
    document.items().chain(embedded)
}

/// The address of a relation, the first of several.
pub(super) fn address(document: Part<'_>, name: &str) -> Option<Lead> {
    let link = document.field("_links")?.field(name)?.each().next()?;
    Some(Lead::Link(link.field("href")?.raw()))
}

/// The value of a relation: by its name as written, or else by the address that its name stands for (CURIEs).
fn find<'a>(holder: Part<'a>, name: &str, curies: Option<Part<'a>>) -> Option<Part<'a>> {
    if let Some(found) = holder.field(name) {
        return Some(found);
    }
    let curies = curies?;
    let wanted = full(name, curies);
    let same = |(key, value): &(Cow<'_, str>, Part<'a>)| !value.is_null() && full(key, curies) == wanted;
    holder.fields().find(same).map(|(_, value)| value)
}

/// The address of a relation: `acme:widgets` by the template of the CURIE `acme`.
fn full<'n>(name: &'n str, curies: Part<'_>) -> Cow<'n, str> {
    let Some((prefix, rest)) = name.split_once(':') else { return name.into() };
    let curie = curies.each().find(|curie| curie.field("name").is_some_and(|name| name.is(prefix)));
    match curie.and_then(|curie| curie.field("href")).and_then(Part::text) {
        Some(template) => template.replace("{rel}", rest).into(),
        None => name.into(),
    }
}
