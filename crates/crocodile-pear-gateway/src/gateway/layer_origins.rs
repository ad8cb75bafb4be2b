//! Where the layers of an endpoint are written, for `explain`.

use crocodile_pear::unstable::config::spec::Located;

use crate::layers::{AtEndpoint, Layers};

/// The document or a group, as a place where settings are written.
#[derive(Clone)]
pub struct PlaceOfLayers<'a> {
    pub group: Option<&'a String>,
    pub written: Vec<&'static str>,
    pub locked: &'a [Located<String>],
    /// Whether it is known where its endpoints are served.
    pub placed: bool,
}

impl PlaceOfLayers<'_> {
    fn name(&self) -> String {
        self.group.map_or_else(|| "the document".to_owned(), |group| format!("the group `{group}`"))
    }

    fn locks(&self, field: &str) -> bool {
        self.locked.iter().any(|locked| locked.value == field)
    }
}

/// The header fields of all places count, each only once.
const MERGED: &str = "headers";

/// Where each layer of an endpoint comes from that is not its own alone. Places are given from the outside in.
pub fn origins(places: &[PlaceOfLayers<'_>], own: &Layers<AtEndpoint>) -> Vec<(&'static str, String)> {
    let own = own.written();
    let mut origins = Vec::new();
    for (at, place) in places.iter().enumerate() {
        for layer in &place.written {
            // Others can be written at the document alone.
            let Some(field) = Layers::<AtEndpoint>::field_of(layer) else { continue };
            let replaced = places[at + 1..].iter().any(|inner| inner.written.contains(layer));
            if replaced && *layer != MERGED {
                continue;
            }
            let locked = if place.locks(field) { ", locked" } else { "" };
            let origin = match (own.contains(layer), *layer) {
                (true, MERGED) => format!("with those of {}{locked}", place.name()),
                (true, _) => format!("in place of that of {}", place.name()),
                (false, _) => format!("from {}{locked}", place.name()),
            };
            origins.push((*layer, origin));
        }
    }
    origins
}
