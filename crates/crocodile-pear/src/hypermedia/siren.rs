//! Siren: `entities` holds sub-entities, whole or as links, `links` the addresses of others.

use super::part::Part;
use super::relation::{Preference, Relation, RelationTarget, RelationTargets};

/// The leads of a relation; `None` if the document has no such relation.
pub(super) fn related(relation: &Relation, document: Part<'_>) -> Option<RelationTargets> {
    let within = |holder: &str| {
        let entries = document.field(holder).into_iter().flat_map(Part::items);
        entries.filter(|entry| is_related(*entry, &relation.name)).collect::<Vec<_>>()
    };
    let entities = within("entities");
    let leads: Vec<RelationTarget> = match entities.is_empty() {
        false => entities.into_iter().map(|entity| sub_entity(entity, relation.prefer)).collect(),
        true => within("links").into_iter().filter_map(address).collect(),
    };
    let several = leads.len() > 1;
    (!leads.is_empty()).then_some((leads, several))
}

/// The sub-entities that are there whole.
pub(super) fn resources(document: Part<'_>) -> impl Iterator<Item = Part<'_>> {
    let entities = document.field("entities").into_iter().flat_map(Part::items);
    document.items().chain(entities.filter(|entity| entity.field("href").is_none()))
}

fn is_related(entry: Part<'_>, name: &str) -> bool {
    entry
        .field("rel")
        .into_iter()
        .flat_map(Part::each)
        .any(|rel| rel.text().is_some_and(|rel| rel.eq_ignore_ascii_case(name)))
}

fn address(link: Part<'_>) -> Option<RelationTarget> {
    Some(RelationTarget::Link(link.field("href")?.raw()))
}

/// A sub-entity: an embedded link has an address, an embedded representation has its own `self` among its links.
fn sub_entity(entity: Part<'_>, prefer: Preference) -> RelationTarget {
    let own = || {
        let links = entity.field("links").into_iter().flat_map(Part::items);
        links.filter(|link| is_related(*link, "self")).find_map(address)
    };
    let link = address(entity).or_else(|| if prefer == Preference::Link { own() } else { None });
    link.unwrap_or_else(|| RelationTarget::Part(entity.raw()))
}
