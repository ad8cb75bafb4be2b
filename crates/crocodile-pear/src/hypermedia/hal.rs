//! HAL (draft-kelly-json-hal): `_embedded` holds resources, `_links` their addresses.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::part::Part;
use super::relation::{Relation, RelationTarget, RelationTargets, choose};

/// The leads of a relation; `None` if the document has no such relation.
pub(super) fn related(relation: &Relation, document: Part<'_>) -> Option<RelationTargets> {
    let curies = document.field("_links").and_then(|links| links.field("curies"));
    let named = |holder: &str| find(document.field(holder)?, &relation.name, curies);
    // What is embedded has no name, so it may be another one of the same relation.
    let parts = || match relation.link_name {
        Some(_) => None,
        None => {
            let found = named("_embedded")?;
            let parts = found.each().filter(|part| !part.is_null());
            Some((parts.map(|part| RelationTarget::Part(part.raw())).collect(), found.is_list()))
        }
    };
    let links = || {
        let wanted = |link: &Part<'_>| match &relation.link_name {
            Some(name) => link.field("name").is_some_and(|found| found.is(name)),
            None => true,
        };
        let found = named("_links")?;
        let links = found.each().filter(wanted);
        let leads = links.filter_map(|link| Some(RelationTarget::Link(link.field("href")?.raw()))).collect();
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
pub(super) fn address(document: Part<'_>, name: &str) -> Option<RelationTarget> {
    let link = document.field("_links")?.field(name)?.each().next()?;
    Some(RelationTarget::Link(link.field("href")?.raw()))
}

/// The value of a relation: by its name as written, or else by the address that its name stands for (CURIEs).
fn find<'a>(holder: Part<'a>, name: &str, curies: Option<Part<'a>>) -> Option<Part<'a>> {
    if let Some(found) = holder.field(name) {
        return Some(found);
    }
    let curies = Curies::from_part(curies?);
    let wanted = curies.address(name);
    let wanted = wanted.as_deref().unwrap_or(name);
    let same = |(key, value): &(Cow<'_, str>, Part<'a>)| !value.is_null() && curies.stands_for(key, wanted);
    holder.fields().find(same).map(|(_, value)| value)
}

/// The templates of addresses by the names of their CURIEs: there may be as many as names that use them.
struct Curies<'a>(HashMap<Cow<'a, str>, Cow<'a, str>>);

/// The largest template in bytes. A longer one is ignored.
const TEMPLATE: usize = 8 << 10;

const REL: &str = "{rel}";

impl<'a> Curies<'a> {
    fn from_part(curies: Part<'a>) -> Self {
        let mut templates = HashMap::new();
        for curie in curies.each() {
            let text = |name: &str| curie.field(name).and_then(Part::text);
            // The first of the same name counts, also if it has no address.
            if let Some(name) = text("name") {
                let template = text("href").filter(|template| template.len() <= TEMPLATE);
                templates.entry(name).or_insert(template);
            }
        }
        Curies(templates.into_iter().filter_map(|(name, template)| Some((name, template?))).collect())
    }

    /// The template that a name is written with, and what stands in it.
    fn template<'n>(&self, name: &'n str) -> Option<(&str, &'n str)> {
        let (prefix, rest) = name.split_once(':')?;
        Some((self.0.get(prefix)?, rest))
    }

    /// The address of a relation: `acme:widgets` by the template of the CURIE `acme`.
    fn address(&self, name: &str) -> Option<String> {
        self.template(name).map(|(template, rest)| template.replace(REL, rest))
    }

    /// Whether a name is this address, or stands for it. The address of the name is not made: a template may be far longer.
    fn stands_for(&self, name: &str, address: &str) -> bool {
        let Some((template, rest)) = self.template(name) else { return name == address };
        let left = || {
            let mut pieces = template.split(REL);
            let left = address.strip_prefix(pieces.next()?)?;
            pieces.try_fold(left, |left, piece| left.strip_prefix(rest)?.strip_prefix(piece))
        };
        left() == Some("")
    }
}
