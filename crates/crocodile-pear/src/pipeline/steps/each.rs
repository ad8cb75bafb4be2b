//! `each`: the items of a list, each handed on while the list still arrives.

use std::future::ready;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Context, Poll};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use http::header::{CONTENT_TYPE, HeaderValue};

use crate::config::problem::Problems;
use crate::config::spec::{Decode, Definitions, ExpressionSpec, Json, Located, Node, Size, only};
use crate::error::{Error, Kind};
use crate::format;
use crate::format::charset::Recoder;
use crate::format::list::{self, OpenedList};
use crate::http::http1::AnswerFields;
use crate::jq::{Data, Filter};
use crate::json;
use crate::json::Raw;
use crate::json::items::Path;
use crate::message::answer::Answer;
use crate::message::body::{AnswerBody, PulledBody};
use crate::message::names::{NamedResults, Names};
use crate::offload;
use crate::pipeline::flow::{Flow, Order, Producer, ReadBytes, interleave, turns};
use crate::pipeline::step::{About, Compile, FaultSource, MAX_BODY, ReadyStep, Shape, Spec, apply, part, weigh};
use crate::request::context::Scope;
use crate::spec;

spec! {
    /// Makes one item of each element of a list. Short form: the expression.
    ///
    /// A path that ends in `[]` (`.[]`, `.cases[]`, `.a.b[]`) is read while the body arrives: each item flows on as
    /// soon as it is complete, and the list is never held in memory. The items of an object are its values. `.[]`
    /// also gives the lines of NDJSON, the rows of CSV and the events of a stream, one by one. For other expressions
    /// and other formats, the body is read whole, within `max_body`.
    ///
    /// If a list is cut off, is not valid JSON or has more items than `limit`, the items before that point flow on,
    /// followed by one failed item that says why. An answer with a status other than 2xx passes unchanged.
    ///
    /// Several lists are read at the same time, so a list that hangs does not delay the others. With `concatenate` in
    /// `order: request`, or with `merge`, the lists follow one another. The items of one list keep their order.
    pub struct Each {
        /// An expression that gives the items.
        #[name = "in"]
        pub items: ExpressionSpec,
        /// The maximum number of items of one list. One more is a failed item, and the rest is not read. `none` means
        /// no limit. Default: 1000, but no limit for server-sent events and NDJSON, which may be endless streams.
        pub limit: Option<Limit>,
        /// The maximum number of items in the following steps at the same time.
        pub concurrency: NonZeroUsize = AT_ONCE,
        /// The most bytes of one item, or of the body if it is read whole.
        pub max_body: Size = MAX_BODY,
    }
    short(short)
}

/// How many items a list may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most so many.
    Most(u64),
    /// All items that it has.
    None,
}

impl Decode for Limit {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_text().as_ref().map(Located::as_str) {
            Some("none") => Some(Limit::None),
            Some(text) if text.starts_with(char::is_alphabetic) => node.wrong("a whole number or `none`", "", problems),
            _ => u64::decode(node, problems).map(Limit::Most),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        serde_json::json!({"anyOf": [{"const": "none"}, u64::schema(definitions)]})
    }
}

impl Limit {
    fn most(self) -> u64 {
        match self {
            Limit::Most(most) => most,
            Limit::None => u64::MAX,
        }
    }
}

/// Items of a list, unless it is set.
const LIMIT: Limit = Limit::Most(1000);

/// An inbox at once; an upstream that bears less says so with `in_flight`.
const AT_ONCE: NonZeroUsize = NonZeroUsize::new(512).expect("more than none");

fn short(text: Located<String>, problems: &mut Problems) -> Option<Each> {
    only([("in", text)], problems)
}

impl Each {
    /// Items by this expression.
    pub fn of(items: ExpressionSpec) -> Self {
        Each { items, limit: None, concurrency: AT_ONCE, max_body: MAX_BODY }
    }
}

impl Spec for Each {
    fn about(&self) -> About {
        About { replaces: true, ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let written = &self.items.0;
        if !cx.flow.item {
            let remedy = "begin with a `request`, or give the items to its `for_each`";
            return cx.problems.error(written.span, "`each` has no list before it", remedy);
        }
        if cx.flow.joined {
            let remedy = "leave `concatenate` out, or move it behind `each`";
            return cx.problems.error(written.span, "`each` takes apart what `concatenate` has joined", remedy);
        }
        let filter = cx.filter(&self.items)?;
        let path = Path::parse(written.as_str()).map(Arc::new);
        let items = format!("{}[]", written.as_str().trim_end());
        if path.is_none() && Path::parse(&items).is_some() {
            let message = format!("`{written}` is one item: the list itself");
            return cx.problems.error(written.span, message, format!("write `{items}` for its items"));
        }
        cx.flow.shape = Shape::Many(cx.flow.shape.most().saturating_mul(self.limit.unwrap_or(LIMIT).most()));
        cx.found.endless |= self.limit == Some(Limit::None);
        let waits = if path.is_some() { None } else { Some("the body is read whole: this is no plain path to a list") };
        let at_once = match self.concurrency {
            AT_ONCE => String::new(),
            some => format!(", {some} at once"),
        };
        let most = match self.limit.unwrap_or(LIMIT) {
            Limit::Most(most) => format!("at most {most}"),
            Limit::None => "no limit".to_owned(),
        };
        cx.explain(format!("each of {written}, {most}{at_once}"), waits, 0);
        let (fault_source, part) =
            (FaultSource::from_filter(&filter, cx.flow.first), part(written.as_str()).to_owned());
        let (limit, at_once, max_body) = (self.limit, self.concurrency.get(), self.max_body.bytes());
        let order = cx.ahead.order;
        Some(Arc::new(Division { filter, path, part, fault_source, limit, at_once, max_body, order }))
    }
}

struct Division {
    filter: Filter,
    /// Where the expression is a plain path.
    path: Option<Arc<Path>>,
    /// The part of the item before in which the list stands.
    part: String,
    fault_source: FaultSource,
    /// The limit as written: the default of a list depends on its format.
    limit: Option<Limit>,
    at_once: usize,
    max_body: usize,
    /// How the items of several lists follow each other.
    order: Order,
}

impl ReadyStep for Division {
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let (order, at_once) = (self.order, self.at_once);
        let (scope, read) = (scope.clone(), ReadBytes::default());
        let counted = read.clone();
        let open: ListOpener =
            Box::new(move |producer| Box::pin(self.clone().open(producer, scope.clone(), counted.clone())));
        let lists_at_once = flow.at_once();
        let lists = flow.drive(order, open);
        Flow::stream(turns(interleave(lists, order, lists_at_once), read), at_once)
    }
}

type ListOpener = Box<dyn FnMut(Producer) -> Pin<Box<dyn Future<Output = ProducerStream> + Send>> + Send>;
type ProducerStream = BoxStream<'static, Producer>;

impl Division {
    /// The items of one producer's list.
    async fn open(self: Arc<Self>, producer: Producer, scope: Arc<Scope>, read: ReadBytes) -> ProducerStream {
        let alone = |id, outcome| stream::once(ready(Producer::here(id, Some(outcome)))).boxed();
        let id = producer.id;
        match producer.outcome.await {
            None => stream::empty().boxed(),
            Some(Ok(answer)) if answer.is_usable() => self.divide(answer, scope, read).await,
            Some(other) => alone(id, other),
        }
    }

    async fn divide(self: Arc<Self>, answer: Answer, scope: Arc<Scope>, read: ReadBytes) -> ProducerStream {
        let source = ItemSource { names: self.rebase(&answer.names), upstream: answer.upstream.clone(), scope, read };
        match &self.path {
            Some(path) if format::is_document(&answer) => {
                self.stream(json::items::Items::at(path.clone(), self.max_body), answer, source)
            }
            Some(path) if path.is_root() => match list::open(answer, self.max_body).await {
                Ok(OpenedList::List(list)) => self.deal(list, source),
                Ok(OpenedList::Whole(answer)) => self.clone().whole(answer, source).await,
                Err(error) => stream::iter([source.producer(Err(error))]).boxed(),
            },
            _ => self.clone().whole(answer, source).await,
        }
    }

    /// Links in the items are relative to the document that the list stands in.
    fn rebase(&self, names: &Names) -> Names {
        let base = names.as_deref().and_then(|names| names.base(&self.part)).cloned();
        match (base, names) {
            (Some(base), Some(names)) => {
                let mut names = NamedResults::clone(names);
                names.set_document(base);
                Some(Arc::new(names))
            }
            _ => names.clone(),
        }
    }

    fn stream(&self, items: json::items::Items, answer: Answer, source: ItemSource) -> ProducerStream {
        let recoder = Recoder::new(&answer.headers);
        match recoder.and_then(|recoder| Ok((recoder, answer.body.into_pulled()?))) {
            Ok((recoder, body)) => {
                let document = Some(ListDocument { items, recoder, body });
                Dealing { document, bound: ItemBound::new(self.limit.unwrap_or(LIMIT)), source }.boxed()
            }
            Err(error) => stream::iter([source.producer(Err(error))]).boxed(),
        }
    }

    fn deal(&self, list: list::List, source: ItemSource) -> ProducerStream {
        let limit = match self.limit {
            None if list.is_stream() => Limit::None,
            limit => limit.unwrap_or(LIMIT),
        };
        let reading = ArrivingList { list: Some(Box::new(list)), bound: ItemBound::new(limit) };
        let items = stream::unfold(reading, ArrivingList::next);
        items.map(move |item| source.producer(item)).boxed()
    }

    /// The items that an expression finds in the whole body.
    async fn find(self: Arc<Self>, answer: Answer, names: Names, scope: Arc<Scope>) -> Result<Vec<Data>, Error> {
        let data = format::data(answer, self.max_body).await?;
        let weight = weigh(&self.filter, &data, &names, &scope);
        offload::run(weight, move || apply(&self.filter, data.clone(), &names, &scope, self.fault_source)).await
    }

    async fn whole(self: Arc<Self>, answer: Answer, source: ItemSource) -> ProducerStream {
        let text = format::Text::from_answer(&answer);
        let items = self.clone().find(answer, source.names.clone(), source.scope.clone()).await;
        let items = items.map_err(|error| format::explain(text.as_ref(), error));
        let items = match items {
            Ok(items) => items,
            Err(error) => return stream::iter([source.producer(Err(error))]).boxed(),
        };
        let limit = self.limit.unwrap_or(LIMIT).most();
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let over = (items.len() > most).then(|| Err(too_many(limit).at_end_of_list()));
        let items = items.into_iter().take(most).map(|item| Ok(item.into())).chain(over);
        stream::iter(items).map(move |item| source.producer(item)).boxed()
    }
}

fn too_many(limit: u64) -> Error {
    Error::new(Kind::Oversized, format!("the list has more than {limit} items"))
}

/// Where items came from.
struct ItemSource {
    names: Names,
    upstream: Option<Arc<str>>,
    scope: Arc<Scope>,
    read: ReadBytes,
}

impl ItemSource {
    fn producer(&self, item: Result<AnswerBody, Error>) -> Producer {
        self.read.add(item.as_ref().ok().and_then(AnswerBody::length).unwrap_or(0));
        let outcome = match item {
            Ok(body) => Ok(self.answer(body)),
            Err(error) => Err(self.name(error).at_step("each")),
        };
        Producer::here(self.scope.next_producer(), Some(outcome))
    }

    fn answer(&self, body: AnswerBody) -> Answer {
        // What is known to be JSON needs no field that says so.
        let mut headers = AnswerFields::default();
        if !matches!(body, AnswerBody::Json(_) | AnswerBody::Value(_)) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let (names, upstream) = (self.names.clone(), self.upstream.clone());
        Answer { names, upstream, ..Answer::new(http::StatusCode::OK, headers, body) }
    }

    fn name(&self, error: Error) -> Error {
        match &self.upstream {
            Some(upstream) => error.of_upstream(upstream),
            None => error,
        }
    }
}

/// The list at a path of a JSON document, while it arrives.
struct ListDocument {
    items: json::items::Items,
    recoder: Recoder,
    body: PulledBody,
}

impl ListDocument {
    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<AnswerBody>, Error>> {
        loop {
            if let Some(item) = self.items.next()? {
                return Poll::Ready(Ok(Some(sound(item, self.items.depth()))));
            }
            match task::ready!(crate::message::body::poll_data(&mut self.body, cx)) {
                Some(chunk) => self.items.push(self.recoder.push(chunk?)?),
                None => {
                    self.recoder.finish()?;
                    return Poll::Ready(Ok(self.items.finish()?.map(AnswerBody::Bytes)));
                }
            }
        }
    }
}

/// Its items, each a producer.
struct Dealing {
    /// Given up with the first fault, and at the end.
    document: Option<ListDocument>,
    bound: ItemBound,
    source: ItemSource,
}

impl Stream for Dealing {
    type Item = Producer;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Producer>> {
        let Some(document) = &mut self.document else { return Poll::Ready(None) };
        let item = task::ready!(document.poll_item(cx)).transpose().map(|item| self.bound.admit(item));
        if !matches!(item, Some(Ok(_))) {
            self.document = None;
        }
        Poll::Ready(item.map(|item| self.source.producer(item)))
    }
}

/// The body of an item, which is not checked again if it was checked as a part of the list.
fn sound(item: Bytes, depth: Option<u8>) -> AnswerBody {
    match depth {
        Some(depth) => AnswerBody::Json(Raw::sound(item, depth)),
        None => AnswerBody::Bytes(item),
    }
}

/// How many items may come.
struct ItemBound {
    left: u64,
    limit: u64,
}

impl ItemBound {
    fn new(limit: Limit) -> Self {
        ItemBound { left: limit.most(), limit: limit.most() }
    }

    /// The item, or why the list ends here.
    fn admit(&mut self, item: Result<AnswerBody, Error>) -> Result<AnswerBody, Error> {
        let item = match item {
            Ok(_) if self.left == 0 => Err(too_many(self.limit).at_end_of_list()),
            Err(error) if self.left < self.limit => Err(error.at_end_of_list()),
            item => item,
        };
        self.left = self.left.saturating_sub(1);
        item
    }
}

/// A body that is a list itself, in any format, while it arrives. Nothing is read before the items at hand were asked for.
struct ArrivingList {
    /// Given up with the first fault.
    list: Option<Box<list::List>>,
    bound: ItemBound,
}

impl ArrivingList {
    async fn next(mut self) -> Option<(Result<AnswerBody, Error>, Self)> {
        let item = self.list.as_mut()?.item().await.map(|item| item.map(AnswerBody::Bytes)).transpose()?;
        let item = self.bound.admit(item);
        if item.is_err() {
            self.list = None;
        }
        Some((item, self))
    }
}
