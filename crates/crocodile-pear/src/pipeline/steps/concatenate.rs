//! `concatenate`: one answer of many, item by item, streamed as they come.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::{BoxFuture, Either};
use futures_util::stream::{Stream, StreamExt};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use http_body::Frame;

use crate::choice;
use crate::config::spec::Size;
use crate::error::{Error, Kind};
use crate::format::{self, LineBreaks, sse};
use crate::jq;
use crate::json;
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::offload::{self, Work};
use crate::pipeline::flow::{Awaited, Flow, Gate, Gated, HeldBodies, Order, Outcome, Producer, Taken};
use crate::pipeline::step::status::{failure, refuse};
use crate::pipeline::step::{About, Compile, MAX_BODY, ReadyStep, Shape, Spec};
use crate::request::context::Scope;
use crate::spec;

spec! {
    /// Makes one answer of all items. Each item is sent as soon as it is complete. The status of the answer is sent
    /// with the first item that did not fail, or after 64 KiB of failed items. If all items fail, the answer has the
    /// status of the first of them in the order of the calls. An answer with a status other than 2xx has failed, unless
    /// `on_status` of its call passes it. An item is read whole, within `max_body`, before it is sent, so that no
    /// upstream can write into another's item.
    pub struct Concatenate {
        /// The format of the answer.
        #[name = "as"]
        pub form: As = As::Json,
        /// `true`: an item is the body alone. `false`: an item is `{"status", "headers", "body"}`.
        pub body_only: bool = false,
        /// The order of the items.
        pub order: ItemOrder = ItemOrder::Arrival,
        /// The treatment of an item that failed: its call got no answer, or a status other than 2xx, or a step failed on
        /// it. A list that ends early is not an item that failed: `skip` and `null` end it with a problem document, too.
        /// A list ends early if it has more pages than `pages` or more items than `limit`, or if its upstream breaks off.
        pub on_error: OnError = OnError::Keep,
        /// The most bytes of one item's body.
        pub max_body: Size = MAX_BODY,
    }
}

choice! {
    /// The form of a concatenated answer.
    pub enum As {
        /// A JSON list, `application/json`.
        Json = "json",
        /// A JSON value per line, `application/x-ndjson`.
        Ndjson = "ndjson",
        /// An event per item, `text/event-stream`. With `body_only`, an object that has `data`, at least one of
        /// `event`, `id` and `retry`, and nothing else becomes that event. Any other value becomes the data of an
        /// event.
        Sse = "sse",
    }
}

choice! {
    /// The order of the items of a concatenated answer.
    pub enum ItemOrder {
        /// The order in which they become ready.
        Arrival = "arrival",
        /// In the order of the calls.
        Request = "request",
    }
}

impl From<ItemOrder> for Order {
    fn from(order: ItemOrder) -> Self {
        match order {
            ItemOrder::Arrival => Order::Arrival,
            ItemOrder::Request => Order::Request,
        }
    }
}

choice! {
    /// The treatment of an item that failed.
    pub enum OnError {
        /// The item says what went wrong. With `body_only` it is a problem document (RFC 9457); without, an answer with
        /// a status other than 2xx keeps its status, its fields and its body.
        Keep = "keep",
        /// The item is left out.
        Skip = "skip",
        /// The item is null.
        Null = "null",
        /// The whole answer fails: with an error status before its first item, broken off after it.
        Fail = "fail",
        /// The whole answer fails, with an error status if it is at most 1 MiB: nothing is sent before all items are
        /// there. Of a larger one, the first 1 MiB waits, and a later failure breaks the answer off.
        Strict = "strict",
    }
}

impl OnError {
    /// Whether an item that failed ends the whole answer.
    fn ends_all(self) -> bool {
        matches!(self, OnError::Fail | OnError::Strict)
    }
}

impl Default for Concatenate {
    fn default() -> Self {
        crate::config::spec::defaults()
    }
}

impl Spec for Concatenate {
    fn about(&self) -> About {
        let (order, gives_events) = (Some(self.order.into()), self.form == As::Sse);
        About { needs_items: true, joins: true, gives_events, order, ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        cx.flow.shape = Shape::One;
        cx.flow.joined = true;
        let waits = match self.order {
            ItemOrder::Arrival => "each item is read whole before it is sent on",
            ItemOrder::Request => "each item is read whole, and waits for those before it",
        };
        let order = self.order.word();
        cx.explain(format!("concatenate as {}, in order of {order}", self.form.word()), Some(waits), 0);
        Some(Arc::new(self))
    }
}

impl ReadyStep for Concatenate {
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        Flow::one(scope.next_producer(), concatenate(flow, self))
    }
}

/// Room that is made at once for an item.
const SIZE: usize = 64 << 10;

/// The most bytes of failed items that wait for one that did not fail.
const HELD: usize = 64 << 10;

/// The most bytes of items that wait until all are there, with `strict`: so much of an answer can still become an error.
const STRICT: usize = 1 << 20;

/// Starts the flow and answers when its first item is there.
pub(crate) async fn concatenate(flow: Flow, spec: Arc<Concatenate>) -> Outcome {
    let order = spec.order.into();
    let (form, gate) = (spec.clone(), Gate::default());
    let take: Take = Box::new(move |producer| take(producer, &form, &gate));
    let mut items = flow.drive_at_once(order, take);
    let (mut held, mut size, mut failed) = (Vec::new(), 0, None);
    let strict = spec.on_error == OnError::Strict;
    let most = if strict { STRICT } else { HELD };
    let (failure, whole) = loop {
        match items.next().await {
            None => break (failed.map(|(_, error)| error), true),
            Some((OutputItem { failure: Some(error), .. }, _)) if spec.on_error.ends_all() => return Some(Err(error)),
            Some((item, _held)) => {
                let good = !strict && item.text.is_some() && item.failure.is_none();
                failed = first(failed, item.id, item.failure.as_ref());
                size += item.text.as_ref().map_or(0, Vec::len);
                held.extend(item.text);
                if good || size > most {
                    break (None, false);
                }
            }
        }
    };
    let headers = spec.headers();
    let body = Concatenation { held: held.into_iter(), items, spec, state: OutputState::Empty };
    let body = if whole { AnswerBody::Bytes(body.whole()) } else { AnswerBody::Pulled(Box::pin(body)) };
    let status = failure.as_ref().map_or(StatusCode::OK, Error::status);
    Some(Ok(Answer { failure, ..Answer::new(status, headers, body) }))
}

/// The failure of the first item, whichever arrived first: the same requests have the same status.
fn first(known: Option<(u32, Error)>, id: u32, failed: Option<&Error>) -> Option<(u32, Error)> {
    let new = failed.map(|error| (id, error.clone()));
    known.into_iter().chain(new).min_by_key(|(id, _)| *id)
}

impl Concatenate {
    fn headers(&self) -> HeaderMap {
        let media = match self.form {
            As::Json => "application/json",
            As::Ndjson => "application/x-ndjson",
            As::Sse => "text/event-stream",
        };
        let mut headers = HeaderMap::with_capacity(2);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        if self.form == As::Sse {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        headers
    }

    fn lines(&self) -> LineBreaks {
        if self.form == As::Json { LineBreaks::Kept } else { LineBreaks::Joined }
    }

    /// The text before an item. A list's first byte is set when its place in the list is known.
    fn opening(&self) -> &'static [u8] {
        match self.form {
            As::Json => b",",
            As::Ndjson => b"",
            // It is made an event when it is whole.
            As::Sse => b"",
        }
    }

    /// The text of an item that is whole.
    fn close(&self, mut text: Vec<u8>) -> Vec<u8> {
        match self.form {
            As::Json => text,
            As::Ndjson => {
                text.push(b'\n');
                text
            }
            As::Sse => {
                let mut event = Vec::with_capacity(text.len() + 8);
                sse::write(&text, &mut event);
                event
            }
        }
    }
}

type Take = Box<dyn FnMut(Producer) -> Taken<Gated<BoxFuture<'static, OutputItem>>> + Send>;

/// Takes an outcome; one that is in memory is written at once.
fn take(producer: Producer, spec: &Arc<Concatenate>, gate: &Gate) -> Taken<Gated<BoxFuture<'static, OutputItem>>> {
    let id = producer.id;
    match producer.outcome {
        Awaited::Here(outcome) => match item_here(id, outcome, spec) {
            ControlFlow::Break(item) => Taken::Here((item, HeldBodies::default())),
            ControlFlow::Continue(outcome) => Taken::Later(gate.pass(Box::pin(item(id, outcome, spec.clone())))),
        },
        Awaited::Later(outcome) => Taken::Later(gate.pass(Box::pin(item_later(id, outcome, spec.clone())))),
    }
}

async fn item_later(id: u32, outcome: BoxFuture<'static, Outcome>, spec: Arc<Concatenate>) -> OutputItem {
    match item_here(id, outcome.await, &spec) {
        ControlFlow::Break(item) => item,
        // Boxed: items in memory would carry the room.
        ControlFlow::Continue(outcome) => Box::pin(item(id, outcome, spec)).await,
    }
}

/// The usual item, a small JSON body in memory; gives any other back unchanged.
fn item_here(id: u32, outcome: Outcome, spec: &Concatenate) -> ControlFlow<OutputItem, Outcome> {
    if !spec.body_only || spec.form == As::Sse {
        return ControlFlow::Continue(outcome);
    }
    let answer = match outcome {
        Some(Ok(answer)) if answer.is_usable() => answer,
        other => return ControlFlow::Continue(other),
    };
    let length = answer.body.length().and_then(|length| usize::try_from(length).ok()).unwrap_or(64);
    let mut text = Vec::with_capacity(length.min(SIZE) + 1);
    text.extend_from_slice(spec.opening());
    match format::splice_here(&answer, spec.max_body.bytes(), spec.lines(), &mut text) {
        Some(Ok(())) => ControlFlow::Break(OutputItem { id, text: Some(spec.close(text)), failure: None }),
        Some(Err(_)) | None => ControlFlow::Continue(Some(Ok(answer))),
    }
}

/// An item, ready to be sent. Without a text, it is left out.
struct OutputItem {
    /// The number of the item; items that were asked for first have the smaller ones.
    id: u32,
    text: Option<Vec<u8>>,
    /// Why it failed, if it did.
    failure: Option<Error>,
}

/// Reads one answer to its end.
async fn item(id: u32, outcome: Outcome, spec: Arc<Concatenate>) -> OutputItem {
    let mut text = spec.opening().to_vec();
    let (written, mut failure) = match outcome {
        None => return OutputItem { id, text: None, failure: None },
        Some(Ok(answer)) if answer.is_usable() => (write(answer, &spec, &mut text).await, None),
        // It says itself what it is.
        Some(Ok(answer)) if spec.on_error == OnError::Keep && !spec.body_only => {
            let refused = refusal(&answer);
            match write(answer, &spec, &mut text).await {
                // What it says of itself cannot be read: its status still can.
                Err(error) if error.kind() == Kind::Malformed => (Err(refused), None),
                written => (written, Some(refused)),
            }
        }
        Some(Ok(answer)) => (Err(refuse(answer).await), None),
        Some(Err(error)) => (Err(error), None),
    };
    if let Err(error) = written {
        let error = error.at_step("concatenate");
        tracing::debug!(target: "crocodile_pear::steps", %error, "an item failed");
        text.truncate(spec.opening().len());
        match spec.on_error {
            OnError::Null if !error.ends_list() => text.extend_from_slice(b"null"),
            OnError::Skip if !error.ends_list() => return OutputItem { id, text: None, failure: Some(error) },
            OnError::Fail | OnError::Strict => return OutputItem { id, text: None, failure: Some(error) },
            OnError::Keep | OnError::Skip | OnError::Null => problem(&error, &spec, &mut text),
        }
        return OutputItem { id, text: Some(spec.close(text)), failure: Some(error) };
    }
    match close(spec, text).await {
        Ok(text) => OutputItem { id, text: Some(text), failure },
        Err(error) => {
            failure.get_or_insert(error);
            OutputItem { id, text: None, failure }
        }
    }
}

fn refusal(answer: &Answer) -> Error {
    let error = failure(answer.status, &answer.headers, &jq::null().into()).at_step("concatenate");
    answer.upstream.iter().fold(error, Error::of_upstream)
}

/// The text of an item that is whole.
fn close(spec: Arc<Concatenate>, text: Vec<u8>) -> Work<Vec<u8>> {
    if text.len() / 8 <= offload::SMALL || spec.form != As::Sse {
        return Either::Left(std::future::ready(Ok(spec.close(text))));
    }
    let (weight, text) = (text.len() / 8, Bytes::from(text));
    offload::run(weight, move || Ok(spec.close(text.to_vec())))
}

async fn write(answer: Answer, spec: &Concatenate, out: &mut Vec<u8>) -> Result<(), Error> {
    if spec.body_only {
        return format::splice(answer, spec.max_body.bytes(), spec.lines(), out).await;
    }
    let answer = format::plain(answer)?;
    out.extend_from_slice(b"{\"status\":");
    out.extend_from_slice(answer.status.as_str().as_bytes());
    out.extend_from_slice(b",\"headers\":");
    json::write(&crate::request::context::header_value(&answer.headers), out)?;
    out.extend_from_slice(b",\"body\":");
    format::splice(answer, spec.max_body.bytes(), spec.lines(), out).await?;
    out.push(b'}');
    Ok(())
}

fn problem(error: &Error, spec: &Concatenate, out: &mut Vec<u8>) {
    if spec.body_only {
        return out.extend_from_slice(&error.document());
    }
    out.extend_from_slice(b"{\"status\":");
    out.extend_from_slice(error.status().as_str().as_bytes());
    out.extend_from_slice(b",\"headers\":{},\"body\":");
    out.extend_from_slice(&error.document());
    out.push(b'}');
}

/// How far a concatenation has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputState {
    /// No item has been sent.
    Empty,
    /// Some have.
    Open,
    /// All have.
    Closed,
}

/// The body: one chunk an item. It never ends cleanly unless all items were sent.
struct Concatenation<S> {
    held: std::vec::IntoIter<Vec<u8>>,
    items: S,
    spec: Arc<Concatenate>,
    state: OutputState,
}

impl<S> Concatenation<S> {
    fn chunk(&mut self, mut text: Vec<u8>) -> Frame<Bytes> {
        if let (As::Json, OutputState::Empty, Some(first)) = (self.spec.form, self.state, text.first_mut()) {
            *first = b'[';
        }
        self.state = OutputState::Open;
        Frame::data(text.into())
    }

    fn close(&mut self) -> Option<Frame<Bytes>> {
        let end: &'static [u8] = match (self.spec.form, self.state) {
            (_, OutputState::Closed) | (As::Ndjson | As::Sse, _) => b"",
            (As::Json, OutputState::Empty) => b"[]",
            (As::Json, OutputState::Open) => b"]",
        };
        self.state = OutputState::Closed;
        Some(end).filter(|end| !end.is_empty()).map(|end| Frame::data(Bytes::from_static(end)))
    }

    /// All of it, if no item is still to come.
    fn whole(mut self) -> Bytes {
        let mut all = Vec::new();
        let held = std::mem::take(&mut self.held);
        let frames: Vec<_> = held.map(|text| self.chunk(text)).collect();
        for data in frames.into_iter().chain(self.close()).filter_map(|frame| frame.into_data().ok()) {
            all.extend_from_slice(&data);
        }
        all.into()
    }
}

impl<S: Stream<Item = (OutputItem, HeldBodies)> + Unpin> http_body::Body for Concatenation<S> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if let Some(text) = this.held.next() {
            return Poll::Ready(Some(Ok(this.chunk(text))));
        }
        if this.state == OutputState::Closed {
            return Poll::Ready(None);
        }
        loop {
            match ready!(this.items.poll_next_unpin(cx)) {
                None => return Poll::Ready(this.close().map(Ok)),
                Some((OutputItem { failure: Some(error), .. }, _)) if this.spec.on_error.ends_all() => {
                    return Poll::Ready(Some(Err(error)));
                }
                Some((OutputItem { text: Some(text), .. }, _)) => return Poll::Ready(Some(Ok(this.chunk(text)))),
                Some((OutputItem { text: None, .. }, _)) => {}
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.state == OutputState::Closed
    }
}
