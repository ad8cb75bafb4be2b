//! Where the links of an item lead, before anything is fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::error::{Error, Kind};
use crate::hypermedia::{self, Action, Identifier, Relation};
use crate::jq::{self, Data, Filter, Value};
use crate::json::Raw;
use crate::json::value::{self, fields_of};
use crate::message::names::Names;
use crate::pipeline::step::{FaultSource, apply};
use crate::request::context::Scope;
use crate::template::uri_template;

/// The links of a step.
pub(super) enum Links {
    Jq(Filter),
    Header(Arc<str>),
    Relation(Related),
    /// The relations of a tree, the first of them that of the item.
    Tree(Vec<Related>),
    Action(NamedAction),
}

impl Links {
    pub(super) fn filter(&self) -> Option<&Filter> {
        match self {
            Links::Jq(filter) => Some(filter),
            Links::Header(_) | Links::Relation(_) | Links::Tree(_) | Links::Action(_) => None,
        }
    }

    /// How many relations lead from the item to the last documents.
    pub(super) fn levels(&self) -> usize {
        if let Links::Tree(levels) = self { levels.len() } else { 1 }
    }

    /// About how many bytes are read for them, beside those that the filter reads.
    pub(super) fn weight(&self, item: &Data) -> usize {
        if let Links::Relation(_) | Links::Tree(_) | Links::Action(_) = self { item.weight() / 8 } else { 0 }
    }
}

/// Where a link leads.
pub(super) enum Lead {
    /// To this address: a text, or what stands in its place.
    Link(Data),
    /// Nowhere else: it is part of the item.
    Part(Data),
    /// To a resource that is only named.
    Typed(Box<Identifier>),
    /// To the address of an action.
    Action(Data, Box<Action>),
    /// To a call that is not just a GET.
    Act(Arc<Act>),
}

/// A call of a link: what it has beside its address.
pub(super) struct Act {
    pub(super) link: Data,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
}

impl Lead {
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Lead::Link(link) if link.is_null())
    }
}

/// A relation, within the part of an item that is a document of its own.
pub(super) struct Related {
    pub(super) relation: Relation,
    pub(super) within: Option<String>,
    pub(super) unseen: Unseen,
    /// Whether an upstream says how resources that are only named are fetched.
    pub(super) typed: bool,
}

impl Related {
    pub(super) fn leads(&self, item: &Data) -> Vec<Lead> {
        let document = within(item, self.within.as_deref());
        let leads = document.map(|document: Raw| hypermedia::leads(&self.relation, &document)).unwrap_or_default();
        self.unseen.note(!leads.is_empty(), &self.relation.name);
        self.taken(leads)
    }

    /// The leads of a document that can be followed.
    pub(super) fn taken(&self, leads: Vec<hypermedia::RelationTarget>) -> Vec<Lead> {
        let lead = |lead| match lead {
            hypermedia::RelationTarget::Link(link) => Some(Lead::Link(link.into())),
            hypermedia::RelationTarget::Part(part) => Some(Lead::Part(part.into())),
            hypermedia::RelationTarget::Named(named) => self.typed.then(|| Lead::Typed(Box::new(named))),
        };
        leads.into_iter().filter_map(lead).collect()
    }
}

/// An action, within the part of an item that is a document of its own.
pub(super) struct NamedAction {
    pub(super) name: String,
    pub(super) within: Option<String>,
}

impl NamedAction {
    pub(super) fn leads(&self, item: &Data) -> Vec<Lead> {
        let action =
            within(item, self.within.as_deref()).and_then(|document| hypermedia::action(&document, &self.name));
        action.map(|action| Lead::Action(action.target.clone().into(), Box::new(action))).into_iter().collect()
    }
}

fn within(item: &Data, key: Option<&str>) -> Option<Raw> {
    let raw = item.raw()?;
    match key {
        Some(key) => hypermedia::field(&raw, key),
        None => Some(raw),
    }
}

/// How many items had no such relation, until one has it.
#[derive(Default)]
pub(super) struct Unseen(AtomicU32);

/// Items without a relation, after which its name may be wrong.
const MISSED: u32 = 1000;

impl Unseen {
    pub(super) fn note(&self, seen: bool, relation: &str) {
        let missed = self.0.load(Ordering::Relaxed);
        if missed > MISSED {
            return;
        }
        if seen {
            self.0.store(u32::MAX, Ordering::Relaxed);
        } else if self.0.fetch_add(1, Ordering::Relaxed) + 1 == MISSED {
            tracing::warn!(
                target: "crocodile_pear::follow",
                relation,
                "none of the first {MISSED} items has this relation; check its name"
            );
        }
    }
}

/// The variables of templated links.
pub(super) enum Variables {
    /// The fields of one object.
    Whole(Filter),
    Each(Vec<(String, Filter)>),
}

impl Variables {
    fn evaluate(&self, item: &Data, names: &Names, scope: &Scope, first: bool) -> Result<Value, Error> {
        let one = |filter: &Filter| {
            let values = apply(filter, item.clone(), names, scope, FaultSource::from_filter(filter, first))?;
            Ok::<_, Error>(values.into_iter().next().map_or_else(jq::null, Data::into_value))
        };
        match self {
            Variables::Whole(filter) => {
                let value = one(filter)?;
                let fits = matches!(value::shape(&value), value::Shape::Null | value::Shape::Object(_));
                let wrong = || Error::new(Kind::Expression, format!("`with` is an object, not {}", jq::kind(&value)));
                if fits { Ok(value) } else { Err(FaultSource::from_filter(filter, first).attribute(wrong())) }
            }
            Variables::Each(filters) => {
                let pair = |(name, filter): &(String, Filter)| Ok((jq::string(name), one(filter)?));
                filters.iter().map(pair).collect::<Result<_, Error>>().map(fields_of)
            }
        }
    }

    pub(super) fn filters(&self) -> impl Iterator<Item = &Filter> {
        let (whole, each) = match self {
            Variables::Whole(filter) => (Some(filter), [].as_slice()),
            Variables::Each(filters) => (None, filters.as_slice()),
        };
        whole.into_iter().chain(each.iter().map(|(_, filter)| filter))
    }
}

/// Makes URLs of links that are templates.
pub(super) fn expand(
    mut leads: Vec<Lead>,
    variables: Option<&Variables>,
    (item, names, scope, first): (&Data, &Names, &Scope, bool),
) -> Result<Vec<Lead>, Error> {
    let mut known: Option<Value> = None;
    for lead in &mut leads {
        let (Lead::Link(link) | Lead::Action(link, _)) = lead else { continue };
        let Some(template) = template(link) else { continue };
        let values = match (&mut known, variables) {
            (Some(known), _) => known,
            (known, Some(variables)) => known.insert(variables.evaluate(item, names, scope, first)?),
            (known, None) => known.insert(jq::null()),
        };
        *link = jq::string(&uri_template::expand(&template, values)?).into();
    }
    Ok(leads)
}

/// The text of a link that is a template.
pub(super) fn template(link: &Data) -> Option<String> {
    if let Data::Json(raw) = link
        && !std::str::from_utf8(raw.bytes()).is_ok_and(uri_template::is_template)
        && memchr::memchr(b'\\', raw.bytes()).is_none()
    {
        return None;
    }
    let link = link.clone().into_value();
    jq::as_str(&link).filter(|text| uri_template::is_template(text)).map(str::to_owned)
}
