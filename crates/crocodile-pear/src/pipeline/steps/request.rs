//! `request`: calls an upstream, once for each item or for each value of a list.

use std::future::ready;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};

use crate::error::{Error, Kind};
use crate::format;
use crate::jq::{self, Data, Filter, Value};
use crate::message::answer::Answer;
use crate::message::names::Names;
use crate::offload;
use crate::pipeline::call::{Asking, Calling, Collector, Coming, Detach, StepInput, is_written};
pub use crate::pipeline::call::{Batch, Request};
use crate::pipeline::flow::{Awaited, Flow, Order, Outcome, Producer};
use crate::pipeline::step::answers::ANSWER;
use crate::pipeline::step::{About, Compile, FaultSource, Proxied, ReadyStep, Shape, Spec, evaluate, weigh};
use crate::request::context::Scope;

/// However many values there are, so many calls of one request run side by side behind other steps.
const MOST_AT_ONCE: usize = 1024;

impl Spec for Request {
    fn about(&self) -> About {
        let method = self.method.as_ref().map(|written| written.value.clone());
        let own_body = self.body.is_some() && !self.sends_clients();
        let method = method.filter(|method| method != "client").or_else(|| own_body.then(|| "POST".to_owned()));
        if self.detach.is_some() {
            // Items pass it unchanged.
            return About::default();
        }
        let proxied = Proxied { to: self.to.value.clone(), method };
        About { replaces: true, proxies: self.for_each.is_none().then_some(proxied), ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        if self.detach.is_some() {
            return tap(self, cx);
        }
        let for_each = self.for_each.as_ref().map(|expression| cx.filter(expression));
        let each = for_each.is_some();
        let (limit, text, place) = (self.limit.value, self.describe(), self.path.span);
        let (bound, reads) = (self.max_body.span, self.reads_whole(cx));
        let batch = self.batch.clone().filter(|_| each);
        let at_once = self.concurrency.as_ref().map_or(usize::MAX, |most| most.value.get());
        let bounded = self.check_concurrency(cx);
        let made = match &batch {
            Some(_) => self.asking("request", cx).map(|asking| (asking.calling.clone(), Some(Arc::new(asking)))),
            None if each => {
                cx.of_values(|cx| self.calling("request".into(), cx, true)).map(|calling| (Arc::new(calling), None))
            }
            None => self.calling("request".into(), cx, false).map(|calling| (Arc::new(calling), None)),
        };
        // After the call was checked as well: every problem is reported.
        let (for_each, (calling, asking)) = (for_each.map_or(Some(None), |filter| filter.map(Some))?, made?);
        bounded?;
        if is_written(bound) && !reads && !calling.terms.reads_item {
            cx.problems.warning(bound, "`max_body` has no effect: this call reads no body whole", "leave it out");
        }
        if each && batch.is_none() && calling.is_the_same() {
            let remedy = "put the value into the path, as `{.}`, or leave out `for_each`";
            cx.problems.warning(place, "every value makes the same call", remedy);
        }
        if !each && matches!(cx.flow.shape, Shape::Many(_)) && calling.is_the_same() {
            let remedy = "call it once: name it in `requests`, and use its `$name`";
            cx.problems.warning(place, "every item makes the same call", remedy);
        }
        let before = cx.flow.shape.most();
        let most = if each { before.saturating_mul(limit) } else { before };
        match &batch {
            Some(batch) => {
                let waits = "the answer to a batch is read whole; other batches do not wait for it";
                cx.explain(text, Some(waits), before.saturating_mul(batch.calls(limit)));
                cx.flow.shape = Shape::Many(most);
            }
            None => {
                cx.flow.shape = if each { Shape::Many(most) } else { cx.flow.shape };
                cx.explain(text, calling.waits(), most);
            }
        }
        cx.know(ANSWER);
        let first = cx.flow.first;
        let for_each = for_each.map(|filter| {
            let fault_source = FaultSource::from_filter(&filter, first);
            Arc::new(ForEach { filter, limit, fault_source })
        });
        Some(Arc::new(ReadyRequest { calling, asking, for_each, at_once, order: cx.ahead.order }))
    }
}

/// Compiles a call that goes on without the client.
fn tap(written: Request, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
    let for_each = written.for_each.as_ref().map(|expression| cx.filter(expression));
    let each = for_each.is_some();
    let (limit, text) = (written.limit.value, written.describe());
    let calling = match each {
        true => cx.of_values(|cx| written.calling("request".into(), cx, true)),
        false => written.calling("request".into(), cx, false),
    };
    let for_each = for_each.map_or(Some(None), |filter| filter.map(Some))?;
    let calling = Arc::new(calling?);
    let first = cx.flow.first;
    let for_each = for_each.map(|filter| {
        let fault_source = FaultSource::from_filter(&filter, first);
        Arc::new(ForEach { filter, limit, fault_source })
    });
    let reads = match &for_each {
        Some(each) => each.filter.reads_item(),
        None => calling.terms.reads_item,
    };
    let detached = calling.detach.as_ref().map(Detach::outline).unwrap_or_default();
    let most = cx.flow.shape.most().saturating_mul(if each { limit } else { 1 });
    let waits = reads.then_some("the item is read whole, for the call");
    cx.explain(format!("{text}{detached}"), waits, most);
    Some(Arc::new(Tap { calling, for_each, reads }))
}

/// A call for each item that passes, which goes on without the client.
struct Tap {
    calling: Arc<Calling>,
    for_each: Option<Arc<ForEach>>,
    /// Whether it reads the item.
    reads: bool,
}

impl ReadyStep for Tap {
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let scope = scope.clone();
        flow.map(move |producer| {
            let (tap, scope) = (self.clone(), scope.clone());
            producer.then(move |outcome| tap.pass(outcome, scope))
        })
    }
}

impl Tap {
    /// Begins the calls for an item, and gives it unchanged.
    async fn pass(self: Arc<Self>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
        let answer = match outcome? {
            Ok(answer) if answer.is_usable() => answer,
            other => return Some(other),
        };
        let names = answer.names.clone();
        let (answer, item) = match self.reads {
            true => match format::peek(answer, self.calling.terms.max_body).await {
                Ok(read) => read,
                Err(error) => return Some(Err(self.calling.terms.name(error))),
            },
            false => (answer, jq::null().into()),
        };
        Some(match self.detach(item, &names, &scope).await {
            Ok(()) => Ok(answer),
            Err(error) => Err(self.calling.terms.name(error)),
        })
    }

    async fn detach(&self, item: Data, names: &Names, scope: &Arc<Scope>) -> Result<(), Error> {
        let Some(detach) = &self.calling.detach else { return Ok(()) };
        let items: Vec<Data> = match &self.for_each {
            None => vec![item],
            Some(each) => each.values(item, names, scope).await?.into_iter().map(Data::from).collect(),
        };
        if items.is_empty() {
            return Ok(());
        }
        let places = detach.enter(items.len())?;
        for item in items {
            let (calling, scope) = (self.calling.clone(), scope.clone());
            let ask = move |names| -> BoxFuture<'static, Outcome> {
                Box::pin(calling.clone().answer(item.clone(), names, scope.clone()))
            };
            let step = self.calling.terms.step.clone();
            detach.begin(step, places.clone(), ready(Ok(names.clone())), ask);
        }
        Ok(())
    }
}

/// The step.
struct ReadyRequest {
    calling: Arc<Calling>,
    /// For calls in batches.
    asking: Option<Arc<Asking>>,
    for_each: Option<Arc<ForEach>>,
    /// The most calls of `for_each` at the same time.
    at_once: usize,
    /// In which order items that become several calls follow each other.
    order: Order,
}

struct ForEach {
    filter: Filter,
    limit: u64,
    fault_source: FaultSource,
}

impl ForEach {
    /// The values, if they are soon found.
    fn begin(&self, scope: &Scope) -> Option<Result<Vec<Value>, Error>> {
        let item = Data::from(jq::null());
        let weight = weigh(&self.filter, &item, &None, scope);
        offload::attempt(weight, || self.find(item.clone(), &None, scope))
    }

    async fn values(self: &Arc<Self>, item: Data, names: &Names, scope: &Arc<Scope>) -> Result<Vec<Value>, Error> {
        let weight = weigh(&self.filter, &item, names, scope);
        let (each, names, scope) = (self.clone(), names.clone(), scope.clone());
        offload::run(weight, move || each.find(item.clone(), &names, &scope)).await
    }

    fn find(&self, item: Data, names: &Names, scope: &Scope) -> Result<Vec<Value>, Error> {
        let values = evaluate(&self.filter, item.into_value(), names, scope, self.fault_source);
        let values = values.map_err(|error| error.at_step("request"))?;
        if values.len() as u64 > self.limit {
            let detail = format!("`for_each` gives {} values; the limit is {}", values.len(), self.limit);
            return Err(self.fault_source.attribute(Error::new(Kind::Expression, detail)).at_step("request"));
        }
        Ok(values)
    }
}

impl ReadyStep for ReadyRequest {
    fn begin(self: Arc<Self>, scope: &Arc<Scope>) -> Flow {
        match &self.for_each {
            None => self.call(scope, jq::null().into(), None),
            Some(each) => match each.begin(scope) {
                Some(Ok(values)) => {
                    let collector = self.collector(scope);
                    let producers = self.producers(values, None, scope, collector.as_ref());
                    collector.iter().for_each(|collector| collector.close());
                    Flow::of(producers).at_most(self.at_once)
                }
                Some(Err(error)) => Flow::one(scope.next_producer(), ready(Some(Err(error)))),
                None => {
                    let unit = Answer::of_value(jq::null());
                    self.spread(each, Flow::one(scope.next_producer(), ready(Some(Ok(unit)))), scope)
                }
            },
        }
    }

    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        match &self.for_each {
            None => {
                let (calling, scope) = (self.calling.clone(), scope.clone());
                flow.map(move |producer| {
                    let (calling, scope) = (calling.clone(), scope.clone());
                    let outcome = match producer.outcome {
                        Awaited::Here(outcome) => match calling.item_here(outcome) {
                            StepInput::Item(item, names) => Awaited::later(calling.answer(item, names, scope)),
                            StepInput::Other(outcome) => Awaited::later(follow(calling, outcome, scope)),
                            StepInput::Over(outcome) => Awaited::Here(outcome),
                        },
                        Awaited::Later(outcome) => Awaited::later(follow_later(calling, outcome, scope)),
                    };
                    Producer { outcome, ..producer }
                })
            }
            Some(each) => self.spread(each, flow, scope),
        }
    }
}

/// Calls for the item that comes.
async fn follow_later(calling: Arc<Calling>, outcome: BoxFuture<'static, Outcome>, scope: Arc<Scope>) -> Outcome {
    match calling.item_here(outcome.await) {
        StepInput::Item(item, names) => calling.answer(item, names, scope).await,
        // Boxed: items in memory would carry the room.
        StepInput::Other(outcome) => Box::pin(follow(calling, outcome, scope)).await,
        StepInput::Over(outcome) => outcome,
    }
}

/// Calls for the item that a producer yields.
async fn follow(calling: Arc<Calling>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
    let answer = match outcome? {
        Ok(answer) if answer.is_usable() => answer,
        other => return Some(other),
    };
    let (names, text) = (answer.names.clone(), format::Text::from_answer(&answer));
    let item = match calling.terms.reads_item {
        true => match format::data(answer, calling.terms.max_body).await {
            Ok(item) => item,
            Err(error) => return Some(Err(error)),
        },
        false => jq::null().into(),
    };
    calling.answer(item, names, scope).await.map(|made| made.map_err(|error| format::explain(text.as_ref(), error)))
}

impl ReadyRequest {
    fn call(&self, scope: &Arc<Scope>, item: Data, names: Names) -> Flow {
        Flow::one(scope.next_producer(), self.calling.clone().answer(item, names, scope.clone()))
    }

    /// Where the values of one request of a client come together.
    fn collector(&self, scope: &Arc<Scope>) -> Option<Arc<Collector>> {
        self.asking.as_ref().map(|asking| Collector::new(asking.clone(), scope))
    }

    fn producers(
        &self,
        values: Vec<Value>,
        names: Names,
        scope: &Arc<Scope>,
        collector: Option<&Arc<Collector>>,
    ) -> Vec<Producer> {
        let outcome = |item| -> BoxFuture<'static, Outcome> {
            let (calling, names, scope) = (self.calling.clone(), names.clone(), scope.clone());
            match collector {
                None => Box::pin(calling.answer(Data::from(item), names, scope)),
                Some(collector) => {
                    Box::pin(calling.ask_together(item, names, scope, collector.clone(), collector.expect()))
                }
            }
        };
        let producer =
            |item| Producer { id: scope.next_producer(), name: None, outcome: Awaited::Later(outcome(item)) };
        values.into_iter().map(producer).collect()
    }

    /// `for_each` behind other steps: the items are read side by side, and each becomes its calls.
    fn spread(&self, each: &Arc<ForEach>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let items = flow.at_once();
        let limit = usize::try_from(each.limit).unwrap_or(usize::MAX);
        let (each, scope) = (each.clone(), scope.clone());
        let (calling, asking) = (self.calling.clone(), self.asking.clone());
        let calls = ReadyRequest { calling, asking, for_each: None, at_once: self.at_once, order: self.order };
        let (calls, collector) = (Arc::new(calls), self.collector(&scope));
        let known: BoxStream<'static, (Producer, Option<Coming>)> = match &collector {
            None => StreamExt::map(flow, |producer| (producer, None)).boxed(),
            Some(collector) => collector.watch(flow).map(|(producer, coming)| (producer, Some(coming))).boxed(),
        };
        let spread = move |(producer, coming)| {
            let (each, scope, collector) = (each.clone(), scope.clone(), collector.clone());
            calls.clone().spread_one(each, producer, scope, collector.zip(coming))
        };
        let known = known.map(spread);
        let values = match self.order {
            Order::Arrival => known.buffer_unordered(items).boxed(),
            Order::Request => known.buffered(items).boxed(),
        };
        let producers = values.flat_map(futures_util::stream::iter);
        Flow::stream(producers, items.saturating_mul(limit).min(MOST_AT_ONCE)).at_most(self.at_once)
    }

    async fn spread_one(
        self: Arc<Self>,
        each: Arc<ForEach>,
        producer: Producer,
        scope: Arc<Scope>,
        batches: Option<(Arc<Collector>, Coming)>,
    ) -> Vec<Producer> {
        let alone = |outcome| vec![Producer::here(producer.id, Some(outcome))];
        let answer = match producer.outcome.await {
            None => return Vec::new(),
            Some(Ok(answer)) if answer.is_usable() => answer,
            Some(other) => return alone(other),
        };
        let (names, text) = (answer.names.clone(), format::Text::from_answer(&answer));
        let values = match format::data(answer, self.calling.terms.max_body).await {
            Ok(item) => each.values(item, &names, &scope).await,
            Err(error) => Err(error),
        };
        match values.map_err(|error| format::explain(text.as_ref(), error)) {
            Ok(values) => self.producers(values, names, &scope, batches.as_ref().map(|(collector, _)| collector)),
            Err(error) => alone(Err(error)),
        }
    }
}
