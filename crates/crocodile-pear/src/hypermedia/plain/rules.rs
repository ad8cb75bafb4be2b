//! The rules of plain JSON that all formats share: levels, links, lists and bounds.

use crate::error::{Error, Kind};
use crate::hypermedia::part::Part;
use crate::json::ordered::Ordered;
use crate::json::{Raw, write_string};

/// A format that documents are plain JSON of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// HAL and HAL-FORMS.
    Hal,
    JsonApi,
    Siren,
    CollectionJson,
    /// OData, versions 2 to 4.01.
    Odata,
    /// JSON-LD, and Hydra.
    JsonLd,
    /// Atom and RSS, as XML is read to JSON.
    Atom,
}

/// Levels of parts that a document only names, unless they are set.
const NAMED: usize = 3;

/// How many times the bound of one item all items may take whose parts are resolved: the same part may be in each.
const SPREAD: usize = 16;

/// How documents become plain JSON.
#[derive(Clone, Debug)]
pub struct PlainRules {
    pub format: Format,
    /// How many levels of parts are nested. By default, all that a resource holds itself, and three of those that it
    /// only names.
    pub depth: Option<usize>,
    /// The name under which an object has its links.
    pub links: Option<String>,
    /// Names of parts that are lists, also where there is one.
    pub lists: Vec<String>,
    /// The most bytes of an item, and of what is held for it.
    pub bound: usize,
}

impl PlainRules {
    /// Whether parts of this level are nested. Those of the item itself have the level 1.
    pub(super) fn nests(&self, level: usize) -> bool {
        self.depth.is_none_or(|depth| level <= depth)
    }

    /// The same for parts that are only named.
    pub(super) fn resolves(&self, level: usize) -> bool {
        level <= self.depth.unwrap_or(NAMED)
    }

    pub(super) fn is_list(&self, name: &str) -> bool {
        self.lists.iter().any(|list| list == name)
    }

    /// The most bytes of all items whose parts are resolved.
    pub(super) fn spread(&self) -> usize {
        self.bound.saturating_mul(SPREAD)
    }

    pub(super) fn check_size(&self, size: usize) -> Result<(), Error> {
        if size <= self.bound {
            return Ok(());
        }
        let detail = format!("with its parts, an item is larger than {} bytes; nest less by `depth`", self.bound);
        Err(Error::new(Kind::Oversized, detail))
    }
}

impl Format {
    /// The format that a media type names.
    pub fn of_media(media: &[u8]) -> Option<Format> {
        let media = str::from_utf8(media).ok()?;
        let (name, parameters) = media.split_once(';').unwrap_or((media, ""));
        let formats = [
            ("application/hal+json", Format::Hal),
            ("application/vnd.hal+json", Format::Hal),
            ("application/prs.hal-forms+json", Format::Hal),
            ("application/vnd.api+json", Format::JsonApi),
            ("application/vnd.siren+json", Format::Siren),
            ("application/vnd.collection+json", Format::CollectionJson),
            ("application/ld+json", Format::JsonLd),
            ("application/atom+xml", Format::Atom),
            ("application/rss+xml", Format::Atom),
        ];
        let named = formats.iter().find(|(known, _)| name.trim().eq_ignore_ascii_case(known));
        let odata = parameters.split(';').any(|parameter| {
            let parameter = parameter.trim().to_ascii_lowercase();
            parameter.starts_with("odata.") || parameter.starts_with("odata=")
        });
        named.map(|(_, format)| *format).or(odata.then_some(Format::Odata))
    }

    /// The format that a document seems to have.
    pub fn of_shape(document: &Raw) -> Option<Format> {
        let whole = Part::from_document(document);
        let part = if whole.is_list() { whole.items().next()? } else { whole };
        let has = |name: &str| part.field(name).is_some();
        let is = |name: &str, fits: fn(Part<'_>) -> bool| part.field(name).is_some_and(fits);
        let is_object = |name: &str| part.field(name).is_some_and(Part::is_object);
        if is_object("_links") || is_object("_embedded") {
            return Some(Format::Hal);
        }
        if has("jsonapi") || (has("type") && (is_object("attributes") || is_object("relationships"))) {
            return Some(Format::JsonApi);
        }
        let resource = part.field("data").and_then(|data| data.each().next());
        if resource.is_some_and(|resource| resource.field("type").is_some() && resource.field("id").is_some()) {
            return Some(Format::JsonApi);
        }
        if is("collection", |part| part.field("href").is_some() || part.field("items").is_some()) {
            return Some(Format::CollectionJson);
        }
        let mut names = part.fields().map(|(name, _)| name);
        if names.any(|name| name.starts_with("@odata.") || name == "__metadata") {
            return Some(Format::Odata);
        }
        if is("d", |part| part.is_list() || part.field("results").is_some() || part.field("__metadata").is_some()) {
            return Some(Format::Odata);
        }
        if has("@context") || has("@id") || has("@graph") || has("hydra:member") {
            return Some(Format::JsonLd);
        }
        if ["feed", "rss", "rdf:RDF", "entry"].into_iter().any(has) && part.fields().count() == 1 {
            return Some(Format::Atom);
        }
        let related =
            |name: &str| part.field(name).is_some_and(|list| list.items().any(|one| one.field("rel").is_some()));
        let siren = related("entities") || (related("links") && (has("properties") || has("class")));
        siren.then_some(Format::Siren)
    }

    /// Whether a document may be read while it arrives.
    pub fn streams(self) -> bool {
        self != Format::Atom
    }
}

/// Appends a list of what the items become.
pub(super) fn list<'a>(
    items: impl Iterator<Item = Part<'a>>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(Part<'a>, &mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    out.push(b'[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(item, out)?;
    }
    out.push(b']');
    Ok(())
}

/// Appends what a value becomes: a list of each of its items, or it alone; where `always`, a list in any case.
pub(super) fn each<'a>(
    value: Part<'a>,
    always: bool,
    out: &mut Vec<u8>,
    mut write: impl FnMut(Part<'a>, &mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    match value.is_list() || (always && !value.is_null()) {
        true => list(value.each(), out, write),
        false => write(value, out),
    }
}

/// The addresses of an object, each under its relation.
#[derive(Default)]
pub(super) struct ObjectLinks<'a>(Ordered<std::borrow::Cow<'a, str>, Vec<Part<'a>>>);

impl<'a> ObjectLinks<'a> {
    pub(super) fn add(&mut self, name: impl Into<std::borrow::Cow<'a, str>>, address: Part<'a>) {
        if address.is_null() {
            return;
        }
        self.0.get_or_add(name.into(), Vec::new).push(address);
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (at, (name, addresses)) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_string(name, out);
            out.push(b':');
            match addresses.as_slice() {
                [one] => out.extend_from_slice(one.bytes()),
                several => {
                    for (at, address) in several.iter().enumerate() {
                        out.push(if at == 0 { b'[' } else { b',' });
                        out.extend_from_slice(address.bytes());
                    }
                    out.push(b']');
                }
            }
        }
        out.push(b'}');
    }
}
