//! Many values that are still to come.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use http::{HeaderMap, Method, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::Instrument;

use super::answer;
use super::body::Pulled;
use super::call::Call;
use super::expression::jq;
use super::faults::Faults;
use super::guard;
use super::handle::Client;
use super::one::One;
use super::pipeline::Pipeline;
use super::read;
use super::servers::NamedServers;
use super::step::{Cx, Source, Step};
use crate::config::problem::{Problems, Span};
use crate::error::{BoxError, CallId, Error, Kind};
use crate::json::Raw;
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::pipeline::flow::{Awaited, Flow, Order, Outcome, Producer, Taken};
use crate::pipeline::step::status::refuse;
use crate::pipeline::step::{Compile, ReadyStep, Shape, Spec};
use crate::pipeline::steps::concatenate::{As, Concatenate, ItemOrder, OnError, concatenate};
use crate::pipeline::steps::each::{Each, Limit};
use crate::pipeline::steps::rust_step::Own;
use crate::request::context::Scope;
use crate::telemetry::timeline::passed;

/// How the producers come about, once it is known in which order they are wanted.
type FlowMaker<T> = Box<dyn FnOnce(Order) -> Flow<T> + Send>;

/// Many values that are still to come: what a program has, the items of a list, the answers of a call for each.
///
/// Each method adds a step. Nothing happens before the result is polled, and nothing runs ahead of it: a slow reader slows down
/// every call. Dropping the result cancels all calls behind it. An item that failed (its call, a closure that returned an error
/// or panicked) is an [`Error`] in its place, never a row; the other items are not affected.
///
/// ```
/// # use crocodile_pear::{Client, Error};
/// #[derive(serde::Deserialize)]
/// struct User { name: String }
///
/// async fn names(client: &Client, ids: Vec<u64>) -> Result<Vec<(u64, String)>, Error> {
///     let c = client.clone();
///     client
///         .items(ids)
///         .call(20, move |id| c.get(format!("http://127.0.0.1:9000/users/{id}")).as_json::<User>())
///         .map(|(id, user)| (id, user.name))
///         .ordered()
///         .try_collect()
///         .await
/// }
/// ```
#[must_use = "nothing is called before the items are asked for"]
pub struct Items<T> {
    make: FlowMaker<T>,
    order: Order,
    client: Option<Client>,
}

impl<T: Send + 'static> Items<T> {
    fn new(client: Option<Client>, make: impl FnOnce(Order) -> Flow<T> + Send + 'static) -> Self {
        Items { make: Box::new(make), order: Order::Arrival, client }
    }

    pub(super) fn of<S>(client: Option<Client>, items: S) -> Self
    where
        S: Stream<Item = Result<T, Error>> + Send + 'static,
    {
        Items::new(client, |_| {
            let mut next = 0..;
            // One after the other: what is here needs no room beside others.
            Flow::stream(items.map(move |item| Producer::here(next.next().unwrap_or(u32::MAX), Some(item))), 1)
        })
    }

    pub(super) fn of_source(client: Client, source: impl Source<Item = T>) -> Self {
        let name = source.name();
        let cx = Cx::new(client.clone(), CallId::default());
        let items = stream::once(async move { source.items(cx) }).flatten();
        Items::of(Some(client), items.map(move |item| item.map_err(|error| error.at_step(name.clone()))))
    }

    fn change<U: Send + 'static>(self, change: impl FnOnce(Flow<T>, Order) -> Flow<U> + Send + 'static) -> Items<U> {
        let Items { make, order, client } = self;
        Items { make: Box::new(move |order| change(make(order), order)), order, client }
    }

    /// A map that need not wait.
    fn mapped<U: Send + 'static>(
        self,
        map: impl Fn(T) -> Result<Option<U>, Error> + Send + Sync + 'static,
    ) -> Items<U> {
        let map = Arc::new(map);
        self.change(move |flow, _| {
            flow.map(move |producer: Producer<T>| {
                let map = map.clone();
                producer.and(move |outcome| outcome?.and_then(|item| map(item)).transpose())
            })
        })
    }

    /// Something that must be waited for, for at most so many items at once.
    fn waiting<U: Send + 'static>(
        self,
        at_once: usize,
        mut start: impl FnMut(T, CallId) -> Awaited<U> + Send + 'static,
    ) -> Items<U> {
        self.change(move |flow, order| {
            let start = move |Producer { id, name, outcome }: Producer<T>| {
                let outcome = match outcome {
                    Awaited::Here(Some(Ok(item))) => start(item, CallId { index: id.into(), name: name.clone() }),
                    Awaited::Here(Some(Err(error))) => Awaited::Here(Some(Err(error))),
                    // All that arrive have arrived.
                    Awaited::Here(None) | Awaited::Later(_) => Awaited::Here(None),
                };
                Producer { id, name, outcome }
            };
            Flow::stream(settle(flow, order).map(start), at_once)
        })
    }

    /// Makes a call for each item, at most so many at once; the item stays beside its answer.
    pub fn call<U: Send + 'static>(
        self,
        at_once: usize,
        call: impl Fn(&T) -> One<U> + Send + Sync + 'static,
    ) -> Items<(T, U)> {
        self.waiting(at_once, move |item, id| match guard::call(|| call(&item)) {
            Ok(one) => {
                let answer = one.start(id.index);
                Awaited::later(async move {
                    Some(answer.await.map(|answer| (item, answer)).map_err(|error| error.at_call(id)))
                })
            }
            Err(error) => Awaited::Here(Some(Err(error.at_call(id)))),
        })
    }

    /// Makes another value of each.
    pub fn map<U: Send + 'static>(self, map: impl Fn(T) -> U + Send + Sync + 'static) -> Items<U> {
        self.mapped(move |item| guard::call(|| map(item)).map(Some))
    }

    /// The same with a closure that may fail.
    pub fn try_map<U: Send + 'static, E: Into<BoxError>>(
        self,
        map: impl Fn(T) -> Result<U, E> + Send + Sync + 'static,
    ) -> Items<U> {
        self.mapped(move |item| guard::attempt(|| map(item)).map(Some))
    }

    /// Makes another value of some, and leaves the others out.
    pub fn filter_map<U: Send + 'static>(self, map: impl Fn(T) -> Option<U> + Send + Sync + 'static) -> Items<U> {
        self.mapped(move |item| guard::call(|| map(item)))
    }

    /// Keeps those for which this holds.
    pub fn filter(self, keep: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        self.mapped(move |item| Ok(guard::call(|| keep(&item))?.then_some(item)))
    }

    /// Waits for a future of each, for at most so many items at once.
    pub fn then<U: Send + 'static, E: Into<BoxError>, F>(
        self,
        at_once: usize,
        then: impl Fn(T) -> F + Send + Sync + 'static,
    ) -> Items<U>
    where
        F: Future<Output = Result<U, E>> + Send + 'static,
    {
        self.waiting(at_once, move |item, id| match guard::call(|| then(item)) {
            Ok(future) => {
                Awaited::later(async move { Some(guard::wait(future).await.map_err(|error| error.at_call(id))) })
            }
            Err(error) => Awaited::Here(Some(Err(error.at_call(id)))),
        })
    }

    /// Runs a step of one's own.
    pub fn step<S: Step<T>>(self, step: S) -> Items<S::Out> {
        let (step, client) = (Arc::new(step), self.client.clone().unwrap_or_default());
        self.waiting(step.at_once(), move |item, id| {
            let (step, cx) = (step.clone(), Cx::new(client.clone(), id.clone()));
            let name = step.name();
            let span = tracing::debug_span!(target: "crocodile_pear::step", "step", name = &*name, item = id.index);
            let run = async move {
                let done = guard::wait(step.run(item, &cx)).await;
                done.map_err(|error| error.at_step(name).at_call(id)).transpose()
            };
            Awaited::later(run.instrument(span))
        })
    }

    /// Makes several items of each.
    pub fn each<I>(self, each: impl Fn(T) -> I + Send + Sync + 'static) -> Items<I::Item>
    where
        I: IntoIterator<IntoIter: Send + 'static, Item: Send + 'static>,
    {
        self.change(move |flow, order| {
            let mut next = 0..;
            let items = settle(flow, order).flat_map(move |Producer { outcome, .. }| {
                let made = match outcome {
                    Awaited::Here(Some(Ok(item))) => guard::call(|| each(item).into_iter()),
                    Awaited::Here(Some(Err(error))) => Err(error),
                    Awaited::Here(None) | Awaited::Later(_) => return stream::empty().boxed(),
                };
                match made {
                    Ok(items) => stream::iter(Guarded(Some(items))).boxed(),
                    Err(error) => stream::once(async { Err(error) }).boxed(),
                }
            });
            Flow::stream(items.map(move |item| Producer::here(next.next().unwrap_or(u32::MAX), Some(item))), 1)
        })
    }

    /// Keeps the first so many, and starts nothing for the others.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), crocodile_pear::Error> {
    /// use crocodile_pear::Client;
    ///
    /// let client = Client::new();
    /// let numbers = || client.items(0..100u32).take(2);
    /// let json = numbers().try_into_json().await?;
    /// assert_eq!(json.into_body().bytes_within(100).await?, "[0,1]");
    /// let lines = numbers().try_into_ndjson().await?;
    /// assert_eq!(lines.into_body().text().await?, "0\n1\n");
    /// let events = numbers().into_events().await;
    /// assert_eq!(events.into_body().text().await?, "data: 0\n\ndata: 1\n\n");
    /// let events = numbers().try_into_events().await?;
    /// assert_eq!(events.status(), 200);
    /// # Ok(())
    /// # }
    /// ```
    pub fn take(self, most: usize) -> Self {
        self.change(move |flow, order| Flow::stream(settle(flow, order).take(most), 1))
    }

    /// Puts a value in the place of an item that failed; `None` leaves it out.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), crocodile_pear::Error> {
    /// use crocodile_pear::Client;
    ///
    /// let halves = Client::new().items([2, 3, 4]).try_map(|n| if n % 2 == 0 { Ok(n / 2) } else { Err("odd") });
    /// let even: Vec<u8> = halves.recover(|_| None).try_collect().await?;
    /// assert_eq!(even, [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn recover(self, recover: impl Fn(Error) -> Option<T> + Send + Sync + 'static) -> Self {
        let recover = Arc::new(recover);
        self.change(move |flow, _| {
            flow.map(move |producer: Producer<T>| {
                let recover = recover.clone();
                producer.and(move |outcome| match outcome? {
                    Ok(item) => Some(Ok(item)),
                    Err(error) => guard::call(|| recover(error)).transpose(),
                })
            })
        })
    }

    /// Gives the items in the order in which they came in, instead of that in which they are ready. One that is ready early
    /// waits, and still counts as one of those that run at once.
    pub fn ordered(self) -> Self {
        Items { order: Order::Request, ..self }
    }

    /// Logs one line for each item that passes, by [`tracing`](https://docs.rs/tracing) with the target
    /// `crocodile_pear::timer`: the label, its index, whether it failed, and the time since the pipeline began.
    pub fn timer(self, label: &str) -> Self {
        let label: Arc<str> = label.into();
        self.change(move |flow, _| {
            let begun = Instant::now();
            flow.map(move |producer: Producer<T>| {
                let (label, id) = (label.clone(), producer.id);
                producer.and(move |outcome| {
                    let passes =
                        outcome.as_ref().map(|item| item.as_ref().map(drop).map_err(|error| error.kind().name()));
                    if let Some(item) = passes {
                        passed(&label, id.into(), begun.elapsed(), item);
                    }
                    outcome
                })
            })
        })
    }

    /// The items as a stream. It ends after the last item; an item that failed does not end it.
    pub fn into_stream(self) -> ItemStream<T> {
        let order = self.order;
        let items = settle((self.make)(order), order).filter_map(|producer| {
            std::future::ready(match producer.outcome {
                Awaited::Here(outcome) => outcome,
                Awaited::Later(_) => None,
            })
        });
        ItemStream(items.boxed())
    }

    /// Collects all items. The first that failed ends it, and cancels the others.
    ///
    /// # Errors
    /// The first failure.
    pub async fn try_collect<C: Default + Extend<T>>(self) -> Result<C, Error> {
        let (mut all, mut items) = (C::default(), self.into_stream());
        while let Some(item) = items.next().await {
            all.extend([item?]);
        }
        Ok(all)
    }

    /// Collects all items, those that failed among them.
    pub async fn collect<C: Default + Extend<Result<T, Error>>>(self) -> C {
        let (mut all, mut items) = (C::default(), self.into_stream());
        while let Some(item) = items.next().await {
            all.extend([item]);
        }
        all
    }

    /// A response with a JSON list of the items, each sent as soon as it is ready. An item that fails before the first was sent
    /// makes the response a problem document with its status; a later one breaks the body off, so that no reader takes it for
    /// whole. [`recover`](Self::recover) decides otherwise.
    pub async fn into_json(self) -> Response<Pulled>
    where
        T: Serialize,
    {
        answer::or_failure(self.try_into_json().await)
    }

    /// The same with a line of JSON for each item (`application/x-ndjson`).
    pub async fn into_ndjson(self) -> Response<Pulled>
    where
        T: Serialize,
    {
        answer::or_failure(self.try_into_ndjson().await)
    }

    /// The same with a server-sent event for each item. An object with `data` and at least one of `event`, `id` and `retry`
    /// becomes that event; any other value is the data of an event.
    pub async fn into_events(self) -> Response<Pulled>
    where
        T: Serialize,
    {
        answer::or_failure(self.try_into_events().await)
    }

    /// Does the same as [`into_json`](Self::into_json), with a failure as an [`Error`].
    ///
    /// # Errors
    /// The failure of the first item.
    pub async fn try_into_json(self) -> Result<Response<Pulled>, Error>
    where
        T: Serialize,
    {
        self.written(As::Json).await
    }

    /// Does the same as [`into_ndjson`](Self::into_ndjson), with a failure as an [`Error`].
    ///
    /// # Errors
    /// The failure of the first item.
    pub async fn try_into_ndjson(self) -> Result<Response<Pulled>, Error>
    where
        T: Serialize,
    {
        self.written(As::Ndjson).await
    }

    /// Does the same as [`into_events`](Self::into_events), with a failure as an [`Error`].
    ///
    /// # Errors
    /// The failure of the first item.
    pub async fn try_into_events(self) -> Result<Response<Pulled>, Error>
    where
        T: Serialize,
    {
        self.written(As::Sse).await
    }

    async fn written(self, form: As) -> Result<Response<Pulled>, Error>
    where
        T: Serialize,
    {
        let order = if self.order == Order::Request { ItemOrder::Request } else { ItemOrder::Arrival };
        let spec = Concatenate { form, body_only: true, order, on_error: OnError::Fail, ..Concatenate::default() };
        let flow = untyped((self.make)(self.order));
        answer::response(concatenate(flow, Arc::new(spec)).await)
    }

    /// The items as JSON, for the steps of a [`Pipeline`]: jq, `select`, `dedupe`, `follow`, a concatenation.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use crocodile_pear::{Client, Parts, jq};
    ///
    /// let numbers = Client::new().items([1, 2, 2, 3]).into_pipeline();
    /// let response = numbers.dedupe(jq(".")?).concatenate_json(Parts::BodyOnly).into_response().await;
    /// assert_eq!(response.into_body().text().await?, "[1,2,3]");
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_pipeline(self) -> Pipeline
    where
        T: Serialize,
    {
        let (make, order, client) = (self.make, self.order, self.client);
        let make = Arc::new(std::sync::Mutex::new(Some(make)));
        let begin = Own::new(move |cx: &mut Compile<'_>| {
            cx.flow.shape = Shape::Many(u64::MAX);
            cx.explain("items of the program", None, 0);
            Arc::new(ProgramItems { make: make.clone(), order })
        });
        Pipeline::new(client.unwrap_or_default()).push(begin)
    }
}

/// A step that gives the items of a typed pipeline.
struct ProgramItems<T> {
    make: Arc<std::sync::Mutex<Option<FlowMaker<T>>>>,
    order: Order,
}

impl<T: Serialize + Send + 'static> ReadyStep for ProgramItems<T> {
    fn run(self: Arc<Self>, _: Flow, scope: &Arc<Scope>) -> Flow {
        self.begin(scope)
    }

    fn begin(self: Arc<Self>, _: &Arc<Scope>) -> Flow {
        let make = self.make.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        make.map_or_else(|| Flow::of(Vec::new()), |make| untyped(make(self.order)))
    }
}

/// The items as JSON.
fn untyped<T: Serialize + Send + 'static>(flow: Flow<T>) -> Flow {
    flow.map(|producer: Producer<T>| producer.and(|outcome| Some(outcome?.and_then(|item| json(&item)))))
}

fn json<T: Serialize>(item: &T) -> Result<Answer, Error> {
    let json = guard::call(|| serde_json::to_vec(item))?;
    let json = json.map_err(|error| Error::new(Kind::Closure, "the item cannot be JSON").caused_by(error))?;
    Ok(Answer::new(http::StatusCode::OK, HeaderMap::new(), AnswerBody::Json(Raw::check(&Bytes::from(json))?)))
}

/// The items of a closure's iterator, which may panic.
struct Guarded<I>(Option<I>);

impl<I: Iterator> Iterator for Guarded<I> {
    type Item = Result<I::Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let items = self.0.as_mut()?;
        let item = guard::call(|| items.next());
        if !matches!(item, Ok(Some(_))) {
            self.0 = None;
        }
        item.transpose()
    }
}

/// An outcome with its place.
struct Placed<T> {
    id: u32,
    name: Option<Arc<str>>,
    outcome: Awaited<T>,
}

impl<T> Future for Placed<T> {
    type Output = Producer<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Producer<T>> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        Poll::Ready(Producer { id: self.id, name: self.name.take(), outcome: Awaited::Here(outcome) })
    }
}

/// The producers of a flow, each when it is ready.
fn settle<T: Send + 'static>(flow: Flow<T>, order: Order) -> impl Stream<Item = Producer<T>> + Send + Unpin + 'static {
    flow.drive_at_once(order, |Producer { id, name, outcome }: Producer<T>| match outcome {
        Awaited::Here(outcome) => Taken::Here(Producer { id, name, outcome: Awaited::Here(outcome) }),
        outcome @ Awaited::Later(_) => Taken::Later(Placed { id, name, outcome }),
    })
}

impl Call {
    /// The items of a list in the answer, each while the list still arrives: `.orders[]`, `.[]`. The list is never held in
    /// memory, and may be endless. `.[]` also takes the lines of NDJSON, the rows of CSV and server-sent events
    /// (`{"event", "data", "id"}`), one by one; for any other expression, the body is read whole.
    ///
    /// A list that is cut off gives the items before that, then one failure.
    ///
    /// ```
    /// # use crocodile_pear::{Client, Error};
    /// #[derive(serde::Deserialize)]
    /// struct Order { id: u64 }
    ///
    /// async fn ids(client: &Client) -> Result<Vec<u64>, Error> {
    ///     let orders = client.get("http://127.0.0.1:9000/orders").list::<Order>(".orders[]");
    ///     orders.map(|order| order.id).try_collect().await
    /// }
    /// ```
    pub fn list<T: DeserializeOwned + Send + 'static>(self, path: &str) -> Items<T> {
        let each = divide(path, self.most());
        let client = self.client().clone();
        Items::new(Some(client), move |_| {
            let step = match each {
                Ok(step) => step,
                Err(error) => return Flow::of(vec![Producer::here(0, Some(Err(error)))]),
            };
            let (url, name) = (self.url().cloned(), self.named());
            let scope = Arc::new(Scope::new(Method::GET, None, HeaderMap::new(), AnswerBody::empty()));
            let id = CallId { index: 0, name: name.clone() };
            let status = Arc::new(OnceLock::new());
            let answered = status.clone();
            let call = Flow::one(scope.next_producer(), async move {
                let answer = self.answer(&id).await;
                if let Ok(answer) = &answer {
                    let _ = answered.set(answer.status);
                }
                Some(answer)
            });
            let mut next = 0..;
            step.run(call, &scope).map(move |producer: Producer| {
                let (url, id) = (url.clone(), next.next().unwrap_or(u32::MAX));
                let place = CallId { index: id.into(), name: name.clone() };
                let status = status.clone();
                let told = move |error: Error| {
                    let error = status.get().copied().into_iter().fold(error, Error::answered);
                    read::explained(url.into_iter().fold(error, Error::at_url).at_call(place))
                };
                let outcome = match producer.outcome {
                    Awaited::Here(Some(Ok(answer))) if answer.is_usable() => {
                        Awaited::Here(Some(read::item(answer).map_err(told)))
                    }
                    outcome => Awaited::later(async move {
                        Some(match outcome.await? {
                            Ok(answer) if answer.is_usable() => read::item(answer).map_err(told),
                            Ok(answer) => Err(told(refuse(answer).await)),
                            Err(error) => Err(told(error)),
                        })
                    }),
                };
                Producer { id, name: producer.name, outcome }
            })
        })
    }
}

/// The step that divides a list.
fn divide(path: &str, most: usize) -> Result<Arc<dyn ReadyStep>, Error> {
    let unfit = |detail: String| Error::new(Kind::InvalidCall, detail);
    let items = jq(path).map_err(|error| unfit(format!("`{path}` is no path of a list: {}", error.detail())))?;
    let spec = Each { limit: Some(Limit::None), max_body: crate::config::spec::Size(most as u64), ..Each::of(items.0) };
    let (mut problems, named) = (Problems::default(), NamedServers::default());
    let step = spec.compile(&mut Compile::new(named.known(&[]), Span::default(), &mut problems));
    step.ok_or_else(|| unfit(Faults::from_problems(problems).to_string()))
}

impl<T: Send + 'static> One<T> {
    /// Makes many items of it.
    ///
    /// ```
    /// # use crocodile_pear::{Client, Items};
    /// #[derive(serde::Deserialize)]
    /// struct Inbox { cases: Vec<u64> }
    ///
    /// fn cases(client: &Client) -> Items<u64> {
    ///     client.get("http://127.0.0.1:9000/inbox").as_json::<Inbox>().each(|inbox| inbox.cases)
    /// }
    /// ```
    pub fn each<I>(self, each: impl FnOnce(T) -> I + Send + 'static) -> Items<I::Item>
    where
        I: IntoIterator<IntoIter: Send + 'static, Item: Send + 'static>,
    {
        let client = self.client().cloned();
        let items = stream::once(self.start(0)).flat_map({
            let mut each = Some(each);
            move |value| {
                let made = value.and_then(|value| match each.take() {
                    Some(each) => guard::call(|| each(value).into_iter()),
                    None => Err(Error::new(Kind::Internal, "a value was asked for twice")),
                });
                match made {
                    Ok(items) => stream::iter(Guarded(Some(items))).boxed(),
                    Err(error) => stream::once(async { Err(error) }).boxed(),
                }
            }
        });
        Items::of(client, items)
    }
}

impl Pipeline {
    /// The items of the pipeline as typed values. An item whose status is not 2xx has failed.
    ///
    /// ```
    /// # use crocodile_pear::{Client, Error, jq};
    /// #[derive(serde::Deserialize)]
    /// struct Row { id: u64 }
    ///
    /// async fn rows(client: &Client) -> Result<Vec<Row>, Box<dyn std::error::Error>> {
    ///     let orders = client.request(["http://127.0.0.1:9000/orders"]).each(jq(".orders[]")?).map(jq("{id}")?);
    ///     Ok(orders.items::<Row>().try_collect().await?)
    /// }
    /// ```
    pub fn items<T: DeserializeOwned + Send + 'static>(self) -> Items<T> {
        let client = self.client().clone();
        Items::new(Some(client), move |_| {
            let plan = match self.compile() {
                Ok(plan) => plan,
                Err(faults) => return Flow::of(vec![Producer::here(0, Some(Err(faults.into())))]),
            };
            let scope = Arc::new(Scope::new(Method::GET, None, HeaderMap::new(), AnswerBody::empty()));
            let Some(flow) = plan.flow(&scope) else { return Flow::of(Vec::new()) };
            flow.map(move |producer: Producer| producer.then(async |outcome: Outcome| typed(outcome?).await))
        })
    }
}

async fn typed<T: DeserializeOwned + Send + 'static>(outcome: Result<Answer, Error>) -> Outcome<T> {
    let value = match outcome {
        Ok(answer) => read::value(answer, super::body::MAX_BODY).await,
        Err(error) => Err(error),
    };
    Some(value)
}

/// Items as a stream; [`Items::into_stream`] makes one.
#[must_use = "nothing is called before the stream is polled"]
pub struct ItemStream<T>(BoxStream<'static, Result<T, Error>>);

impl<T> Stream for ItemStream<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl<T> fmt::Debug for ItemStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ItemStream")
    }
}

impl<T> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").field("order", &self.order).finish_non_exhaustive()
    }
}
