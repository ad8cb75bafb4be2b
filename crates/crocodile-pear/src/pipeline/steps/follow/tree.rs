//! A tree of documents with a relation for each level.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::leads::{Lead, Links, Related, expand};
use super::ready::{LinkSearch, LinkedValue, Reached, ReadyFollow, join, together};
use crate::error::{Error, Kind};
use crate::format;
use crate::hypermedia::{self, CompoundDocument, RelationFormat};
use crate::jq::{self, Data};
use crate::json::Raw;
use crate::message::answer::Answer;
use crate::message::names::{Base, NamedResults, Names};
use crate::offload;
use crate::pipeline::step::{FaultSource, holds};
use crate::request::context::Scope;

/// A document of the tree, whose relations are to be followed.
struct Branch {
    data: Data,
    level: usize,
    /// The document that holds what parts of JSON:API name.
    included: Option<Arc<CompoundDocument>>,
    site: LinkSearch,
}

/// The resources of a document that have the relation of its level, and all that they lead to; `None` where nothing is followed.
type Looked = Option<(Vec<Spot>, Vec<Lead>)>;

/// A resource of a document, and where its relation leads.
#[derive(Clone)]
struct Spot {
    place: Range<usize>,
    leads: usize,
    many: bool,
    /// Whether what was found is one document of a relationship to many.
    joined: bool,
}

impl ReadyFollow {
    /// The item, with the tree of documents in it.
    pub(super) async fn grown(self: Arc<Self>, answer: Answer, scope: Arc<Scope>) -> Result<Answer, Error> {
        let text = format::Text::from_answer(&answer);
        let (mut answer, item) = format::open(answer, self.max_body).await?;
        let site = self.site(&answer.names);
        let branch = Branch { data: item, level: 0, included: None, site };
        let grown = self.clone().grow(branch, scope).await;
        let grown = grown.map_err(|error| format::explain(text.as_ref(), error))?;
        answer.redescribe();
        answer.names = self.rebased(answer.names);
        answer.body = grown.into();
        Ok(answer)
    }

    /// Notes that the documents of the tree have URLs of their own.
    fn rebased(&self, names: Names) -> Names {
        let Links::Tree(levels) = &self.links else { return names };
        let Some(first) = levels.first().filter(|_| self.notes_base) else { return names };
        let mut known: NamedResults = names.as_deref().cloned().unwrap_or_default();
        known.set_base(&first.relation.name, Base::Several);
        Some(Arc::new(known))
    }

    /// A document with what its relation leads to, and so on to the last level.
    fn grow(self: Arc<Self>, branch: Branch, scope: Arc<Scope>) -> BoxFuture<'static, Result<Data, Error>> {
        Box::pin(async move {
            let branch = self.sourced(branch);
            let Some((related, spots, leads)) = self.spots(&branch, &scope).await? else { return Ok(branch.data) };
            if leads.len() as u64 > self.limit {
                let detail = format!(
                    "a document has {} links at `{}`; the limit is {}",
                    leads.len(),
                    related.relation.name,
                    self.limit
                );
                return Err(Error::new(Kind::Oversized, detail));
            }
            if branch.level == 0 && leads.is_empty() && self.required.is_some() {
                let missing = self.judge(self.missing(&jq::null().into()));
                return self.put_first(&related.relation.name, branch.data, missing?);
            }
            if branch.level == 0 && spots.is_empty() {
                return self.put_first(&related.relation.name, branch.data, Reached::Instead(LinkedValue::nothing()));
            }
            let (most, site) = self.share(leads.len(), branch.site);
            let branch = Branch { site, ..branch };
            let found = leads.into_iter().map(|lead| self.leaf(lead, &branch, &scope));
            let found = together(found, most).await.into_iter().collect::<Result<Vec<Data>, Error>>()?;
            self.spliced(&related.relation.name, branch, spots, found).await
        })
    }

    /// A branch that knows what its document includes, for its own level and those below.
    fn sourced(&self, branch: Branch) -> Branch {
        let Links::Tree(levels) = &self.links else { return branch };
        let json_api = levels.get(branch.level).is_some_and(|level| level.relation.form == RelationFormat::JsonApi);
        match &branch.included {
            None if json_api => {
                let included = branch.data.raw().map(|document| Arc::new(CompoundDocument::from_document(document)));
                Branch { included, ..branch }
            }
            _ => branch,
        }
    }

    /// The item with the value of a tree that is not there.
    fn put_first(&self, name: &str, item: Data, reached: Reached) -> Result<Data, Error> {
        let found = reached.into_found();
        if item.is_object() { join(item, name, found.data) } else { Ok(item) }
    }

    /// The resources of a document that have the relation of its level, and all that they lead to; `None` behind the last
    /// level, and where `when` says so.
    async fn spots(
        self: &Arc<Self>,
        branch: &Branch,
        scope: &Arc<Scope>,
    ) -> Result<Option<(&Related, Vec<Spot>, Vec<Lead>)>, Error> {
        let Links::Tree(levels) = &self.links else { return Ok(None) };
        let Some(related) = levels.get(branch.level) else { return Ok(None) };
        let (level, names) = (branch.level, branch.site.names());
        let included = branch.included.as_deref().map_or(0, CompoundDocument::weight);
        let weight = self.weight(&branch.data, names, scope).max(included);
        let here = || self.look(level, &branch.data, branch.included.as_deref(), names, scope);
        let lent = || {
            let (ready, data, included) = (self.clone(), branch.data.clone(), branch.included.clone());
            let (names, scope) = (names.clone(), scope.clone());
            move || ready.look(level, &data, included.as_deref(), &names, &scope)
        };
        let found = offload::run_or(weight, here, lent).await?;
        Ok(found.map(|(spots, leads)| (related, spots, leads)))
    }

    fn look(
        &self,
        level: usize,
        data: &Data,
        included: Option<&CompoundDocument>,
        names: &Names,
        scope: &Scope,
    ) -> Result<Looked, Error> {
        let Links::Tree(levels) = &self.links else { return Ok(None) };
        let Some((related, raw)) = levels.get(level).zip(data.raw()) else { return Ok(None) };
        if let Some(when) = &self.when
            && !holds(when, data.clone(), names, scope, FaultSource::from_filter(when, self.first))?
        {
            return Ok(None);
        }
        let holders = hypermedia::holders(&related.relation, &raw, included);
        related.unseen.note(!holders.is_empty(), &related.relation.name);
        let (mut spots, mut all) = (Vec::with_capacity(holders.len()), Vec::new());
        for holder in holders {
            let leads = related.taken(holder.leads);
            let leads = expand(leads, self.variables.as_ref(), (data, names, scope, self.first))?;
            let joined = leads.iter().any(|lead| matches!(lead, Lead::Typed(named) if named.many));
            spots.push(Spot { place: holder.place, leads: leads.len(), many: holder.many, joined });
            all.extend(leads);
        }
        Ok(Some((spots, all)))
    }

    /// The document of a lead, with those that it leads to.
    async fn leaf(self: &Arc<Self>, lead: Lead, branch: &Branch, scope: &Arc<Scope>) -> Result<Data, Error> {
        let Links::Tree(levels) = &self.links else { return Ok(jq::null().into()) };
        let part = match &lead {
            Lead::Part(part) => Some(part.clone()),
            Lead::Typed(named) => named.included.clone().map(Data::from),
            _ => None,
        };
        let (data, included, site) = match part {
            // Its parts are where it was.
            Some(part) => (part, branch.included.clone(), branch.site.below()),
            None => {
                let nothing = Data::from(jq::null());
                let link = if let Lead::Link(link) = &lead { link } else { &nothing };
                match self.document(&lead, (link, None), &branch.site, scope).await? {
                    Reached::Instead(found) => return Ok(found.data),
                    Reached::Document((document, _)) => {
                        let site = branch.site.at(document.base.clone());
                        (document.data.clone(), None, site)
                    }
                }
            }
        };
        site.grow(0, self.max_body).await?;
        if branch.level + 1 >= levels.len() {
            return Ok(data);
        }
        self.clone().grow(Branch { data, level: branch.level + 1, included, site }, scope.clone()).await
    }

    /// The document with what was found, each in the resource that leads there.
    async fn spliced(
        self: &Arc<Self>,
        name: &str,
        Branch { data: document, site, .. }: Branch,
        spots: Vec<Spot>,
        found: Vec<Data>,
    ) -> Result<Data, Error> {
        let weight = document.weight() + found.iter().map(Data::weight).sum::<usize>();
        site.grow(weight, self.max_body).await?;
        let here = || splice(name, &document, &spots, &found);
        let lent = || {
            let (name, document, spots, found) = (name.to_owned(), document.clone(), spots.clone(), found.clone());
            move || splice(&name, &document, &spots, &found)
        };
        offload::run_or(weight, here, lent).await
    }
}

fn splice(name: &str, document: &Data, spots: &[Spot], found: &[Data]) -> Result<Data, Error> {
    let Some(raw) = document.raw() else { return Ok(document.clone()) };
    let bytes = raw.bytes();
    let (mut out, mut at, mut rest) = (Vec::new(), 0, found);
    for spot in spots {
        let (own, others) = rest.split_at(spot.leads.min(rest.len()));
        rest = others;
        let value = value(spot, own)?;
        let holder = Raw::sound(bytes.slice(spot.place.clone()), raw.depth());
        let made = join(holder.into(), name, value)?;
        if spot.place.len() == bytes.len() {
            return Ok(made);
        }
        out.extend_from_slice(&bytes[at..spot.place.start]);
        made.write(&mut out)?;
        at = spot.place.end;
    }
    out.extend_from_slice(&bytes[at..]);
    Ok(Raw::check(&Bytes::from(out))?.into())
}

/// The value of a relation of one resource: a document, or a list if the resource says so.
fn value(spot: &Spot, found: &[Data]) -> Result<Data, Error> {
    if spot.joined {
        return LinkedValue::joined(found.iter().map(|data| LinkedValue::instead(data.clone(), None)).collect())
            .map(|found| found.data);
    }
    Ok(match found {
        [one] if !spot.many => one.clone(),
        [] if !spot.many => jq::null().into(),
        several => Data::list(several.to_vec()),
    })
}
