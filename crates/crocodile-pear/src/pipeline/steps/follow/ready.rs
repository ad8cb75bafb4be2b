//! Links followed: what they lead to, put where it belongs.

use std::future::{self, ready};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Context, Poll};

use futures_util::future::{BoxFuture, Either, FutureExt, join_all};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::header::LOCATION;
use http::{HeaderMap, Method, StatusCode};
use pin_project_lite::pin_project;

use crate::cache::AnswerParts;
use crate::error::{Error, Kind};
use crate::format;
use crate::http::http1::AnswerFields;
use crate::hypermedia::{self, Identifier};
use crate::jq::{self, Data, Filter, Value};
use crate::json;
use crate::json::Raw;
use crate::json::value::{self, Shape as Kinds};
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::message::names::{Base, NamedResults, Names};
use crate::offload::{self, Work};
use crate::pipeline::flow::{Awaited, Flow, Order, Outcome, Producer, interleave};
use crate::pipeline::step::answers::{self, AnswersUsed};
use crate::pipeline::step::status::StatusRules;
use crate::pipeline::step::{FaultSource, LinkTemplate, ReadyStep, apply, ask_whole, holds, weigh};
use crate::request::context::Scope;
use crate::request::fetch_memo::{Fetched, FetchedDocument, Fetching};
use crate::telemetry::request_record::{CallNote, CallingStep};
use crate::upstream::link::{self, ResolvedLink};
use crate::upstream::{Likeness, Presents, ReadyUpstream, TargetRoot, TimeoutSpec, UpstreamCall};

use super::act::Acting;
use super::growth::Growth;
use super::leads::{Act, Lead, Links, Variables, expand};
use super::spec::PAGES;

pub(super) struct ReadyFollow {
    pub(super) links: Links,
    /// The variables with which templated links are expanded.
    pub(super) variables: Option<Variables>,
    /// How links are called, if not just by GET.
    pub(super) acting: Option<Acting>,
    /// The message about a missing link, if that is a failure.
    pub(super) required: Option<String>,
    /// How many redirects of one link are followed.
    pub(super) redirects: u64,
    /// The part of the item to which the links are relative.
    pub(super) part: String,
    pub(super) name: Option<String>,
    /// The key under which an item has the status and the fields of the answer.
    pub(super) head: Option<String>,
    pub(super) limit: u64,
    pub(super) depth: u64,
    pub(super) concurrency: Option<NonZeroUsize>,
    pub(super) pages: Option<u64>,
    pub(super) when: Option<Filter>,
    pub(super) otherwise: Option<Data>,
    pub(super) rules: StatusRules,
    pub(super) timeout: Option<TimeoutSpec>,
    pub(super) max_body: usize,
    pub(super) upstreams: Vec<Arc<ReadyUpstream>>,
    /// The upstreams that links of others lead to with all that calls to them have.
    pub(super) named: Vec<Arc<str>>,
    /// Whether the links can only be of the document that they are resolved against.
    pub(super) one_document: bool,
    pub(super) first: bool,
    /// Whether anybody asks for the status and the fields of a page.
    pub(super) answers_used: AnswersUsed,
    /// For records.
    pub(super) noted: Arc<CallingStep>,
    /// How the pages of several answers follow each other.
    pub(super) order: Order,
    /// Whether a later step follows links.
    pub(super) notes_base: bool,
}

impl ReadyStep for ReadyFollow {
    fn templates(&self, answer: &Raw) -> Vec<LinkTemplate> {
        self.link_templates(answer)
    }

    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let (ready, scope) = (self, scope.clone());
        if ready.pages.is_some() {
            return turn(ready, flow, scope);
        }
        flow.map(move |producer| {
            let outcome = match producer.outcome {
                Awaited::Here(outcome) => match ready.open(outcome, &scope) {
                    StartedFollow::Over(outcome) => Awaited::Here(outcome),
                    StartedFollow::Fetching(item) => Awaited::later(Ending::new(ready.clone(), item, scope.clone())),
                    StartedFollow::Other(outcome) => Awaited::later(follow(ready.clone(), outcome, scope.clone())),
                },
                Awaited::Later(outcome) => Awaited::later(follow_later(ready.clone(), outcome, scope.clone())),
            };
            Producer { outcome, ..producer }
        })
    }
}

pub(super) async fn follow_later(
    ready: Arc<ReadyFollow>,
    outcome: BoxFuture<'static, Outcome>,
    scope: Arc<Scope>,
) -> Outcome {
    match ready.open(outcome.await, &scope) {
        StartedFollow::Over(outcome) => outcome,
        StartedFollow::Fetching(item) => Ending::new(ready, item, scope).await,
        // Boxed: items that are at hand would carry the room.
        StartedFollow::Other(outcome) => Box::pin(follow(ready, outcome, scope)).await,
    }
}

/// How far an item is when its link is found.
pub(super) enum StartedFollow {
    Fetching(WaitingItem),
    /// The item has to be read, or has several links, or links of links.
    Other(Outcome),
    /// There is nothing to wait for.
    Over(Outcome),
}

/// An item that waits for the document of its one link.
pub(super) struct WaitingItem {
    answer: Answer,
    data: Data,
    fetching: Fetching,
    trust: CallTrust,
}

/// Whether a call has the credentials of its upstream. A redirect has no more than the call that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallTrust {
    Full,
    Anonymous,
}

/// The rest of an item: its document arrives, and is put into it.
///
/// By hand: an `async fn` would hold the item twice, as its argument and as what it works with.
struct Ending {
    ready: Arc<ReadyFollow>,
    scope: Arc<Scope>,
    trust: CallTrust,
    /// The answer that the item is of, until all is there.
    answer: Option<Answer>,
    waits: Waits,
}

enum Waits {
    /// For the document; the item meanwhile.
    Document(Fetching, Data),
    /// For what the document redirects to.
    Hops(BoxFuture<'static, Fetched>, Data),
    /// Until both are put together.
    Work(BoxFuture<'static, Result<Data, Error>>),
}

impl Ending {
    fn new(
        ready: Arc<ReadyFollow>,
        WaitingItem { answer, data, fetching, trust }: WaitingItem,
        scope: Arc<Scope>,
    ) -> Self {
        Ending { ready, scope, trust, answer: Some(answer), waits: Waits::Document(fetching, data) }
    }

    /// The document, after all its redirects.
    fn poll_fetched(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Fetched, Data)>> {
        if let Waits::Document(fetching, data) = &mut self.waits {
            let fetched = task::ready!(fetching.poll_unpin(cx));
            if !self.ready.is_redirect(&fetched) {
                return Poll::Ready(Some((fetched, data.clone())));
            }
            let hops = self.ready.clone().arrive(fetched, self.trust, None, self.scope.clone());
            self.waits = Waits::Hops(hops.boxed(), data.clone());
        }
        let Waits::Hops(hops, data) = &mut self.waits else { return Poll::Ready(None) };
        Poll::Ready(Some((task::ready!(hops.as_mut().poll(cx)), data.clone())))
    }
}

impl Future for Ending {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let own = &mut *self;
        if let Some((fetched, data)) = task::ready!(own.poll_fetched(cx)) {
            let Some(answer) = own.answer.take() else { return Poll::Ready(None) };
            match own.ready.judge(fetched.map(Some)).and_then(|reached| own.ready.settle(answer, data, reached)) {
                Ok((answer, Either::Left(made))) => return Poll::Ready(finish(answer, made.into_inner())),
                Ok((answer, Either::Right(made))) => {
                    own.answer = Some(answer);
                    own.waits = Waits::Work(made);
                }
                Err(error) => return Poll::Ready(Some(Err(error.at_step("follow")))),
            }
        }
        let Waits::Work(making) = &mut own.waits else { return Poll::Pending };
        let made = task::ready!(making.as_mut().poll(cx));
        Poll::Ready(own.answer.take().and_then(|answer| finish(answer, made)))
    }
}

pub(super) async fn follow(ready: Arc<ReadyFollow>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
    match outcome? {
        Ok(answer) if answer.is_usable() => {
            let made = match &ready.links {
                Links::Tree(_) => Box::pin(ready.grown(answer, scope)).await,
                _ => ready.embed(answer, scope).await,
            };
            Some(made.map_err(|error| error.at_step("follow")))
        }
        other => Some(other),
    }
}

/// The most bytes of documents that are joined on the core.
const LARGE: usize = 1 << 20;

/// The value that a link led to.
#[derive(Clone)]
pub(super) struct LinkedValue {
    pub(super) data: Data,
    pub(super) base: Option<Base>,
    /// The status of an answer of this; `None` if nothing was found.
    pub(super) status: Option<StatusCode>,
    /// The status and the fields of the answer, if they are wanted.
    pub(super) head: Option<Data>,
}

impl LinkedValue {
    pub(super) fn nothing() -> Self {
        LinkedValue { data: Raw::sound("null".into(), 0).into(), base: None, status: None, head: None }
    }

    /// A value that stands for what could not be had.
    pub(super) fn instead(data: Data, head: Option<Data>) -> Self {
        LinkedValue { data, base: None, status: Some(StatusCode::OK), head }
    }

    /// A part of a document, whose links are relative to where the document came from.
    fn part(data: Data, base: Option<Base>) -> Self {
        LinkedValue { data, base, status: Some(StatusCode::OK), head: None }
    }

    pub(super) fn document(document: &FetchedDocument, head: Option<Data>) -> Self {
        // One that is used whatever its status counts as one whose status is 2xx.
        let status = Some(document.status).filter(StatusCode::is_success).unwrap_or_default();
        LinkedValue { data: document.data.clone(), base: Some(document.base.clone()), status: Some(status), head }
    }

    /// Makes a redirect that was followed the answer of what it led to.
    pub(super) fn arrive(&self, answer: &mut Answer) {
        if let (true, Some(status)) = (answer.status.is_redirection(), self.status) {
            answer.status = status;
            answer.headers.remove(LOCATION);
        }
    }

    /// A list of what several links led to.
    pub(super) fn list(found: Vec<LinkedValue>) -> Self {
        let head = found.iter().any(|found| found.head.is_some()).then(|| {
            let heads = found.iter().map(|found| found.head.clone().unwrap_or_else(|| jq::null().into()));
            Data::list(heads.collect())
        });
        let list = Data::list(found.into_iter().map(|found| found.data).collect());
        LinkedValue { data: list, base: Some(Base::Several), status: Some(StatusCode::OK), head }
    }

    /// The document of a relationship to many: the resources of these documents, as if it had been fetched.
    pub(super) fn joined(found: Vec<LinkedValue>) -> Result<Self, Error> {
        let resource = |data: &Data| {
            let raw = data.raw()?;
            hypermedia::field(&raw, "data").or(Some(raw).filter(|raw| raw.bytes() != "null"))
        };
        let resources: Vec<Raw> = found.iter().filter_map(|found| resource(&found.data)).collect();
        let several = LinkedValue::list(found);
        let mut text = b"{\"data\":[".to_vec();
        for (at, resource) in resources.iter().enumerate() {
            text.extend_from_slice(if at > 0 { b"," } else { b"" });
            text.extend_from_slice(resource.bytes());
        }
        text.extend_from_slice(b"]}");
        Ok(LinkedValue { data: Raw::check(&text.into())?.into(), ..several })
    }
}

/// The outcome of a link.
pub(super) enum Reached {
    Document(Headed),
    /// There is none, and this stands for it.
    Instead(LinkedValue),
}

/// A document, and its head if that is wanted.
pub(super) type Headed = (Arc<FetchedDocument>, Option<Data>);

/// The upstream that has written a link.
type Author = Option<Arc<str>>;

impl Reached {
    pub(super) fn into_found(self) -> LinkedValue {
        match self {
            Reached::Document((document, head)) => LinkedValue::document(&document, head),
            Reached::Instead(found) => found,
        }
    }
}

/// The statuses that say where the document is (RFC 9110, 15.4).
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Whether a redirect with this status is called with the method of the call that it answers; with GET otherwise
/// (RFC 9110, 15.4.2 to 15.4.9).
fn stays(status: StatusCode, method: &Method) -> bool {
    match status.as_u16() {
        301 | 302 => *method != Method::POST,
        303 => method.is_safe(),
        _ => true,
    }
}

/// Where links are looked for.
pub(super) struct LinkSearch {
    names: Names,
    base: Option<Base>,
    /// The upstream whose answer has the links, if it can be no other one.
    author: Author,
    /// The URLs of the documents on the way to this one, without its own.
    trail: Vec<Arc<str>>,
    left: u64,
    /// Whether links of links are followed, so that they may lead back.
    deep: bool,
    /// The growth of the item; none where one link leads to one document.
    growth: Option<Growth>,
    /// How many links are followed at the same time from there.
    width: usize,
}

/// The most links of one item that are followed at the same time, if the documents that they lead to have links, too.
const WIDTH: usize = 1024;

impl LinkSearch {
    /// The URL of the document that the links stand in.
    fn url(&self) -> Option<&Arc<str>> {
        match &self.base {
            Some(Base::At(_, url)) => Some(url),
            _ => None,
        }
    }

    /// The names that expressions know there.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// The site in a document from there, all of whose links its server has written.
    pub(super) fn at(&self, base: Base) -> LinkSearch {
        let author = match &base {
            Base::At(upstream, _) => Some(upstream.clone()),
            Base::Several => None,
        };
        LinkSearch { base: Some(base), author, ..self.below() }
    }

    /// The site one level deeper.
    pub(super) fn below(&self) -> LinkSearch {
        let (names, base, author) = (self.names.clone(), self.base.clone(), self.author.clone());
        let (trail, growth, left) = (self.trail.clone(), self.growth.clone(), self.left.saturating_sub(1));
        LinkSearch { names, base, author, trail, left, deep: self.deep, growth, width: self.width }
    }

    /// The same site for one of so many links that are followed at the same time.
    pub(super) fn shared(self, links: usize) -> LinkSearch {
        LinkSearch { width: (self.width / links.clamp(1, self.width)).max(1), ..self }
    }

    /// Counts bytes that are added to the item.
    ///
    /// # Errors
    /// The item becomes too large.
    pub(super) async fn grow(&self, bytes: usize, max_body: usize) -> Result<(), Error> {
        match &self.growth {
            Some(growth) => growth.add(bytes, max_body).await,
            None => Ok(()),
        }
    }

    /// Whether a document is one of those on the way to this one.
    fn leads_back(&self, document: &FetchedDocument) -> bool {
        matches!(&document.base, Base::At(_, url) if self.was_at(url))
    }

    /// Whether this document leads here.
    fn was_at(&self, url: &str) -> bool {
        self.deep && self.trail.iter().chain(self.url()).any(|known| **known == *url)
    }
}

/// The outputs of these futures, at most so many of which run at once.
pub(super) async fn together<F: Future>(futures: impl ExactSizeIterator<Item = F>, most: usize) -> Vec<F::Output> {
    if most < futures.len() { stream::iter(futures).buffered(most).collect().await } else { join_all(futures).await }
}

impl ReadyFollow {
    /// Starts to fetch what the usual item needs: one that is at hand, with one link.
    pub(super) fn open(self: &Arc<Self>, outcome: Outcome, scope: &Arc<Scope>) -> StartedFollow {
        let answer = match outcome {
            Some(Ok(answer)) if answer.is_usable() => answer,
            other => return StartedFollow::Over(other),
        };
        if matches!(self.links, Links::Header(_) | Links::Tree(_))
            || self.acting.is_some()
            || self.limit > 1
            || self.depth > 1
        {
            return StartedFollow::Other(Some(Ok(answer)));
        }
        let (answer, data) = match format::open_here(answer) {
            Ok(opened) => opened,
            Err(answer) => return StartedFollow::Other(Some(Ok(answer))),
        };
        let weight = self.weight(&data, &answer.names, scope);
        let base = self.base(&answer.names);
        let author = self.author(base.as_ref(), &answer.names);
        let site =
            LinkSearch { names: None, base, author, trail: Vec::new(), left: 1, deep: false, growth: None, width: 1 };
        let found = offload::attempt(weight, || self.leads(&data, &[], &answer.names, scope));
        let reached = match found {
            None => return StartedFollow::Other(Some(Ok(Answer { body: data.into(), ..answer }))),
            Some(Err(error)) => return StartedFollow::Over(Some(Err(error.at_step("follow")))),
            Some(Ok(links)) if links.len() > 1 => {
                return StartedFollow::Over(Some(Err(self.too_many(&links).at_step("follow"))));
            }
            Some(Ok(leads)) => match leads.into_iter().next() {
                Some(Lead::Part(part)) => Ok(Reached::Instead(LinkedValue::part(part, site.base))),
                Some(Lead::Link(link)) => match self.reach(&link, None, &site, scope) {
                    Ok(Some((fetching, trust))) => {
                        return StartedFollow::Fetching(WaitingItem { answer, data, fetching, trust });
                    }
                    Ok(None) => self.judge(self.missing(&link)),
                    Err(error) => self.judge(Err(error)),
                },
                Some(Lead::Typed(_)) => {
                    return StartedFollow::Other(Some(Ok(Answer { body: data.into(), ..answer })));
                }
                Some(Lead::Action(..) | Lead::Act(_)) | None => self.judge(self.missing(&jq::null().into())),
            },
        };
        match reached.and_then(|reached| self.settle(answer, data.clone(), reached)) {
            Ok((answer, Either::Left(made))) => StartedFollow::Over(finish(answer, made.into_inner())),
            // A large item without a document is put together on a helper thread.
            Ok((answer, Either::Right(_))) => StartedFollow::Other(Some(Ok(Answer { body: data.into(), ..answer }))),
            Err(error) => StartedFollow::Over(Some(Err(error.at_step("follow")))),
        }
    }

    /// The item, with what was fetched for it.
    pub(super) fn settle(
        self: &Arc<Self>,
        mut answer: Answer,
        item: Data,
        reached: Reached,
    ) -> Result<(Answer, Work<Data>), Error> {
        let found = reached.into_found();
        answer.redescribe();
        found.arrive(&mut answer);
        answer.names = self.rebase(answer.names, found.base, item.is_object());
        Ok((answer, self.put(item, found.data, found.head)))
    }

    pub(super) async fn embed(self: Arc<Self>, answer: Answer, scope: Arc<Scope>) -> Result<Answer, Error> {
        let text = format::Text::from_answer(&answer);
        let (mut answer, item) = match format::open_here(answer) {
            Ok(opened) => opened,
            // Boxed: items that are at hand would carry the room.
            Err(answer) => Box::pin(format::open(answer, self.max_body)).await?,
        };
        let links = self.find(&item, &answer.headers, &answer.names, &scope).await;
        let links = links.map_err(|error| format::explain(text.as_ref(), error))?;
        let site = self.site(&answer.names);
        let item = if site.growth.is_some() { unread(item) } else { item };
        let found = self.clone().descend(links, site, scope).await?;
        answer.redescribe();
        found.arrive(&mut answer);
        answer.names = self.rebase(answer.names, found.base, item.is_object());
        answer.body = self.put(item, found.data, found.head).await?.into();
        Ok(answer)
    }

    /// Where the links of an item with these names are looked for.
    pub(super) fn site(&self, names: &Names) -> LinkSearch {
        let base = self.base(names);
        let author = self.author(base.as_ref(), names);
        let several = self.limit > 1 || self.depth > 1 || matches!(self.links, Links::Tree(_));
        let growth = several.then(Growth::default);
        let (names, trail, left, deep) = (names.clone(), Vec::new(), self.depth, self.depth > 1);
        let width = if deep || self.links.levels() > 1 { WIDTH } else { usize::MAX };
        LinkSearch { names, base, author, trail, left, deep, growth, width }
    }

    /// The links in a document; none where `when` says so.
    pub(super) async fn find(
        self: &Arc<Self>,
        item: &Data,
        headers: &HeaderMap,
        names: &Names,
        scope: &Arc<Scope>,
    ) -> Result<Vec<Lead>, Error> {
        let weight = self.weight(item, names, scope);
        let links = match &self.links {
            Links::Header(relation) => link::of_header(headers, relation),
            Links::Jq(_) | Links::Relation(_) | Links::Tree(_) | Links::Action(_) => Vec::new(),
        };
        let here = || self.leads(item, &links, names, scope);
        let lent = || {
            let (ready, links) = (self.clone(), links.clone());
            let (item, names, scope) = (item.clone(), names.clone(), scope.clone());
            move || ready.leads(&item, &links, &names, &scope)
        };
        offload::run_or(weight, here, lent).await
    }

    /// About how many bytes are read to find the links of an item.
    pub(super) fn weight(&self, item: &Data, names: &Names, scope: &Scope) -> usize {
        let filters = self.when.iter().chain(self.links.filter());
        let filters = filters.chain(self.variables.iter().flat_map(Variables::filters));
        let filters = filters.chain(self.acting.iter().flat_map(Acting::filters));
        filters.map(|filter| weigh(filter, item, names, scope)).sum::<usize>() + self.links.weight(item)
    }

    /// Where the links of an item lead.
    fn leads(&self, item: &Data, links: &[String], names: &Names, scope: &Scope) -> Result<Vec<Lead>, Error> {
        let leads = self.links(item, links, names, scope)?;
        let leads = expand(leads, self.variables.as_ref(), (item, names, scope, self.first))?;
        match &self.acting {
            Some(acting) => acting.prepare(leads, (item, names, scope)),
            None => Ok(leads),
        }
    }

    fn links(&self, item: &Data, links: &[String], names: &Names, scope: &Scope) -> Result<Vec<Lead>, Error> {
        if let Some(when) = &self.when
            && !holds(when, item.clone(), names, scope, FaultSource::from_filter(when, self.first))?
        {
            return Ok(Vec::new());
        }
        if let (true, Data::Json(item)) = (self.name.is_some() || self.head.is_some(), item) {
            // They are looked at again when the document is put into the item.
            item.note_fields();
        }
        let filter = match &self.links {
            Links::Jq(filter) => filter,
            Links::Relation(related) => return Ok(related.leads(item)),
            Links::Action(action) => return Ok(action.leads(item)),
            Links::Tree(_) => return Ok(Vec::new()),
            Links::Header(_) => return Ok(links.iter().map(|link| Lead::Link(jq::string(link).into())).collect()),
        };
        if let Some(link) = filter.pick(item, &mut |name| scope.data(name, names))
            && !link.is_list()
        {
            return Ok(vec![Lead::Link(link)]);
        }
        let links = apply(filter, item.clone(), names, scope, FaultSource::from_filter(filter, self.first))?;
        let links = links.into_iter().map(Data::into_value).flat_map(|link| match value::as_list(&link) {
            Some(several) => several.to_vec(),
            None => vec![link],
        });
        Ok(links.map(|link| Lead::Link(link.into())).collect())
    }

    /// The outcome of a link that is missing: no document, or a failure.
    pub(super) fn missing(&self, link: &Data) -> Result<Option<Arc<FetchedDocument>>, Error> {
        match &self.required {
            Some(missing) if link.is_null() => Err(Error::new(Kind::Unusable, missing.clone())),
            _ => Ok(None),
        }
    }

    pub(super) fn base(&self, names: &Names) -> Option<Base> {
        let names = names.as_deref()?;
        names.base(&self.part).or_else(|| names.base("")).cloned()
    }

    /// The upstream that has written the links, if all that they may come from is its own.
    pub(super) fn author(&self, base: Option<&Base>, names: &Names) -> Author {
        let Some(Base::At(upstream, _)) = base else { return None };
        let own = |base: &Base| matches!(base, Base::At(other, _) if other == upstream);
        let all = || names.iter().flat_map(|names| &names.bases).all(|(_, base)| own(base));
        (self.one_document || all()).then(|| upstream.clone())
    }

    /// The documents of these links: one, or a list where several are allowed.
    pub(super) fn descend(
        self: Arc<Self>,
        leads: Vec<Lead>,
        site: LinkSearch,
        scope: Arc<Scope>,
    ) -> BoxFuture<'static, Result<LinkedValue, Error>> {
        Box::pin(async move {
            if leads.len() as u64 > self.limit {
                return Err(self.too_many(&leads));
            }
            // Deeper, a document without links is the end of its branch.
            if site.left == self.depth
                && leads.iter().all(Lead::is_nothing)
                && let Err(missing) = self.missing(&jq::null().into())
            {
                return self.judge(Err(missing)).map(Reached::into_found);
            }
            let many = leads.iter().any(|lead| matches!(lead, Lead::Typed(named) if named.many));
            if self.limit == 1 && !many {
                return match leads.into_iter().next() {
                    Some(lead) => self.one(lead, &site, &scope).await,
                    None => Ok(LinkedValue::nothing()),
                };
            }
            let (most, site) = self.share(leads.len(), site);
            let found = leads.into_iter().map(|lead| self.one(lead, &site, &scope));
            let found = together(found, most).await;
            let found = found.into_iter().collect::<Result<Vec<LinkedValue>, Error>>()?;
            let weight = found.iter().map(|found| found.data.weight()).sum();
            site.grow(weight, self.max_body).await?;
            let one = self.limit == 1;
            let join = move |found: Vec<LinkedValue>| match (many, one) {
                (true, true) => LinkedValue::joined(found),
                (true, false) => Ok(LinkedValue::list(vec![LinkedValue::joined(found)?])),
                (false, _) => Ok(LinkedValue::list(found)),
            };
            match weight <= LARGE {
                true => join(found),
                false => offload::run(weight, move || join(found.clone())).await,
            }
        })
    }

    /// How many of these links are followed at the same time, and the site for each of them.
    pub(super) fn share(&self, links: usize, site: LinkSearch) -> (usize, LinkSearch) {
        let most = self.concurrency.map_or(site.width, |most| site.width.min(most.get()));
        (most, site.shared(links.min(most)))
    }

    fn too_many(&self, links: &[Lead]) -> Error {
        let detail = format!("the item has {} links; the limit is {}", links.len(), self.limit);
        Error::new(Kind::Oversized, detail)
    }

    /// The value of a lead: the document of a link and what its own links lead to, or what stands for it; or a part, and
    /// what its links lead to.
    async fn one(self: &Arc<Self>, lead: Lead, site: &LinkSearch, scope: &Arc<Scope>) -> Result<LinkedValue, Error> {
        let nothing = Data::from(jq::null());
        let (link, act) = match &lead {
            Lead::Link(link) | Lead::Action(link, _) | Lead::Part(link) => (link, None),
            Lead::Act(act) => (&act.link, Some(act)),
            Lead::Typed(named) => match &named.included {
                Some(part) => return Ok(LinkedValue::part(part.clone().into(), site.base.clone())),
                None => (&nothing, None),
            },
        };
        let (own, below, headers) = match &lead {
            Lead::Part(part) => {
                (LinkedValue::part(part.clone(), site.base.clone()), site.below(), AnswerFields::default())
            }
            _ => match self.document(&lead, (link, act), site, scope).await? {
                Reached::Instead(found) => return Ok(found),
                Reached::Document((document, head)) => {
                    site.grow(0, self.max_body).await?;
                    let author = self.author(Some(&document.base), &site.names);
                    let trail = site.trail.iter().chain(site.url()).cloned().collect();
                    let base = Some(document.base.clone());
                    (
                        LinkedValue::document(&document, head),
                        LinkSearch { base, author, trail, ..site.below() },
                        document.headers.clone(),
                    )
                }
            },
        };
        if site.left <= 1 {
            return Ok(own);
        }
        let leads = self.find(&own.data, &headers, &site.names, scope).await?;
        let found = self.clone().descend(leads, below, scope.clone()).await?;
        match (self.name.is_some() || self.head.is_some(), found.data.is_null()) {
            // The chain ends with this document.
            (false, true) => Ok(own),
            (false, false) => Ok(found),
            (true, _) => Ok(LinkedValue { data: self.put(unread(own.data), found.data, found.head).await?, ..own }),
        }
    }

    /// The document of a link, or what stands for it.
    pub(super) async fn document(
        self: &Arc<Self>,
        lead: &Lead,
        (link, act): (&Data, Option<&Arc<Act>>),
        site: &LinkSearch,
        scope: &Arc<Scope>,
    ) -> Result<Reached, Error> {
        let reached = match lead {
            Lead::Typed(named) => self.reach_named(named, site, scope),
            _ => self.reach(link, act, site, scope),
        };
        let fetched = match reached {
            Ok(Some((fetching, trust))) => {
                let fetched = fetching.await;
                match self.is_redirect(&fetched) {
                    // Boxed: documents that are there would carry the room.
                    true => match Box::pin(self.clone().arrive(fetched, trust, act.cloned(), scope.clone())).await {
                        Ok(document) if site.leads_back(&document) => Ok(None),
                        fetched => fetched.map(Some),
                    },
                    false => fetched.map(Some),
                }
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        self.judge(fetched)
    }

    pub(super) fn judge(&self, fetched: Result<Option<Arc<FetchedDocument>>, Error>) -> Result<Reached, Error> {
        let fetched = match fetched {
            Ok(None) => return Ok(Reached::Instead(LinkedValue::nothing())),
            Ok(Some(document)) => Ok(document),
            Err(error) => Err(error),
        };
        let head = self.head_of(&fetched);
        let instead = |data| Reached::Instead(LinkedValue::instead(data, head.clone()));
        let document = match fetched {
            Ok(document) => match self.rule(&document) {
                ControlFlow::Break(ruled) => return ruled.map(instead),
                ControlFlow::Continue(used) => used.map(|_| document),
            },
            Err(error) => Err(error),
        };
        match (document, &self.otherwise) {
            (Err(_), Some(otherwise)) => Ok(instead(otherwise.clone())),
            (document, _) => document.map(|document| Reached::Document((document, head))),
        }
    }

    /// The status and the fields of an answer, or the status that its failure is told with; if they are wanted.
    pub(super) fn head_of(&self, fetched: &Fetched) -> Option<Data> {
        self.head.as_ref()?;
        Some(match fetched {
            Ok(document) => answers::facts(document.status, &document.headers).into(),
            Err(error) => answers::failed(error).into(),
        })
    }

    /// `None` for a type that nobody said how to fetch, and for a resource that leads back.
    fn reach_named(
        &self,
        named: &Identifier,
        site: &LinkSearch,
        scope: &Arc<Scope>,
    ) -> Result<Option<(Fetching, CallTrust)>, Error> {
        let Some(Base::At(author, _)) = &site.base else { return Ok(None) };
        let author = self.upstreams.iter().find(|upstream| upstream.name() == author);
        let Some((to, path)) = author.and_then(|author| author.types().call(&named.kind, &named.id)) else {
            return Ok(None);
        };
        let Some(to) = self.upstreams.iter().find(|upstream| upstream.name() == to) else { return Ok(None) };
        let odd = || Error::new(Kind::Unusable, "a resource in the answer has an identifier that no path can have");
        let place = link::at(to, &path).filter(|_| !named.id.is_empty()).ok_or_else(odd)?;
        if site.was_at(&place.url) {
            return Ok(None);
        }
        // The configuration names its upstream, so that it is called with all that its calls have.
        let own = Some(place.upstream.name().clone());
        self.fetch(place, &own, None, scope).map(Some)
    }

    /// The value of a document by its status.
    pub(super) fn rule(&self, document: &FetchedDocument) -> ControlFlow<Result<Data, Error>, Result<Data, Error>> {
        let name = |error: Error| match &document.base {
            Base::At(upstream, _) => error.of_upstream(upstream),
            Base::Several => error,
        };
        self.rules.rule(document).map_break(|ruled| ruled.map_err(name)).map_continue(|used| used.map_err(name))
    }

    /// `None` for no link, and for one that leads back to where it was found.
    fn reach(
        &self,
        link: &Data,
        act: Option<&Arc<Act>>,
        site: &LinkSearch,
        scope: &Arc<Scope>,
    ) -> Result<Option<(Fetching, CallTrust)>, Error> {
        match self.place(link, site.base.as_ref(), scope)? {
            Some(place) if !site.was_at(&place.url) => self.fetch(place, &site.author, act, scope).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether an answer leads elsewhere, and is to be followed there.
    fn is_redirect(&self, fetched: &Fetched) -> bool {
        self.redirects > 0
            && fetched.as_ref().is_ok_and(|document| {
                is_redirect(document.status)
                    && !self.rules.knows(document.status)
                    && document.headers.contains_key(LOCATION)
            })
    }

    /// Follows redirects to the document that they lead to. Each address is checked before it is called, and a server
    /// that was called without credentials sends nobody to its own door with them.
    async fn arrive(
        self: Arc<Self>,
        fetched: Fetched,
        trust: CallTrust,
        act: Option<Arc<Act>>,
        scope: Arc<Scope>,
    ) -> Fetched {
        let (mut fetched, mut trust, mut act) = (fetched, trust, act);
        for _ in 0..self.redirects {
            let document = fetched?;
            let Base::At(upstream, _) = &document.base else { return Ok(document) };
            let name = |error: Error| error.of_upstream(upstream);
            let location = document.headers.get(LOCATION).and_then(|value| str::from_utf8(value.as_bytes()).ok());
            let wrong = || Error::new(Kind::Unusable, "a redirect of the upstream leads to no URL");
            let place =
                self.locate(location.ok_or_else(wrong).map_err(name)?, Some(&document.base), &scope).map_err(name)?;
            let author = Some(upstream.clone()).filter(|_| trust == CallTrust::Full);
            act = act.filter(|act| stays(document.status, &act.method));
            let (fetching, own) = self.fetch(place, &author, act.as_ref(), &scope)?;
            trust = own;
            fetched = fetching.await;
            if !self.is_redirect(&fetched) {
                return fetched;
            }
        }
        Err(Error::new(Kind::Unusable, format!("a link has more than {} redirects", self.redirects)))
    }

    pub(super) fn place(&self, link: &Data, base: Option<&Base>, scope: &Scope) -> Result<Option<ResolvedLink>, Error> {
        if link.is_null() {
            return Ok(None);
        }
        if let Data::Json(raw) = link
            && let Some(Ok(text)) = raw.plain_text().map(str::from_utf8)
        {
            return self.locate(text, base, scope).map(Some);
        }
        let link = link.clone().into_value();
        let wrong = || Error::new(Kind::Expression, format!("a link is text, not {}", jq::kind(&link)));
        self.locate(jq::as_str(&link).ok_or_else(wrong)?, base, scope).map(Some)
    }

    fn locate(&self, link: &str, base: Option<&Base>, scope: &Scope) -> Result<ResolvedLink, Error> {
        // Against this, only absolute links are URLs.
        let (from, base) = match base {
            Some(Base::At(upstream, url)) => (&**upstream, &**url),
            Some(Base::Several) | None => ("", "none:"),
        };
        link::resolve(&self.upstreams, from, base, link, Some(scope))
    }

    /// Fetches a document, or waits with others who asked for it.
    fn fetch(
        &self,
        place: ResolvedLink,
        author: &Author,
        act: Option<&Arc<Act>>,
        scope: &Arc<Scope>,
    ) -> Result<(Fetching, CallTrust), Error> {
        let name = place.upstream.name();
        let own = author.as_ref() == Some(name) || self.named.contains(name);
        let method = act.map_or(Method::GET, |act| act.method.clone());
        if !own && !method.is_safe() {
            let detail = "a link that changes something leads to an upstream that did not write it; name it in `to`";
            return Err(Error::new(Kind::Unusable, detail));
        }
        let acted = act.is_some();
        // Its fields and its body are for the upstream that wrote the link.
        let act = act.filter(|_| own);
        let trusted = own || !place.upstream.presents(scope);
        let (presents, (mut fields, host)) = match trusted {
            true => {
                (Presents::Credentials, (place.upstream.fields(scope, Likeness::Other)?, place.upstream.host(scope)))
            }
            false => (Presents::Nothing, (place.upstream.anonymous_fields(scope)?, None)),
        };
        ask_whole(&mut fields, &method);
        for (name, value) in act.iter().flat_map(|act| &act.headers) {
            fields.write(name, Some(value.clone()));
        }
        let body = act.and_then(|act| act.body.clone());
        let shared = method == Method::GET && body.is_none();
        let key = key(&place, presents, &fields);
        let keeping = place.upstream.keep(scope, &mut fields)?;
        let affinity = place.upstream.affinity(scope)?;
        let headers = fields.into_map();
        if let Some(parts) = scope.parts::<AnswerParts>() {
            parts.note_dependence(place.upstream.own_dependence());
        }
        let start = || {
            let timeouts = self.timeout.as_ref().map(|spec| Arc::new(spec.over(place.upstream.timeouts())));
            let (deadline, received, bound) = (scope.deadline(), scope.version(), self.max_body);
            let note = scope.record().map(|record| CallNote::new(record, &self.noted));
            let (target, root) = (place.target, TargetRoot::Server);
            let call = UpstreamCall {
                method,
                body: body.map(AnswerBody::Bytes),
                headers,
                timeouts,
                deadline,
                root,
                host,
                received,
                keeping,
                note,
                affinity,
                presents,
                ..UpstreamCall::get(target)
            };
            let name = place.upstream.name().clone();
            let base = Base::At(name, place.url);
            DocumentFetch { calling: place.upstream.call(call), base, bound, acted, reading: None }
        };
        let trust = if trusted { CallTrust::Full } else { CallTrust::Anonymous };
        match shared {
            true => Ok((scope.memo().fetch(key, start), trust)),
            // Each is a call of its own: it may change something, or answer without a body.
            false => Ok((Either::Right(start().boxed().shared()), trust)),
        }
    }

    /// The item with what was found in it: bytes beside bytes, unless the item has been parsed for an expression.
    pub(super) fn put(self: &Arc<Self>, item: Data, found: Data, head: Option<Data>) -> Work<Data> {
        if self.name.is_none() && self.head.is_none() {
            return Either::Left(future::ready(Ok(found)));
        }
        // Where both are bytes they are copied, but for objects that are parsed already.
        let weight = item.weight() + found.weight();
        let here = || self.embedded(item.clone(), found.clone(), head.clone());
        let lent = || {
            let (ready, item, found, head) = (self.clone(), item.clone(), found.clone(), head.clone());
            move || ready.embedded(item.clone(), found.clone(), head.clone())
        };
        offload::run_or(weight, here, lent)
    }

    pub(super) fn embedded(&self, item: Data, found: Data, head: Option<Data>) -> Result<Data, Error> {
        if let Some(key) = &self.head {
            let head = head.unwrap_or_else(|| jq::null().into());
            // What is no object has no room for both.
            let item = if item.is_object() { item } else { value::object::<&str>([]).into() };
            let item = join(item, key, head)?;
            return match &self.name {
                Some(name) => join(item, name, found),
                None => Ok(item),
            };
        }
        match &self.name {
            Some(name) if item.is_object() => join(item, name, found),
            _ => Ok(found),
        }
    }

    /// Notes where what was found came from.
    pub(super) fn rebase(&self, names: Names, base: Option<Base>, object: bool) -> Names {
        let Some(base) = base.filter(|_| self.notes_base) else { return names };
        let mut known: NamedResults = names.as_deref().cloned().unwrap_or_default();
        match &self.name {
            Some(name) if object || self.head.is_some() => known.set_base(name, base),
            // The item stays what it was.
            None if self.head.is_some() => {}
            _ => known.set_document(base),
        }
        Some(Arc::new(known))
    }
}

/// The bytes of a document that an expression has read: others are put into them, and a core writes no large tree.
fn unread(data: Data) -> Data {
    match data {
        Data::Json(raw) if raw.is_parsed() => Raw::sound(raw.bytes().clone(), raw.depth()).into(),
        data => data,
    }
}

/// An object with a field: bytes beside bytes, unless it has been parsed for an expression.
pub(super) fn join(item: Data, name: &str, found: Data) -> Result<Data, Error> {
    if let (Data::Json(item), Some(found)) = (&item, found.raw().filter(|_| matches!(item, Data::Json(_))))
        && !item.is_parsed()
        && let Some(joined) = item.with(name, &found)
    {
        return Ok(joined.into());
    }
    let item = item.into_value();
    let Some(fields) = value::as_object(&item) else { return Ok(found) };
    let found = found.into_value();
    if !nests(&found, json::DEPTH - 1) {
        return Err(Error::new(Kind::Malformed, "the documents nest deeper than 128 levels"));
    }
    let mut fields = fields.clone();
    fields.insert(jq::string(name), found);
    Ok(Data::made(value::fields_of(fields))?)
}

pub(super) fn finish(answer: Answer, made: Result<Data, Error>) -> Outcome {
    Some(match made {
        Ok(data) => Ok(Answer { body: data.into(), ..answer }),
        Err(error) => Err(error.at_step("follow")),
    })
}

/// Whom a document is for is part of what it is.
pub(super) fn key(place: &ResolvedLink, presents: Presents, headers: &HeaderMap) -> Vec<u8> {
    let presents: &[u8] = if presents == Presents::Nothing { b"anonymous\n" } else { b"\n" };
    let mut key = [place.upstream.name().as_bytes(), b"\n", place.target.as_bytes(), b"\n", presents].concat();
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"] {
            key.extend_from_slice(part);
        }
    }
    key
}

pin_project! {
    /// The call for a document, and the reading of its answer.
    ///
    /// By hand: an `async fn` would hold the call twice, and the room for an answer that is still to come.
    struct DocumentFetch<C> {
        #[pin]
        calling: C,
        base: Base,
        bound: usize,
        // Whether an empty body is nothing, not an answer without its document.
        acted: bool,
        reading: Option<BoxFuture<'static, Fetched>>,
    }
}

impl<C: Future<Output = Result<Answer, Error>>> Future for DocumentFetch<C> {
    type Output = Fetched;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Fetched> {
        let own = self.project();
        if own.reading.is_none() {
            let answer = task::ready!(own.calling.poll(cx))?;
            match read(answer, own.base, *own.bound, *own.acted) {
                Either::Left(fetched) => return Poll::Ready(fetched),
                Either::Right(reading) => *own.reading = Some(reading),
            }
        }
        own.reading.as_mut().map_or(Poll::Pending, |reading| reading.as_mut().poll(cx))
    }
}

/// The document of an answer: at once, if its body is at hand and small.
fn read(answer: Answer, base: &Base, bound: usize, acted: bool) -> Either<Fetched, BoxFuture<'static, Fetched>> {
    let Answer { status, headers, body, lists, .. } = answer;
    let (head, base) = ((status, headers), base.clone());
    match body {
        AnswerBody::Bytes(bytes) if acted && bytes.is_empty() => {
            Either::Left(document(head, Ok(jq::null().into()), base, 0))
        }
        AnswerBody::Bytes(bytes) if bytes.len() <= bound => {
            let size = bytes.len();
            match format::document(head.0, &head.1, lists, bytes, bound) {
                Either::Left(data) => Either::Left(document(head, data.into_inner(), base, size)),
                Either::Right(data) => Either::Right(Box::pin(async move { document(head, data.await, base, size) })),
            }
        }
        body => Either::Right(Box::pin(async move {
            match body.collect(bound).await {
                Ok(bytes) if acted && bytes.is_empty() => document(head, Ok(jq::null().into()), base, 0),
                Ok(bytes) => {
                    let size = bytes.len();
                    let data = format::document(head.0, &head.1, lists, bytes, bound).await;
                    document(head, data, base, size)
                }
                Err(error) => document(head, Err(error), base, 0),
            }
        })),
    }
}

fn document(
    (status, headers): (StatusCode, AnswerFields),
    data: Result<Data, Error>,
    base: Base,
    size: usize,
) -> Fetched {
    let data = match data {
        Ok(data) => data,
        Err(error) if status.is_success() => {
            return Err(match &base {
                Base::At(upstream, _) => error.of_upstream(upstream),
                Base::Several => error,
            });
        }
        // What is no document need not be readable.
        Err(_) => jq::null().into(),
    };
    Ok(Arc::new(FetchedDocument { status, data, headers, base, size }))
}

/// Whether a value nests no deeper than so many levels.
pub(super) fn nests(value: &Value, levels: usize) -> bool {
    let within = |inner: &Value| levels > 0 && nests(inner, levels - 1);
    match value::shape(value) {
        Kinds::List(items) => levels > 0 && items.iter().all(within),
        Kinds::Object(fields) => levels > 0 && fields.values().all(within),
        _ => true,
    }
}

/// Each answer, and the pages that follow it.
pub(super) fn turn(ready: Arc<ReadyFollow>, flow: Flow, scope: Arc<Scope>) -> Flow {
    let (at_once, order) = (flow.at_once(), ready.order);
    let begin: PageStarter = Box::new(move |producer| {
        let (ready, scope, left) = (ready.clone(), scope.clone(), ready.pages.unwrap_or(PAGES));
        Box::pin(Pages { ready, scope, next: NextPage::First(producer), seen: Vec::new(), left }.begin())
    });
    // One more than flows on: the next page is fetched meanwhile.
    Flow::stream(interleave(flow.drive(order, begin), order, at_once), at_once.max(2))
}

type PageStarter = Box<dyn FnMut(Producer) -> BoxFuture<'static, BoxStream<'static, Producer>> + Send>;

/// The pages of one answer.
pub(super) struct Pages {
    ready: Arc<ReadyFollow>,
    scope: Arc<Scope>,
    next: NextPage,
    seen: Vec<Arc<str>>,
    left: u64,
}

pub(super) enum NextPage {
    First(Producer),
    /// With the upstream that has written the link.
    Page(ResolvedLink, Author, Names),
    Failed(Error),
    None,
}

impl Pages {
    /// The pages, when the first one is there.
    async fn begin(self) -> BoxStream<'static, Producer> {
        match self.turn().await {
            Some((first, rest)) => stream::once(ready(first)).chain(stream::unfold(rest, Pages::turn)).boxed(),
            None => stream::empty().boxed(),
        }
    }

    async fn turn(mut self) -> Option<(Producer, Self)> {
        let (id, outcome) = match std::mem::replace(&mut self.next, NextPage::None) {
            NextPage::None => return None,
            NextPage::First(producer) => (producer.id, producer.outcome.await?),
            NextPage::Page(place, author, names) => {
                (self.scope.next_producer(), self.fetch(place, &author, names).await)
            }
            NextPage::Failed(error) => (self.scope.next_producer(), Err(error)),
        };
        let outcome = match outcome {
            Ok(answer) if answer.is_usable() => self.open(answer).await,
            other => other,
        };
        let outcome = outcome.map_err(|error| error.at_step("follow"));
        Some((Producer::here(id, Some(outcome)), self))
    }

    async fn fetch(&mut self, place: ResolvedLink, author: &Author, names: Names) -> Result<Answer, Error> {
        let upstream = Some(place.upstream.name().clone());
        let fetched = match self.ready.fetch(place, author, None, &self.scope) {
            Ok((fetching, trust)) => match fetching.await {
                fetched if self.ready.is_redirect(&fetched) => {
                    Box::pin(self.ready.clone().arrive(fetched, trust, None, self.scope.clone())).await
                }
                fetched => fetched,
            },
            Err(error) => Err(error),
        };
        let mut names = names;
        self.ready.answers_used.note_document(&mut names, &fetched);
        let document = match fetched {
            Ok(document) => match self.ready.rule(&document) {
                ControlFlow::Break(ruled) => return ruled.map(Answer::of_value),
                ControlFlow::Continue(used) => used.map(|_| document),
            },
            failed => failed,
        };
        let document = match (document, &self.ready.otherwise) {
            (Err(_), Some(otherwise)) => return Ok(Answer::of_value(otherwise.clone())),
            (document, _) => document?,
        };
        let mut known: NamedResults = names.as_deref().cloned().unwrap_or_default();
        known.set_document(document.base.clone());
        let (headers, names) = (document.headers.clone(), Some(Arc::new(known)));
        // What is used counts as one whose status is 2xx.
        Ok(Answer { headers, names, upstream, ..Answer::of_value(document.data.clone()) })
    }

    /// Reads a page, and finds where the next one is.
    async fn open(&mut self, answer: Answer) -> Result<Answer, Error> {
        let text = format::Text::from_answer(&answer);
        let (mut answer, page) = format::open(answer, self.ready.max_body).await?;
        self.left -= 1;
        let next = self.find(&page, &answer.headers, &answer.names).await;
        self.next = match next {
            Ok(Some(_)) if self.left == 0 => {
                let pages = self.ready.pages.unwrap_or(PAGES);
                let error = Error::new(Kind::Oversized, format!("there are more than {pages} pages"));
                NextPage::Failed(error.at_end_of_list())
            }
            Ok(Some((place, author))) => NextPage::Page(place, author, answer.names.clone()),
            Ok(None) => NextPage::None,
            Err(error) => NextPage::Failed(format::explain(text.as_ref(), error)),
        };
        answer.redescribe();
        answer.body = page.into();
        Ok(answer)
    }

    /// The next page, unless it has been seen: loops end.
    async fn find(
        &mut self,
        page: &Data,
        headers: &HeaderMap,
        names: &Names,
    ) -> Result<Option<(ResolvedLink, Author)>, Error> {
        let leads = self.ready.find(page, headers, names, &self.scope).await?;
        let base = self.ready.base(names);
        if let Some(Base::At(_, url)) = &base {
            self.seen.push(url.clone());
        }
        let place = match leads.first() {
            Some(Lead::Link(link)) => self.ready.place(link, base.as_ref(), &self.scope)?,
            _ => None,
        };
        let author = self.ready.author(base.as_ref(), names);
        let place = place.filter(|place| !self.seen.contains(&place.url));
        // Its own URL may be another one, if it redirects.
        self.seen.extend(place.iter().map(|place| place.url.clone()));
        Ok(place.map(|place| (place, author)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ready::*;

    #[test]
    fn depth_is_counted_to_its_bound() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels)).into_bytes();
        let value = json::read(&nested(100).into()).expect("JSON");
        assert!(nests(&value, 100) && !nests(&value, 99));
    }
}
