//! The `included` resources of a JSON:API document, by type and ID.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hashbrown::{Equivalent, HashMap};

use super::part::Part;
use crate::json::Raw;

/// A type and an ID, as they are written.
pub(super) type ResourceKey<'a> = (&'a [u8], &'a [u8]);

/// The same, kept with the bytes of its document.
#[derive(Clone, PartialEq, Eq, Hash)]
struct KeptKey(Bytes, Bytes);

#[derive(Hash)]
struct AskedKey<'a>(&'a [u8], &'a [u8]);

impl Equivalent<KeptKey> for AskedKey<'_> {
    fn equivalent(&self, kept: &KeptKey) -> bool {
        self.0 == kept.0 && self.1 == kept.1
    }
}

/// The resources of a document, by type and ID.
#[derive(Clone, Default)]
pub(super) struct Included(HashMap<KeptKey, Raw>);

impl Included {
    /// The first of the same name counts.
    pub(super) fn from_resources<'a>(resources: impl IntoIterator<Item = Part<'a>>) -> Self {
        let mut known = HashMap::new();
        for resource in resources {
            if let Some((kind, id)) = key(resource) {
                let bytes = |part: &[u8]| resource.at(part).raw().bytes().clone();
                known.entry(KeptKey(bytes(kind), bytes(id))).or_insert_with(|| resource.raw());
            }
        }
        Included(known)
    }

    pub(super) fn get(&self, (kind, id): ResourceKey<'_>) -> Option<Part<'_>> {
        self.0.get(&AskedKey(kind, id)).map(Part::from_document)
    }
}

/// The type and the ID of a resource.
pub(super) fn key(resource: Part<'_>) -> Option<ResourceKey<'_>> {
    Some((resource.field("type")?.bytes(), resource.field("id")?.bytes()))
}

/// A document that is asked for what it includes. Each of the first questions reads the document; after some, all that it includes
/// is kept by name: a document may have as many resources that name others as it includes.
#[derive(Debug)]
pub struct CompoundDocument {
    document: Raw,
    asked: AtomicUsize,
    known: OnceLock<Included>,
}

/// The number of questions that read the document. Later ones use the map.
const FEW: usize = 4;

impl CompoundDocument {
    /// A source of what this document includes.
    pub fn from_document(document: Raw) -> Self {
        CompoundDocument { document, asked: AtomicUsize::new(0), known: OnceLock::new() }
    }

    /// The bytes that the next question may read.
    pub fn weight(&self) -> usize {
        if self.known.get().is_some() { 0 } else { self.document.bytes().len() }
    }

    fn resources(&self) -> impl Iterator<Item = Part<'_>> {
        Part::from_document(&self.document).field("included").into_iter().flat_map(Part::items)
    }

    /// The resource that this one names.
    pub(super) fn get(&self, identifier: Part<'_>) -> Option<Part<'_>> {
        let wanted = key(identifier)?;
        if self.known.get().is_none() && self.asked.fetch_add(1, Ordering::Relaxed) < FEW {
            return self.resources().find(|resource| key(*resource) == Some(wanted));
        }
        self.known.get_or_init(|| Included::from_resources(self.resources())).get(wanted)
    }
}

impl std::fmt::Debug for Included {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} resources", self.0.len())
    }
}
