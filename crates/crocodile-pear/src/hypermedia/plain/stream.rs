//! Documents that become plain JSON while they arrive.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::document::document;
use super::object::Object;
use super::rules::{Format, PlainRules, list};
use super::{collection_json, hal, json_api, json_ld, odata, siren};
use crate::error::{Error, Kind};
use crate::hypermedia::included::Included;
use crate::hypermedia::part::Part;
use crate::json::skeleton::{Event, Skeleton, Take};
use crate::json::{Raw, walk, write_string};
use crate::offload;

/// The memory of a held part beside its bytes.
const ENTRY: usize = 128;

/// A part of this size is small.
const SMALL: usize = offload::SMALL;

/// A document that becomes plain JSON while it arrives.
///
/// The items of a list leave one by one. What is no list is held until its end, at most `bound` bytes of it; so are the
/// resources of JSON:API that name others, until what is included has come.
#[derive(Clone)]
pub struct PlainStream {
    plain: Arc<PlainRules>,
    skeleton: Skeleton,
    root: DocumentRoot,
    /// A part that is large, and not written yet.
    heavy: Option<(Option<Bytes>, Raw)>,
    last: Last,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteProgress {
    /// There is more to write.
    More,
    /// The next part takes long: [`PlainStream::settle`] writes it.
    Heavy,
    /// More of the document is needed, or there is none.
    Wait,
}

#[derive(Clone, Default)]
struct DocumentRoot {
    /// The keys of what is open, the root first.
    path: Vec<MemberKey>,
    /// The first byte of the root, and of the value that was read last.
    root: u8,
    first: u8,
    shape: ContainerShape,
    object: Object,
    /// Whether an item was written into the open list.
    begun: bool,
    /// Members that are held, as they are written.
    members: Vec<(Bytes, Raw)>,
    /// The included resources of JSON:API.
    included: Vec<Raw>,
    /// Items that wait for them.
    waiting: Vec<Raw>,
    /// Both, by type and ID, once all have arrived.
    named: Option<Included>,
    /// Bytes that are held.
    held: usize,
    /// The names of HAL's fields and parts that were written.
    names: HashSet<Vec<u8>>,
    /// The name of the sub-entities of Siren that are streamed, and the others.
    streamed: Option<String>,
    others: Vec<Raw>,
}

type MemberKey = Option<Bytes>;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ContainerShape {
    /// The kind is not known yet.
    #[default]
    Open,
    /// A list, whose items are written.
    List,
    /// An object, whose fields are written.
    Object,
    /// A scalar, which was written.
    Scalar,
}

/// The text that is written when the document has ended.
#[derive(Clone, Default)]
enum Last {
    /// The document has not ended.
    #[default]
    Unknown,
    /// The next of the items that waited, and the bytes of those before.
    Resolving {
        at: usize,
        written: usize,
    },
    Over,
}

impl PlainStream {
    /// A document of a format that streams.
    pub fn new(plain: Arc<PlainRules>) -> Self {
        let skeleton = Skeleton::new(plain.bound);
        PlainStream { plain, skeleton, root: DocumentRoot::default(), heavy: None, last: Last::Unknown }
    }

    /// Takes the next piece of the document. What was written of the pieces before must have been asked for.
    pub fn push(&mut self, piece: Bytes) {
        self.skeleton.push(piece);
    }

    /// Appends what can be written now, about `size` bytes of it.
    ///
    /// # Errors
    /// `Malformed` for a document that is not JSON, `Unusable` for one of another format, `Oversized` for an item or for
    /// what is held. Nothing comes after it.
    pub fn write(&mut self, size: usize, out: &mut Vec<u8>) -> Result<WriteProgress, Error> {
        let (plain, root) = (&*self.plain, &mut self.root);
        while out.len() < size {
            let event = self.skeleton.next(&mut |key, first| root.take(plain, key, first))?;
            match event {
                None => return Ok(WriteProgress::Wait),
                Some(Event::Value(key, value)) if value.bytes().len() > SMALL => {
                    self.heavy = Some((key, value));
                    return Ok(WriteProgress::Heavy);
                }
                Some(event) => root.event(plain, event, out)?,
            }
        }
        Ok(WriteProgress::More)
    }

    /// Appends the large part that comes next.
    ///
    /// # Errors
    /// The errors of [`PlainStream::write`].
    pub fn settle(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self.heavy.take() {
            Some((key, value)) => self.root.event(&self.plain, Event::Value(key, value), out),
            None => Ok(()),
        }
    }

    /// Ends the document. The rest of it is written by [`PlainStream::rest`].
    ///
    /// # Errors
    /// The errors of [`PlainStream::write`], and `Malformed` for a document that is not complete.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        if let Some(event) = self.skeleton.finish()? {
            self.root.event(&self.plain, event, out)?;
        }
        self.last = Last::Resolving { at: 0, written: 0 };
        Ok(())
    }

    /// About how many bytes must be read for what comes next: a large part, or the rest.
    pub fn weight(&self) -> usize {
        self.heavy.as_ref().map_or(self.root.held, |(_, value)| value.bytes().len())
    }

    /// Appends what is left after the end, about `size` bytes of it.
    ///
    /// # Errors
    /// The errors of [`PlainStream::write`].
    pub fn rest(&mut self, size: usize, out: &mut Vec<u8>) -> Result<WriteProgress, Error> {
        let Last::Resolving { at, written } = &mut self.last else { return Ok(WriteProgress::Wait) };
        let (plain, root) = (&*self.plain, &mut self.root);
        if root.waiting.is_empty() {
            root.end(plain, out)?;
            self.last = Last::Over;
            return Ok(WriteProgress::Wait);
        }
        let others = root.included.iter().chain(&root.waiting).map(Part::from_document);
        let included = root.named.get_or_insert_with(|| Included::from_resources(others));
        while out.len() < size {
            let Some(item) = root.waiting.get(*at) else {
                out.push(b']');
                self.last = Last::Over;
                return Ok(WriteProgress::Wait);
            };
            if *written > plain.spread() {
                return Err(json_api::spread(plain));
            }
            let before = out.len();
            out.push(if std::mem::replace(&mut root.begun, true) { b',' } else { b'[' });
            json_api::item(plain, Part::from_document(item), included, out)?;
            *written += out.len() - before;
            *at += 1;
        }
        Ok(WriteProgress::More)
    }
}

impl DocumentRoot {
    fn is_at(&self, keys: &[&str]) -> bool {
        let same = |(open, name): (&MemberKey, &&str)| open.as_ref().is_some_and(|key| walk::is(key, name));
        self.path.len() == keys.len() + 1 && self.path[1..].iter().zip(keys).all(same)
    }

    /// How a value is read.
    fn take(&mut self, plain: &PlainRules, key: Option<&[u8]>, first: u8) -> Take {
        self.first = first;
        if self.path.is_empty() {
            self.root = first;
            return Take::Open;
        }
        let (Some(key), ContainerShape::Open | ContainerShape::Object) = (key, self.shape) else {
            // An item of an open list; behind the list, only more of the document's own members.
            return if key.is_none() || self.is_wanted(plain, key) { self.open(plain, key, first) } else { Take::Skip };
        };
        match plain.format {
            Format::Hal if !plain.nests(1) && self.is_at(&[]) && walk::is(key, "_embedded") => Take::Skip,
            Format::CollectionJson if self.is_at(&["collection"]) && !walk::is(key, "items") => Take::Skip,
            Format::JsonApi
                if ["links", "meta", "jsonapi"].iter().any(|name| walk::is(key, name)) && self.is_at(&[]) =>
            {
                // That they are there says that it is a document of the format.
                if first == b'{' { Take::Whole } else { Take::Skip }
            }
            _ => self.open(plain, Some(key), first),
        }
    }

    /// Whether a member behind the list still counts.
    fn is_wanted(&self, plain: &PlainRules, key: Option<&[u8]>) -> bool {
        let included = |key: &[u8]| walk::is(key, "included") && !self.waiting.is_empty();
        plain.format == Format::JsonApi && self.is_at(&[]) && key.is_some_and(included)
    }

    fn open(&self, plain: &PlainRules, key: Option<&[u8]>, first: u8) -> Take {
        let (is, list) = (|name: &str| key.is_some_and(|key| walk::is(key, name)), first == b'[');
        let object = first == b'{';
        let opens = match plain.format {
            Format::Hal => {
                (self.is_at(&[]) && is("_embedded") && object)
                    || (self.path.len() == 2 && self.is_at(&["_embedded"]) && key.is_some() && list)
            }
            Format::JsonApi => self.is_at(&[]) && list && (is("data") || (is("included") && plain.resolves(1))),
            Format::Siren => self.is_at(&[]) && list && is("entities"),
            Format::CollectionJson => {
                (self.is_at(&[]) && object && is("collection")) || (self.is_at(&["collection"]) && list && is("items"))
            }
            Format::Odata => {
                let wrapper = || self.members.iter().all(|(key, value)| is_of_list(key, value));
                (self.is_at(&[]) && list && is("value") && wrapper())
                    || (self.is_at(&[]) && is("d") && self.members.is_empty())
                    || (self.is_at(&["d"]) && self.path.len() == 2 && list && is("results"))
            }
            Format::JsonLd => self.is_at(&[]) && list && (is("hydra:member") || (is("member") && self.is_collection())),
            Format::Atom => false,
        };
        if opens { Take::Open } else { Take::Whole }
    }

    fn is_collection(&self) -> bool {
        let type_ = self.members.iter().find(|(key, _)| walk::is(key, "@type"));
        type_.is_some_and(|(_, type_)| {
            Part::from_document(type_).each().any(|one| one.text().is_some_and(|one| one.ends_with("Collection")))
        })
    }

    fn event(&mut self, plain: &PlainRules, event: Event, out: &mut Vec<u8>) -> Result<(), Error> {
        match event {
            Event::Value(None, value) if self.path.is_empty() => {
                self.shape = ContainerShape::Scalar;
                out.extend_from_slice(value.bytes());
            }
            Event::Open(key) => self.enter(plain, key, out),
            Event::Close => self.close(plain, out),
            Event::Value(Some(key), value) if self.is_member(plain) => return self.member(plain, key, value, out),
            Event::Value(Some(rel), part) => return self.embedded(plain, &rel, &part, out),
            Event::Value(None, value) => return self.item(plain, value, out),
        }
        Ok(())
    }

    /// Whether what is open is the root, or stands for it.
    fn is_member(&self, plain: &PlainRules) -> bool {
        plain.format != Format::Hal || self.path.len() == 1
    }

    fn enter(&mut self, plain: &PlainRules, key: MemberKey, out: &mut Vec<u8>) {
        let of = |name: &str| key.as_ref().is_some_and(|key| walk::is(key, name));
        match plain.format {
            Format::Hal if self.path.is_empty() => {}
            Format::Hal if self.path.len() == 2 => {
                if let Some(key) = &key
                    && self.names.insert(name_of(key))
                {
                    self.object.key(key, out);
                    self.streamed = Some(String::new());
                    self.begun = false;
                }
            }
            Format::JsonApi if of("data") => self.shape = ContainerShape::List,
            Format::CollectionJson if of("items") => self.shape = ContainerShape::List,
            Format::CollectionJson if of("collection") => self.streamed = Some(String::new()),
            Format::Odata if of("value") || of("results") || self.first == b'[' && of("d") => {
                self.shape = ContainerShape::List;
            }
            Format::JsonLd if self.path.len() == 1 => self.shape = ContainerShape::List,
            Format::Siren if of("entities") => self.shape = ContainerShape::Object,
            _ => {}
        }
        self.path.push(key);
    }

    fn close(&mut self, plain: &PlainRules, out: &mut Vec<u8>) {
        let key = self.path.pop().flatten();
        let of = |name: &str| key.as_ref().is_some_and(|key| walk::is(key, name));
        match plain.format {
            Format::Hal if self.path.len() == 2 && self.streamed.take().is_some() => {
                out.extend_from_slice(if std::mem::take(&mut self.begun) { b"]" } else { b"[]" });
            }
            Format::Siren if of("entities") && self.streamed.is_some() => out.push(b']'),
            _ => {}
        }
    }

    fn hold(&mut self, plain: &PlainRules, size: usize) -> Result<(), Error> {
        self.held += size + ENTRY;
        if self.held <= plain.bound {
            return Ok(());
        }
        let detail = match plain.format {
            Format::JsonApi => format!(
                "the resources that name others, and what is included, are larger than {} bytes; write `depth: 0` for \
                 their identifiers alone",
                plain.bound
            ),
            _ => format!("the document is no list, and larger than {} bytes", plain.bound),
        };
        Err(Error::new(Kind::Oversized, detail))
    }

    fn member(&mut self, plain: &PlainRules, key: Bytes, value: Raw, out: &mut Vec<u8>) -> Result<(), Error> {
        if plain.format != Format::Hal {
            self.hold(plain, key.len() + value.bytes().len())?;
            self.members.push((key, value));
            return Ok(());
        }
        let control = ["_links", "_templates", "_embedded"].iter().find(|name| walk::is(&key, name));
        let name = match control {
            Some(&"_links") if plain.links.is_some() => plain.links.clone().unwrap_or_default().into_bytes(),
            Some(_) => return Ok(()),
            None => name_of(&key),
        };
        self.hold(plain, name.len())?;
        if !self.names.insert(name) {
            return Ok(());
        }
        match control {
            Some(_) => self.object.links(plain, &hal::links(Part::from_document(&value)), |_| false, out),
            None => {
                self.object.key(&key, out);
                hal::resource(plain, Part::from_document(&value), 1, out)?;
            }
        }
        Ok(())
    }

    /// A part of HAL that is no list.
    fn embedded(&mut self, plain: &PlainRules, rel: &[u8], part: &Raw, out: &mut Vec<u8>) -> Result<(), Error> {
        let name = name_of(rel);
        self.hold(plain, name.len())?;
        if self.names.insert(name.clone()) {
            self.object.key(rel, out);
            hal::embedded(plain, &String::from_utf8_lossy(&name), Part::from_document(part), 0, out)?;
        }
        Ok(())
    }

    /// An item of an open list.
    fn item(&mut self, plain: &PlainRules, value: Raw, out: &mut Vec<u8>) -> Result<(), Error> {
        let part = Part::from_document(&value);
        match plain.format {
            Format::Hal if self.path.len() == 3 && self.streamed.is_none() => return Ok(()),
            Format::JsonApi if self.is_at(&["included"]) => {
                self.hold(plain, value.bytes().len())?;
                self.included.push(value);
                return Ok(());
            }
            Format::JsonApi if plain.resolves(1) && (!self.waiting.is_empty() || json_api::names_others(&value)) => {
                self.hold(plain, value.bytes().len())?;
                self.waiting.push(value);
                return Ok(());
            }
            Format::Siren if self.path.len() == 2 => return self.sub_entity(plain, value, out),
            _ => {}
        }
        self.separate(out);
        match plain.format {
            Format::Hal => hal::resource(plain, part, usize::from(self.path.len() == 3), out),
            Format::JsonApi => json_api::item(plain, part, &Included::default(), out),
            Format::Siren => siren::entity(plain, part, 0, out),
            Format::CollectionJson => collection_json::item(plain, part, out),
            Format::Odata => odata::value(plain, part, self.version(), out),
            Format::JsonLd => json_ld::node(plain, part, out),
            Format::Atom => Ok(()),
        }
    }

    fn version(&self) -> odata::Version {
        let two = self.path.get(1).is_some_and(|key| key.as_ref().is_some_and(|key| walk::is(key, "d")));
        if two { odata::Version::Two } else { odata::Version::Four }
    }

    fn separate(&mut self, out: &mut Vec<u8>) {
        out.push(if std::mem::replace(&mut self.begun, true) { b',' } else { b'[' });
    }

    /// The members of a collection leave at once, the other sub-entities after them.
    fn sub_entity(&mut self, plain: &PlainRules, value: Raw, out: &mut Vec<u8>) -> Result<(), Error> {
        let part = Part::from_document(&value);
        let name = siren::name(part).filter(|_| part.field("href").is_none());
        let streams = name.filter(|name| plain.nests(1) && siren::is_always_list(plain, name));
        if let Some(name) = streams
            && self.streamed.as_ref().is_none_or(|streamed| *streamed == name)
        {
            if self.streamed.is_none() {
                self.object.name(&name, out);
                self.streamed = Some(name.into_owned());
            }
            self.separate(out);
            return siren::entity(plain, part, 1, out);
        }
        self.hold(plain, value.bytes().len())?;
        self.others.push(value);
        Ok(())
    }

    /// Appends the end of the document, or all of one that is no list.
    fn end(&mut self, plain: &PlainRules, out: &mut Vec<u8>) -> Result<(), Error> {
        let object = std::mem::take(&mut self.object);
        match (plain.format, self.shape) {
            (_, ContainerShape::Scalar) => {}
            _ if self.root == b'[' || self.shape == ContainerShape::List => {
                out.extend_from_slice(if self.begun { b"]" } else { b"[]" });
            }
            (Format::CollectionJson, _) if self.streamed.is_some() => out.extend_from_slice(b"[]"),
            (Format::Hal, _) => object.end(out),
            (Format::Siren, ContainerShape::Object) => {
                let (mut object, rest, streamed) = (object, self.assemble()?, self.streamed.clone());
                let written = |name: &str| streamed.as_deref() == Some(name);
                siren::rest(plain, Part::from_document(&rest), 0, &mut object, &written, out)?;
                object.end(out);
            }
            _ => out.extend_from_slice(document(plain, &self.assemble()?)?.bytes()),
        }
        Ok(())
    }

    /// The document of the members that were held.
    fn assemble(&self) -> Result<Raw, Error> {
        let mut text = vec![b'{'];
        let member = |key: &[u8], text: &mut Vec<u8>| {
            if text.len() > 1 {
                text.push(b',');
            }
            text.extend_from_slice(key);
            text.push(b':');
        };
        for (key, value) in &self.members {
            member(key, &mut text);
            text.extend_from_slice(value.bytes());
        }
        for (name, held) in [("included", &self.included), ("entities", &self.others)] {
            if held.is_empty() {
                continue;
            }
            let mut key = Vec::new();
            write_string(name, &mut key);
            member(&key, &mut text);
            list(held.iter().map(Part::from_document), &mut text, |one, text| {
                text.extend_from_slice(one.bytes());
                Ok(())
            })?;
        }
        text.push(b'}');
        Ok(Raw::check(&text.into())?)
    }
}

/// The text of a key.
fn name_of(key: &[u8]) -> Vec<u8> {
    walk::text(key).unwrap_or_default().into_owned()
}

/// Whether this is an annotation that a list has, not an entity.
fn is_of_list(key: &[u8], value: &Raw) -> bool {
    let of_entity = ["@odata.id", "@odata.etag", "@odata.editLink", "@id", "@etag", "@editLink"];
    let one = Part::from_document(value).text().is_some_and(|context| context.ends_with("/$entity"));
    key.contains(&b'@') && !one && !of_entity.iter().any(|name| walk::is(key, name))
}
