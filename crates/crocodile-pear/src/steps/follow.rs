//! `follow`: fetches what the links in an item lead to.

mod ask;

use std::future::{self, ready};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::{BoxFuture, Either, join_all};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{HeaderMap, Method};

use crate::error::{Error, Kind};
use crate::flow::{Answer, Awaited, Base, Flow, Named, Names, Order, Outcome, Producer, interleave};
use crate::format::json::Raw;
use crate::format::{self, json};
use crate::jq::value::{self, Shape as Kinds};
use crate::jq::{self, Data, Filter, Value};
use crate::offload::{self, Work};
use crate::problem::Problems;
use crate::record::{CallNote, CallingStep};
use crate::scope::Scope;
use crate::scope::memo::{Document, Fetched, Fetching};
use crate::spec;
use crate::spec::{Expression, Json, Literal, Located, Size, only};
use crate::step::answers::Asked;
use crate::step::status::{OnStatus, Rules};
use crate::step::{Blame, Compile, MAX_BODY, Shape, Spec, Step, apply, ask_whole, holds, part, weigh};
use crate::steps::request::Request;
use crate::upstream::link::{self, Place};
use crate::upstream::{Call, Likeness, Root, TimeoutSpec, Upstream};

spec! {
    /// Fetches the document that a link in each item points to. Written short as the expression that gives the link.
    /// The document is put into the item under the key `as`; without `as`, or if the item is not an object, it replaces
    /// the item. If the link is missing or null, the result is null and no call is made.
    ///
    /// A relative link is resolved (RFC 3986) against the document that contains it. If the expression begins with the
    /// key of an earlier `as` (`.case.resources[0].href`), that is the document under this key; if it begins with a
    /// named result (`$orders.next`), it is that result; otherwise it is the answer that the item came from. `base`
    /// overrides this.
    ///
    /// A link may only lead to the origins (scheme, host, port) of configured upstreams; any other link is refused
    /// before a connection is made. If several upstreams have the same origin, the one with the longest matching path
    /// is used. The call gets the header fields of that upstream's `forward`, and nothing else.
    ///
    /// Within one request of a client, the same document is fetched once, however many items link to it. Up to 4 MiB of
    /// documents are kept for this; the least recently used go first.
    ///
    /// An item's body and the documents are read whole, within `max_body`. The item fails if its link is refused, if
    /// there is no answer, or if the answer has another status than 2xx (also 404), unless `otherwise` or `on_status`
    /// gives a value. An answer that flows in with another status than 2xx passes unchanged.
    ///
    /// With `request`, the expression gives a value instead of a link (a number, a name), and the call is made for that
    /// value, at any upstream. Its `batch` asks for several values in one call.
    ///
    /// With `pages`, the answer and each page that follows become one item each. A page flows on while the next one is
    /// fetched.
    pub struct Follow {
        /// The link. With a `limit` above 1, the links; a list gives its items.
        pub link: Option<Expression>,
        /// The link to the next page. At most 50 `pages` by default.
        pub next: Option<Expression>,
        /// The name of a relation in HAL's `_links`, to use as the link.
        pub hal: Option<Located<String>>,
        /// The name of a member of JSON:API's `links`, or of a relationship, to use as the link.
        pub json_api: Option<Located<String>>,
        /// The name of a relation in the answer's `Link` header fields (RFC 8288), to use as the link.
        pub link_header: Option<Located<String>>,
        /// The call to make for the value of `link`. In its `path`, `headers` and `body`, `.` is that value.
        pub request: Option<Request>,
        /// The key of the item under which the document is put.
        #[name = "as"]
        pub name: Option<Located<String>>,
        /// The `as` of the document against which relative links are resolved, if the expression does not begin with
        /// it.
        pub base: Option<Located<String>>,
        /// The most pages, including the first. One more is a failed item.
        pub pages: Option<u64>,
        /// The most links of one document. More links make the item fail. Above 1, the result is a list.
        pub limit: u64 = 1,
        /// With a `limit` above 1: how many links of one document are followed at the same time. No limit by default.
        pub concurrency: Option<Located<NonZeroUsize>>,
        /// How many levels of links are followed: the links of each fetched document too, with the document as `.`. A
        /// link back to a document on the way to it gives null, so loops end.
        pub depth: u64 = 1,
        /// A condition. If it is false or null, nothing is followed, as if the item had no link.
        pub when: Option<Expression>,
        /// The value to use if a document cannot be fetched.
        pub otherwise: Option<Located<Literal>>,
        /// What to do by the status of the document's answer, or by its class: `{ 404: null, 5xx: fail }`. `pass` uses
        /// it as if its status were 2xx. `fail` makes it fail, also if there is `otherwise`. Any other value is used
        /// instead of the document.
        pub on_status: Option<OnStatus>,
        /// How long a call may take: one time for the whole call, or a time for each phase.
        pub timeout: Option<TimeoutSpec>,
        /// The most bytes of an item and of a document.
        pub max_body: Size = MAX_BODY,
    }
    short(short)
}

/// Pages, unless they are set.
const PAGES: u64 = 50;

/// Levels of documents within each other; JSON nests no deeper than 128.
const DEPTH: u64 = 100;

fn short(text: Located<String>, problems: &mut Problems) -> Option<Follow> {
    only([("link", text)], problems)
}

impl Follow {
    /// Follows the links that this expression gives; what they lead to takes the item's place.
    pub fn of(link: Expression) -> Self {
        let follow: Option<Follow> = short(link.0.clone(), &mut Problems::default());
        Follow { link: Some(link), ..follow.expect("any text is a link") }
    }

    /// The links as they are written: the expression, or the relation in a header field.
    fn links(&self, cx: &mut Compile<'_>) -> Option<(Written, Located<String>)> {
        let written: Vec<(Written, &Located<String>)> = [
            self.link.as_ref().map(|link| (Written::Jq(link.clone()), &link.0)),
            self.next.as_ref().map(|next| (Written::Jq(next.clone()), &next.0)),
            self.hal.as_ref().map(|relation| (Written::Jq(Expression::plain(self.recipe(relation, HAL))), relation)),
            self.json_api
                .as_ref()
                .map(|relation| (Written::Jq(Expression::plain(self.recipe(relation, JSON_API))), relation)),
            self.link_header.as_ref().map(|relation| (Written::Header(relation.value.as_str().into()), relation)),
        ]
        .into_iter()
        .flatten()
        .collect();
        match written.len() {
            1 => written.into_iter().next().map(|(links, place)| (links, place.clone())),
            0 => {
                let remedy = "write `link: EXPRESSION`, or one of `next`, `hal`, `json_api`, `link_header`";
                cx.problems.error(cx.place, "`follow` without a link", remedy)
            }
            _ => cx.problems.error(written[1].1.span, "`follow` has two links", "follow them in two steps"),
        }
    }

    /// The expression for a relation, within the document that `base` names.
    fn recipe(&self, relation: &Located<String>, recipe: &str) -> Located<String> {
        let within = self.base.as_ref().map(|base| format!(".[{}] | ", Json::from(base.as_str())));
        let relation_text = Json::from(relation.as_str()).to_string();
        let source = within.unwrap_or_default() + &recipe.replace("REL", &relation_text);
        Located::new(source, relation.span)
    }
}

/// A relation is one link or a list of them; one that is missing is none.
const HAL: &str = "._links[REL]? | if type == \"array\" then .[] else . end | .href? | select(. != null)";

/// A link is its URL or an object that holds it.
const JSON_API: &str = "first((.links[REL]?, .relationships[REL]?.links.related?, .data?.relationships?[REL]?.links.related?) \
    | if type == \"object\" then .href else . end | select(. != null)) // null";

enum Written {
    Jq(Expression),
    Header(Arc<str>),
}

impl Spec for Follow {
    fn compile(mut self, cx: &mut Compile<'_>) -> Option<Box<dyn Step>> {
        let asks = self.request.is_some();
        let asking = ask::compile(&mut self, cx);
        let links = self.links(cx);
        let when = self.when.as_ref().map(|when| cx.condition(when));
        let base = self.part(links.as_ref(), cx);
        let bounds = self.bounds(cx);
        let otherwise = cx.literal(self.otherwise.as_ref());
        let rules = self.on_status.take().map_or(Some(Rules::default()), |rules| rules.compile(cx));
        let (links, text) = match links? {
            (Written::Jq(written), text) => (Links::Jq(cx.filter(&written)?), text),
            (Written::Header(relation), text) => (Links::Header(relation), text),
        };
        let when = when.map_or(Some(None), |filter| filter.map(Some))?;
        let (base, (), otherwise, rules) = (base?, bounds?, otherwise?.map(Data::Json), rules?);
        let asking = asking?;
        if !asks {
            self.explain(&text, cx);
        }
        if let Some(name) = &self.name {
            cx.documents.push(name.value.clone());
            cx.unused.push((name.value.clone(), name.span));
        }
        let ready = Arc::new(Ready {
            links,
            part: base,
            name: self.name.map(|name| name.value),
            limit: self.limit,
            depth: self.depth,
            concurrency: self.concurrency.map(|most| most.value),
            pages: self.pages.or(self.next.map(|_| PAGES)),
            when,
            otherwise,
            rules,
            timeout: self.timeout,
            max_body: self.max_body.bytes(),
            upstreams: cx.upstreams.values().cloned().collect(),
            first: cx.first,
            asked: cx.asked.clone(),
            noted: cx.calling("follow"),
            order: cx.order,
            notes_base: cx.follows,
        });
        Some(match asking {
            Some(asking) => Box::new(ask::Asks::new(ready, asking)),
            None => Box::new(Following(ready)),
        })
    }
}

impl Follow {
    /// The part of an item whose URL relative links are resolved against.
    fn part(&self, links: Option<&(Written, Located<String>)>, cx: &mut Compile<'_>) -> Option<String> {
        let Some(base) = &self.base else {
            let written = links.map(|(links, _)| match links {
                Written::Jq(written) => part(written.0.as_str()),
                Written::Header(_) => "",
            });
            return Some(written.unwrap_or_default().to_owned());
        };
        if cx.documents.contains(&base.value) {
            cx.unused.retain(|(key, _)| *key != base.value);
            return Some(base.value.clone());
        }
        let remedy = match cx.documents.as_slice() {
            [] => "no `follow` before this one has an `as`".to_owned(),
            known => format!("the documents are {}", known.join(", ")),
        };
        cx.problems.error(base.span, format!("no document was put under `{base}`"), remedy)
    }

    fn bounds(&self, cx: &mut Compile<'_>) -> Option<()> {
        let paged = self.pages.is_some() || self.next.is_some();
        let span = self.name.as_ref().map_or(cx.place, |name| name.span);
        if paged && (self.name.is_some() || self.depth > 1 || self.limit != 1) {
            let remedy = "leave out `as`, `limit` and `depth`: each page is an item";
            return cx.problems.error(span, "pages follow one another", remedy);
        }
        if self.limit == 0 || self.depth == 0 || self.pages == Some(0) {
            return cx.problems.error(cx.place, "`follow` with a bound of 0 follows nothing", "leave out the step");
        }
        if let (Some(most), 1) = (&self.concurrency, self.limit) {
            let remedy = "set a `limit` above 1, or write it at `each`, for how many items run side by side";
            return cx.problems.error(most.span, "`concurrency` is for several links of one document", remedy);
        }
        if self.depth > DEPTH {
            return cx.problems.error(
                cx.place,
                format!("`depth` is at most {DEPTH}"),
                "JSON nests no deeper than 128 levels",
            );
        }
        Some(())
    }

    /// ", at most 5 of each document, 3 deep"
    fn bound(&self) -> String {
        let at_once = self.concurrency.as_ref().map(|most| format!(", {most} at once")).unwrap_or_default();
        let links =
            if self.limit > 1 { format!(", at most {} of each document{at_once}", self.limit) } else { String::new() };
        if self.depth > 1 { format!("{links}, {} deep", self.depth) } else { links }
    }

    fn explain(&self, text: &Located<String>, cx: &mut Compile<'_>) {
        let each = match self.pages.or(self.next.as_ref().map(|_| PAGES)) {
            Some(pages) => pages - 1,
            // The links of a document, theirs, and so on.
            None => (0..self.depth).fold(0_u64, |sum, _| sum.saturating_add(1).saturating_mul(self.limit)),
        };
        let name = self.name.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
        let calls = cx.shape.most().saturating_mul(each);
        if self.pages.is_some() || self.next.is_some() {
            let waits = "a page is read whole; it flows on while the next one is fetched";
            cx.explain(format!("follow {text} from page to page, at most {}", each + 1), Some(waits), calls);
            cx.shape = Shape::Many(cx.shape.most().saturating_mul(each + 1));
        } else {
            let waits = "an item is read whole, and what its link leads to; other items do not wait for it";
            cx.explain(format!("follow {text}{name}{}", self.bound()), Some(waits), calls);
        }
    }
}

struct Following(Arc<Ready>);

struct Ready {
    links: Links,
    /// What of the item the links are relative to.
    part: String,
    name: Option<String>,
    limit: u64,
    depth: u64,
    concurrency: Option<NonZeroUsize>,
    pages: Option<u64>,
    when: Option<Filter>,
    otherwise: Option<Data>,
    rules: Rules,
    timeout: Option<TimeoutSpec>,
    max_body: usize,
    upstreams: Vec<Arc<Upstream>>,
    first: bool,
    /// Whether anybody asks for the status and the fields of a page.
    asked: Asked,
    /// For records.
    noted: Arc<CallingStep>,
    /// How the pages of several answers follow each other.
    order: Order,
    /// Whether a later step follows links.
    notes_base: bool,
}

enum Links {
    Jq(Filter),
    Header(Arc<str>),
}

impl Links {
    fn filter(&self) -> Option<&Filter> {
        match self {
            Links::Jq(filter) => Some(filter),
            Links::Header(_) => None,
        }
    }
}

impl Step for Following {
    fn run(&self, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let (ready, scope) = (self.0.clone(), scope.clone());
        if ready.pages.is_some() {
            return turn(ready, flow, scope);
        }
        flow.map(move |producer| {
            let outcome = match producer.outcome {
                Awaited::Here(outcome) => match ready.begin(outcome, &scope) {
                    Begun::Over(outcome) => Awaited::Here(outcome),
                    Begun::Fetching(item) => Awaited::later(ready.clone().end(item)),
                    Begun::Other(outcome) => Awaited::later(follow(ready.clone(), outcome, scope.clone())),
                },
                Awaited::Later(outcome) => Awaited::later(follow_later(ready.clone(), outcome, scope.clone())),
            };
            Producer { outcome, ..producer }
        })
    }
}

async fn follow_later(ready: Arc<Ready>, outcome: BoxFuture<'static, Outcome>, scope: Arc<Scope>) -> Outcome {
    match ready.begin(outcome.await, &scope) {
        Begun::Over(outcome) => outcome,
        Begun::Fetching(item) => ready.end(item).await,
        // Boxed: items that are at hand would carry the room.
        Begun::Other(outcome) => Box::pin(follow(ready, outcome, scope)).await,
    }
}

/// How far an item is when its link is found.
enum Begun {
    Fetching(Item),
    /// It has to be read, or has several links, or links of links.
    Other(Outcome),
    /// There is nothing to wait for.
    Over(Outcome),
}

/// An item that waits for the document of its one link.
struct Item {
    answer: Answer,
    data: Data,
    fetching: Fetching,
}

async fn follow(ready: Arc<Ready>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
    match outcome? {
        Ok(answer) if answer.is_usable() => {
            Some(ready.embed(answer, scope).await.map_err(|error| error.at_step("follow")))
        }
        other => Some(other),
    }
}

/// What a link led to.
struct Found {
    data: Data,
    base: Option<Base>,
}

impl Found {
    fn nothing() -> Self {
        Found { data: Raw::sound("null".into(), 0).into(), base: None }
    }

    fn document(document: &Document) -> Self {
        Found { data: document.data.clone(), base: Some(document.base.clone()) }
    }

    /// A list of what several links led to.
    fn list(found: Vec<Found>) -> Self {
        let list = Data::list(found.into_iter().map(|found| found.data).collect());
        Found { data: list, base: Some(Base::Several) }
    }
}

/// What became of a link.
enum Reached {
    Document(Arc<Document>),
    /// There is none, and this stands for it.
    Instead(Found),
}

/// Where links are looked for.
struct Site {
    names: Names,
    base: Option<Base>,
    /// The URLs of the documents on the way to this one, without its own.
    trail: Vec<Arc<str>>,
    left: u64,
}

impl Site {
    /// The URL of the document that the links stand in.
    fn url(&self) -> Option<&Arc<str>> {
        match &self.base {
            Some(Base::At(_, url)) => Some(url),
            _ => None,
        }
    }

    /// Whether this document leads here.
    fn was_at(&self, url: &str) -> bool {
        self.trail.iter().chain(self.url()).any(|known| **known == *url)
    }
}

impl Ready {
    /// Starts to fetch what the usual item needs: one that is at hand, with one link.
    fn begin(self: &Arc<Self>, outcome: Outcome, scope: &Arc<Scope>) -> Begun {
        let answer = match outcome {
            Some(Ok(answer)) if answer.is_usable() => answer,
            other => return Begun::Over(other),
        };
        let Links::Jq(links) = &self.links else { return Begun::Other(Some(Ok(answer))) };
        if self.limit > 1 || self.depth > 1 {
            return Begun::Other(Some(Ok(answer)));
        }
        let (answer, data) = match format::open_here(answer) {
            Ok(opened) => opened,
            Err(answer) => return Begun::Other(Some(Ok(answer))),
        };
        let weight = self.when.iter().chain([links]).map(|filter| weigh(filter, &data, &answer.names, scope)).sum();
        let site = Site { names: None, base: self.base(&answer.names), trail: Vec::new(), left: 1 };
        let found = offload::attempt(weight, || self.links(&data, &[], &answer.names, scope));
        let reached = match found {
            None => return Begun::Other(Some(Ok(Answer { body: data.into(), ..answer }))),
            Some(Err(error)) => return Begun::Over(Some(Err(error.at_step("follow")))),
            Some(Ok(links)) if links.len() > 1 => {
                return Begun::Over(Some(Err(self.too_many(&links).at_step("follow"))));
            }
            Some(Ok(links)) => links.first().map(|link| self.reach(link, &site, scope)).transpose(),
        };
        let fetched = match reached.map(Option::flatten) {
            Ok(Some(fetching)) => return Begun::Fetching(Item { answer, data, fetching }),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match self.settle(answer, data.clone(), fetched) {
            Ok((answer, Either::Left(made))) => Begun::Over(finish(answer, made.into_inner())),
            // A large item without a document is put together on a helper thread.
            Ok((answer, Either::Right(_))) => Begun::Other(Some(Ok(Answer { body: data.into(), ..answer }))),
            Err(error) => Begun::Over(Some(Err(error.at_step("follow")))),
        }
    }

    async fn end(self: Arc<Self>, item: Item) -> Outcome {
        let Item { answer, data, fetching } = item;
        let fetched = fetching.await.map(Some);
        match self.settle(answer, data, fetched) {
            Ok((answer, Either::Left(made))) => finish(answer, made.into_inner()),
            Ok((answer, Either::Right(made))) => finish(answer, made.await),
            Err(error) => Some(Err(error.at_step("follow"))),
        }
    }

    /// The item, with what was fetched for it.
    fn settle(
        self: &Arc<Self>,
        mut answer: Answer,
        item: Data,
        fetched: Result<Option<Arc<Document>>, Error>,
    ) -> Result<(Answer, Work<Data>), Error> {
        let found = match self.judge(fetched)? {
            Reached::Document(document) => Found::document(&document),
            Reached::Instead(found) => found,
        };
        answer.redescribe();
        answer.names = self.rebase(answer.names, found.base, item.is_object());
        Ok((answer, self.put(item, found.data)))
    }

    async fn embed(self: Arc<Self>, answer: Answer, scope: Arc<Scope>) -> Result<Answer, Error> {
        let text = format::Text::of(&answer);
        let (mut answer, item) = match format::open_here(answer) {
            Ok(opened) => opened,
            // Boxed: items that are at hand would carry the room.
            Err(answer) => Box::pin(format::open(answer, self.max_body)).await?,
        };
        let links = self.find(&item, &answer.headers, &answer.names, &scope).await;
        let links = links.map_err(|error| format::explain(text.as_ref(), error))?;
        let base = self.base(&answer.names);
        let site = Site { names: answer.names.clone(), base, trail: Vec::new(), left: self.depth };
        let found = self.clone().descend(links, site, scope).await?;
        answer.redescribe();
        answer.names = self.rebase(answer.names, found.base, item.is_object());
        answer.body = self.put(item, found.data).await?.into();
        Ok(answer)
    }

    /// The links in a document; none where `when` says so.
    async fn find(
        self: &Arc<Self>,
        item: &Data,
        headers: &HeaderMap,
        names: &Names,
        scope: &Arc<Scope>,
    ) -> Result<Vec<Value>, Error> {
        let filters = self.when.iter().chain(self.links.filter());
        let weight = filters.map(|filter| weigh(filter, item, names, scope)).sum();
        let links = match &self.links {
            Links::Header(relation) => link::of_header(headers, relation),
            Links::Jq(_) => Vec::new(),
        };
        let here = || self.links(item, &links, names, scope);
        let lent = || {
            let (ready, links) = (self.clone(), links.clone());
            let (item, names, scope) = (item.clone(), names.clone(), scope.clone());
            move || ready.links(&item, &links, &names, &scope)
        };
        offload::run_or(weight, here, lent).await
    }

    fn links(&self, item: &Data, links: &[String], names: &Names, scope: &Scope) -> Result<Vec<Value>, Error> {
        if let Some(when) = &self.when
            && !holds(when, item.clone(), names, scope, Blame::of(when, self.first))?
        {
            return Ok(Vec::new());
        }
        let filter = match &self.links {
            Links::Jq(filter) => filter,
            Links::Header(_) => return Ok(links.iter().map(|link| jq::string(link)).collect()),
        };
        if let Some(link) = filter.pick(item, &mut |name| scope.data(name, names))
            && !link.is_list()
        {
            return Ok(vec![link.into_value()]);
        }
        let links = apply(filter, item.clone(), names, scope, Blame::of(filter, self.first))?;
        let links: Vec<Value> = links
            .into_iter()
            .map(Data::into_value)
            .flat_map(|link| match value::as_list(&link) {
                Some(several) => several.to_vec(),
                None => vec![link],
            })
            .collect();
        Ok(links)
    }

    fn base(&self, names: &Names) -> Option<Base> {
        let names = names.as_deref()?;
        names.base(&self.part).or_else(|| names.base("")).cloned()
    }

    /// The documents of these links: one, or a list where several are allowed.
    fn descend(
        self: Arc<Self>,
        links: Vec<Value>,
        site: Site,
        scope: Arc<Scope>,
    ) -> BoxFuture<'static, Result<Found, Error>> {
        Box::pin(async move {
            if links.len() as u64 > self.limit {
                return Err(self.too_many(&links));
            }
            if self.limit == 1 {
                return match links.first() {
                    Some(link) => self.one(link, &site, &scope).await,
                    None => Ok(Found::nothing()),
                };
            }
            let found = links.iter().map(|link| self.one(link, &site, &scope)).collect();
            let found = self.together(found).await;
            found.into_iter().collect::<Result<Vec<Found>, Error>>().map(Found::list)
        })
    }

    /// What becomes of these, as many at once as may be.
    async fn together<F: Future>(&self, futures: Vec<F>) -> Vec<F::Output> {
        match self.concurrency {
            Some(most) if most.get() < futures.len() => stream::iter(futures).buffered(most.get()).collect().await,
            _ => join_all(futures).await,
        }
    }

    fn too_many(&self, links: &[Value]) -> Error {
        let detail = format!("the item has {} links; the limit is {}", links.len(), self.limit);
        Error::new(Kind::Oversized, detail)
    }

    /// The document of a link and what its own links lead to, or what stands for it.
    async fn one(self: &Arc<Self>, link: &Value, site: &Site, scope: &Arc<Scope>) -> Result<Found, Error> {
        let document = match self.document(link, site, scope).await? {
            Reached::Document(document) => document,
            Reached::Instead(found) => return Ok(found),
        };
        let own = Found::document(&document);
        let links = match site.left {
            0 | 1 => return Ok(own),
            _ => self.find(&document.data, &document.headers, &site.names, scope).await?,
        };
        let trail = site.trail.iter().chain(site.url()).cloned().collect();
        let (names, base) = (site.names.clone(), Some(document.base.clone()));
        let below = Site { names, base, trail, left: site.left - 1 };
        let found = self.clone().descend(links, below, scope.clone()).await?;
        match (&self.name, found.data.is_null()) {
            // The chain ends with this document.
            (None, true) => Ok(own),
            (None, false) => Ok(found),
            (Some(_), _) => Ok(Found { data: self.put(own.data, found.data).await?, base: own.base }),
        }
    }

    /// The document of a link, or what stands for it.
    async fn document(&self, link: &Value, site: &Site, scope: &Arc<Scope>) -> Result<Reached, Error> {
        let fetched = match self.reach(link, site, scope) {
            Ok(Some(fetching)) => fetching.await.map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        self.judge(fetched)
    }

    fn judge(&self, fetched: Result<Option<Arc<Document>>, Error>) -> Result<Reached, Error> {
        let instead = |data| Reached::Instead(Found { data, base: None });
        let document = match fetched {
            Ok(None) => return Ok(Reached::Instead(Found::nothing())),
            Ok(Some(document)) => match self.rule(&document) {
                ControlFlow::Break(ruled) => return ruled.map(instead),
                ControlFlow::Continue(used) => used.map(|_| document),
            },
            Err(error) => Err(error),
        };
        match (document, &self.otherwise) {
            (Err(_), Some(otherwise)) => Ok(instead(otherwise.clone())),
            (document, _) => document.map(Reached::Document),
        }
    }

    /// What becomes of a document by its status.
    fn rule(&self, document: &Document) -> ControlFlow<Result<Data, Error>, Result<Data, Error>> {
        let name = |error: Error| match &document.base {
            Base::At(upstream, _) => error.of_upstream(upstream),
            Base::Several => error,
        };
        self.rules.rule(document).map_break(|ruled| ruled.map_err(name)).map_continue(|used| used.map_err(name))
    }

    /// `None` for no link, and for one that leads back to where it was found.
    fn reach(&self, link: &Value, site: &Site, scope: &Arc<Scope>) -> Result<Option<Fetching>, Error> {
        match self.place(link, site.base.as_ref())? {
            Some(place) if !site.was_at(&place.url) => self.fetch(place, scope).map(Some),
            _ => Ok(None),
        }
    }

    fn place(&self, link: &Value, base: Option<&Base>) -> Result<Option<Place>, Error> {
        let text = match value::shape(link) {
            Kinds::Null => return Ok(None),
            _ => jq::as_str(link),
        };
        let wrong = || Error::new(Kind::Expression, format!("a link is text, not {}", jq::kind(link)));
        // Against this, only absolute links are URLs.
        let (from, base) = match base {
            Some(Base::At(upstream, url)) => (&**upstream, &**url),
            Some(Base::Several) | None => ("", "none:"),
        };
        link::resolve(&self.upstreams, from, base, text.ok_or_else(wrong)?).map(Some)
    }

    /// Fetches a document, or waits with others who asked for it.
    fn fetch(&self, place: Place, scope: &Arc<Scope>) -> Result<Fetching, Error> {
        let (mut headers, host) = (place.upstream.fields(scope, Likeness::Other)?, place.upstream.host(scope));
        ask_whole(&mut headers, &Method::GET);
        let key = key(&place, &headers);
        let keeping = place.upstream.keeping(scope, &headers)?;
        let start = || {
            let timeouts = self.timeout.as_ref().map(|spec| Arc::new(spec.over(place.upstream.timeouts())));
            let (deadline, received, bound) = (scope.deadline(), scope.version(), self.max_body);
            let note = scope.record().map(|record| CallNote::new(record, &self.noted));
            let (target, root) = (place.target, Root::Server);
            let call = Call { headers, timeouts, deadline, root, host, received, keeping, note, ..Call::get(target) };
            let name = place.upstream.name().clone();
            let base = Base::At(name, place.url.into());
            let calling = place.upstream.call(call);
            async move {
                match calling.await {
                    Ok(answer) => read(answer, base, bound).await,
                    Err(error) => Err(error),
                }
            }
        };
        Ok(scope.memo().fetch(key, start))
    }

    /// The item with what was found in it: bytes beside bytes, unless the item has been parsed for an expression.
    fn put(self: &Arc<Self>, item: Data, found: Data) -> Work<Data> {
        if self.name.is_none() {
            return Either::Left(future::ready(Ok(found)));
        }
        // Where both are bytes they are copied, but for objects that are parsed already.
        let weight = item.weight() + found.weight();
        let here = || self.embedded(item.clone(), found.clone());
        let lent = || {
            let (ready, item, found) = (self.clone(), item.clone(), found.clone());
            move || ready.embedded(item.clone(), found.clone())
        };
        offload::run_or(weight, here, lent)
    }

    fn embedded(&self, item: Data, found: Data) -> Result<Data, Error> {
        let Some(name) = &self.name else { return Ok(found) };
        if let (Data::Json(item), Data::Json(found)) = (&item, &found)
            && !item.is_parsed()
            && let Some(joined) = item.with(name, found)
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
        Data::made(value::fields_of(fields))
    }

    /// Notes where what was found came from.
    fn rebase(&self, names: Names, base: Option<Base>, object: bool) -> Names {
        let Some(base) = base.filter(|_| self.notes_base) else { return names };
        let mut known: Named = names.as_deref().cloned().unwrap_or_default();
        match &self.name {
            Some(name) if object => known.set_base(name, base),
            _ => known.set_document(base),
        }
        Some(Arc::new(known))
    }
}

fn finish(answer: Answer, made: Result<Data, Error>) -> Outcome {
    Some(match made {
        Ok(data) => Ok(Answer { body: data.into(), ..answer }),
        Err(error) => Err(error.at_step("follow")),
    })
}

/// Whom a document is for is part of what it is.
fn key(place: &Place, headers: &HeaderMap) -> Vec<u8> {
    let mut key = [place.upstream.name().as_bytes(), b"\n", place.target.as_bytes(), b"\n"].concat();
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"] {
            key.extend_from_slice(part);
        }
    }
    key
}

async fn read(answer: Answer, base: Base, bound: usize) -> Fetched {
    let name = |error: Error| match &base {
        Base::At(upstream, _) => error.of_upstream(upstream),
        Base::Several => error,
    };
    let Answer { status, headers, body, lists, .. } = answer;
    let (data, size) = match body.collect(bound).await {
        Ok(bytes) => {
            let size = bytes.len();
            (format::document(status, &headers, lists, bytes, bound).await, size)
        }
        Err(error) => (Err(error), 0),
    };
    let (data, size) = match data {
        Ok(data) => (data, size),
        Err(error) if status.is_success() => return Err(name(error)),
        // What is no document need not be readable.
        Err(_) => (jq::null().into(), 0),
    };
    Ok(Arc::new(Document { status, data, headers, base, size }))
}

/// Whether a value nests no deeper than so many levels.
fn nests(value: &Value, levels: usize) -> bool {
    let within = |inner: &Value| levels > 0 && nests(inner, levels - 1);
    match value::shape(value) {
        Kinds::List(items) => levels > 0 && items.iter().all(within),
        Kinds::Object(fields) => levels > 0 && fields.values().all(within),
        _ => true,
    }
}

/// Each answer, and the pages that follow it.
fn turn(ready: Arc<Ready>, flow: Flow, scope: Arc<Scope>) -> Flow {
    let (at_once, order) = (flow.at_once(), ready.order);
    let begin: Begin = Box::new(move |producer| {
        let (ready, scope, left) = (ready.clone(), scope.clone(), ready.pages.unwrap_or(PAGES));
        Box::pin(Pages { ready, scope, next: Next::First(producer), seen: Vec::new(), left }.begin())
    });
    // One more than flows on: the next page is fetched meanwhile.
    Flow::stream(interleave(flow.drive(order, begin), order, at_once), at_once.max(2))
}

type Begin = Box<dyn FnMut(Producer) -> BoxFuture<'static, BoxStream<'static, Producer>> + Send>;

/// The pages of one answer.
struct Pages {
    ready: Arc<Ready>,
    scope: Arc<Scope>,
    next: Next,
    seen: Vec<String>,
    left: u64,
}

enum Next {
    First(Producer),
    Page(Place, Names),
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
        let (id, outcome) = match std::mem::replace(&mut self.next, Next::None) {
            Next::None => return None,
            Next::First(producer) => (producer.id, producer.outcome.await?),
            Next::Page(place, names) => (self.scope.next_producer(), self.fetch(place, names).await),
            Next::Failed(error) => (self.scope.next_producer(), Err(error)),
        };
        let outcome = match outcome {
            Ok(answer) if answer.is_usable() => self.open(answer).await,
            other => other,
        };
        let outcome = outcome.map_err(|error| error.at_step("follow"));
        Some((Producer::here(id, Some(outcome)), self))
    }

    async fn fetch(&mut self, place: Place, names: Names) -> Result<Answer, Error> {
        let upstream = Some(place.upstream.name().clone());
        let fetched = match self.ready.fetch(place, &self.scope) {
            Ok(fetching) => fetching.await,
            Err(error) => Err(error),
        };
        let mut names = names;
        self.ready.asked.note_document(&mut names, &fetched);
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
        let mut known: Named = names.as_deref().cloned().unwrap_or_default();
        known.set_document(document.base.clone());
        let (headers, names) = (document.headers.clone(), Some(Arc::new(known)));
        // What is used counts as one whose status is 2xx.
        Ok(Answer { headers, names, upstream, ..Answer::of_value(document.data.clone()) })
    }

    /// Reads a page, and finds where the next one is.
    async fn open(&mut self, answer: Answer) -> Result<Answer, Error> {
        let text = format::Text::of(&answer);
        let (mut answer, page) = format::open(answer, self.ready.max_body).await?;
        self.left -= 1;
        let next = self.find(&page, &answer.headers, &answer.names).await;
        self.next = match next {
            Ok(Some(_)) if self.left == 0 => {
                let pages = self.ready.pages.unwrap_or(PAGES);
                Next::Failed(Error::new(Kind::Oversized, format!("there are more than {pages} pages")))
            }
            Ok(Some(place)) => Next::Page(place, answer.names.clone()),
            Ok(None) => Next::None,
            Err(error) => Next::Failed(format::explain(text.as_ref(), error)),
        };
        answer.redescribe();
        answer.body = page.into();
        Ok(answer)
    }

    /// The next page, unless it has been seen: loops end.
    async fn find(&mut self, page: &Data, headers: &HeaderMap, names: &Names) -> Result<Option<Place>, Error> {
        let links = self.ready.find(page, headers, names, &self.scope).await?;
        let base = self.ready.base(names);
        if let Some(Base::At(_, url)) = &base {
            self.seen.push(url.to_string());
        }
        let place = links.first().map(|link| self.ready.place(link, base.as_ref())).transpose()?.flatten();
        Ok(place.filter(|place| !self.seen.contains(&place.url)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_to_its_bound() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels)).into_bytes();
        let value = json::read(&nested(100).into()).expect("JSON");
        assert!(nests(&value, 100) && !nests(&value, 99));
    }
}
