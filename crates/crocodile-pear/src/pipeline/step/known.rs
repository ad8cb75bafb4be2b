//! The names that steps may refer to while they are compiled: read only.

use std::sync::Arc;

use http::Method;
use indexmap::IndexMap;

use super::public_links::PublicTable;
use super::sink::Sink;
use crate::config::spec::{Located, Size, suggest};
use crate::database::Database;
use crate::upstream::{LinksSpec, ReadyUpstream};

/// The default limit of a body that a step reads whole: enough for an answer of an ordinary size.
pub const MAX_BODY: Size = Size(16 << 20);

/// The names that the steps of a pipeline may use, and where the pipeline is served.
#[derive(Clone, Copy, Default)]
pub struct Known<'a> {
    pub upstreams: ByName<'a, ReadyUpstream>,
    pub databases: ByName<'a, Database>,
    /// The endpoint of the pipeline.
    pub route: KnownRoute<'a>,
    /// The paths of all endpoints, by what serves them.
    pub table: Option<&'a Arc<PublicTable>>,
}

/// The parts of an endpoint that its pipeline may refer to.
#[derive(Clone, Copy)]
pub struct KnownRoute<'a> {
    /// Its path, as it is written.
    pub path: &'a str,
    /// The path parameters.
    pub params: &'a [String],
    /// Which of them is the rest of the path.
    pub rest: Option<&'a str>,
    /// Whether the path cannot be read: then any name may be one of its parameters.
    pub unread: bool,
    /// The client's method; `None` if any is allowed.
    pub method: Option<&'a Method>,
    /// Whether it serves a stream.
    pub stream: StreamSpec,
    /// Whether the operator lets it ignore the client's body.
    pub ignores_body: bool,
    /// Whether nothing authenticates its clients: `$claims` is always null.
    pub anonymous: bool,
    /// How links in bodies are mapped, where the endpoint says it.
    pub links: Option<&'a LinksSpec>,
    /// The largest body of a client that the pipeline reads whole, in bytes.
    pub max_body: usize,
}

impl Default for KnownRoute<'_> {
    fn default() -> Self {
        KnownRoute {
            path: "",
            params: &[],
            rest: None,
            unread: false,
            method: None,
            stream: StreamSpec::Off,
            ignores_body: false,
            anonymous: false,
            links: None,
            max_body: MAX_BODY.bytes(),
        }
    }
}

crate::choice! {
    /// Whether an endpoint serves a stream that may rest and go on as long as it likes.
    pub enum StreamSpec {
        /// The endpoint may: its `timeout` does not apply, nor do `idle` and `call` of the upstream to the calls of its first
        /// step, unless these are set at the call.
        On = "on",
        /// The endpoint may not, except server-sent events.
        Off = "off",
    }
}

#[allow(clippy::derivable_impls, reason = "`choice!` derives what all words have")]
impl Default for StreamSpec {
    fn default() -> Self {
        StreamSpec::Off
    }
}

/// The things that steps name, each under its name.
pub struct ByName<'a, T> {
    sound: Option<&'a IndexMap<String, Arc<T>>>,
    broken: &'a [&'a str],
}

impl<'a, T> ByName<'a, T> {
    /// `broken` are the names of those that have problems of their own.
    pub fn new(sound: &'a IndexMap<String, Arc<T>>, broken: &'a [&'a str]) -> Self {
        ByName { sound: Some(sound), broken }
    }

    /// Whether none is written.
    pub fn is_empty(&self) -> bool {
        self.sound.is_none_or(IndexMap::is_empty) && self.broken.is_empty()
    }

    /// All that are sound.
    pub fn values(&self) -> impl Iterator<Item = &'a Arc<T>> {
        self.sound.into_iter().flat_map(IndexMap::values)
    }

    /// Finds one by name. `what` is its noun with an article: `an upstream`.
    pub fn find(&self, name: &Located<String>, what: &str, problems: &mut Sink<'_>) -> Option<Arc<T>> {
        if let Some(found) = self.sound.and_then(|sound| sound.get(&name.value)) {
            return Some(found.clone());
        }
        if self.broken.contains(&name.as_str()) {
            return None;
        }
        let noun = what.split_once(' ').map_or(what, |(_, noun)| noun);
        let sound = self.sound.into_iter().flat_map(IndexMap::keys).map(String::as_str);
        let known: Vec<&str> = sound.chain(self.broken.iter().copied()).collect();
        let remedy = match suggest(&name.value, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if name.value.contains("://") => format!("write {what}'s name here, and its URL under `{noun}s`"),
            None if known.is_empty() => format!("add it under `{noun}s`"),
            None => format!("the {noun}s are {}", known.join(", ")),
        };
        problems.sure(name.span, format!("no {noun} is named `{name}`"), remedy)
    }
}

impl<T> Clone for ByName<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ByName<'_, T> {}

impl<T> Default for ByName<'_, T> {
    fn default() -> Self {
        ByName { sound: None, broken: &[] }
    }
}
