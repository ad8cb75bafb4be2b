//! Siren: `entities` holds sub-entities, whole or as links, `links` the addresses of others.

use super::part::Part;
use super::relation::{Lead, Prefer, Relation};

pub(super) fn leads(relation: &Relation, document: Part<'_>) -> Vec<Lead> {
    let within = |holder: &str| {
        let entries = document.field(holder).into_iter().flat_map(Part::items);
        entries.filter(|entry| is_related(*entry, &relation.name)).collect::<Vec<_>>()
    };
    let entities: Vec<Lead> =
        within("entities").into_iter().map(|entity| sub_entity(entity, relation.prefer)).collect();
    if !entities.is_empty() {
        return entities;
    }
    within("links").into_iter().filter_map(address).collect()
}

fn is_related(entry: Part<'_>, name: &str) -> bool {
    entry
        .field("rel")
        .into_iter()
        .flat_map(Part::each)
        .any(|rel| rel.text().is_some_and(|rel| rel.eq_ignore_ascii_case(name)))
}

fn address(link: Part<'_>) -> Option<Lead> {
    Some(Lead::Link(link.field("href")?.raw()))
}

/// A sub-entity: an embedded link has an address, an embedded representation has its own `self` among its links.
fn sub_entity(entity: Part<'_>, prefer: Prefer) -> Lead {
    let own = || {
        let links = entity.field("links").into_iter().flat_map(Part::items);
        links.filter(|link| is_related(*link, "self")).find_map(address)
    };
    let link = address(entity).or_else(|| if prefer == Prefer::Link { own() } else { None });
    link.unwrap_or_else(|| Lead::Part(entity.raw()))
}
