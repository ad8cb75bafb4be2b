//! `dedupe`: one of the items with the same key.

use std::collections::HashSet;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt;

use crate::choice;
use crate::config::problem::Problems;
use crate::config::spec::{ExpressionSpec, Located, Size, only};
use crate::error::{Error, Kind};
use crate::format;
use crate::jq::{self, Data, Filter, Value};
use crate::json;
use crate::json::value::{self, Shape};
use crate::message::answer::Answer;
use crate::message::names::Names;
use crate::offload;
use crate::pipeline::flow::{Flow, Gate, Order, Outcome, Producer};
use crate::pipeline::step::{About, Compile, FaultSource, MAX_BODY, ReadyStep, Spec, evaluate, weigh};
use crate::request::context::Scope;
use crate::spec;

spec! {
    /// Keeps one of the items with the same key and drops the others. Short form: the expression that gives the key.
    /// Keys are compared as in jq: `1` and `1.0` are the same, and so are objects with the same fields. An item's body is read whole, within `max_body`. A failed item, or an answer with a
    /// status other than 2xx, passes unchanged.
    pub struct Dedupe {
        /// An expression that gives the key; `.` is the item. All items with the key null are kept.
        pub by: ExpressionSpec,
        /// Which item is kept.
        pub keep: Keep = Keep::Arrival,
        /// The maximum number of different keys, of at most 1 KiB each. An item with one more key fails.
        pub limit: usize = KEYS,
        /// The most bytes of an item's body.
        pub max_body: Size = MAX_BODY,
    }
    short(short)
}

choice! {
    /// Which of the items with the same key is kept.
    pub enum Keep {
        /// The one that arrives first.
        Arrival = "arrival",
        /// The one of the earliest call: of several sources, the one that is written first. An item then waits for
        /// those before it.
        Request = "request",
    }
}

/// Different keys, unless it is set.
const KEYS: usize = 10_000;

/// Bytes of a key: an identity is shorter.
const KEY: usize = 1 << 10;

fn short(text: Located<String>, problems: &mut Problems) -> Option<Dedupe> {
    only([("by", text)], problems)
}

impl Dedupe {
    /// Keeps one item for each key that this expression gives.
    pub fn of(by: ExpressionSpec) -> Self {
        Dedupe { by, keep: Keep::Arrival, limit: KEYS, max_body: MAX_BODY }
    }
}

impl Spec for Dedupe {
    fn about(&self) -> About {
        let order = (self.keep == Keep::Request).then_some(Order::Request);
        About { needs_items: true, order, ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let filter = cx.filter(&self.by)?;
        let waits = match self.keep {
            Keep::Arrival => "an item's body is read whole",
            Keep::Request => "an item's body is read whole, and it waits for those before it",
        };
        cx.explain(format!("one item for each {}", self.by.0), Some(waits), 0);
        let fault_source = FaultSource::from_filter(&filter, cx.flow.first);
        let (limit, max_body) = (self.limit, self.max_body.bytes());
        Some(Arc::new(ReadyDedupe { filter, fault_source, limit, max_body, keep: self.keep }))
    }
}

struct ReadyDedupe {
    filter: Filter,
    fault_source: FaultSource,
    limit: usize,
    max_body: usize,
    keep: Keep,
}

impl ReadyStep for ReadyDedupe {
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let (ready, scope, seen) = (self, scope.clone(), Arc::new(SeenKeys::default()));
        if ready.keep == Keep::Request {
            return in_order(ready, flow, scope, seen);
        }
        flow.map(move |producer| {
            let (ready, scope, seen) = (ready.clone(), scope.clone(), seen.clone());
            producer.then(async move |outcome| seen.admit(ready.read(outcome, &scope).await, ready.limit))
        })
    }
}

fn in_order(kept: Arc<ReadyDedupe>, flow: Flow, scope: Arc<Scope>, seen: Arc<SeenKeys>) -> Flow {
    let (at_once, limit, gate) = (flow.at_once(), kept.limit, Gate::default());
    let take = move |producer: Producer| {
        let (kept, scope, id) = (kept.clone(), scope.clone(), producer.id);
        gate.pass(Box::pin(async move { (id, kept.read(producer.outcome.await, &scope).await) }))
    };
    let items = flow.drive(Order::Request, take).filter_map(move |((id, item), _held)| {
        let outcome = seen.admit(item, limit);
        ready(outcome.map(|outcome| Producer::here(id, Some(outcome))))
    });
    Flow::stream(items, at_once)
}

/// An item and its key, if it has one.
type KeyedItem = Option<Result<(Option<Bytes>, Answer), Error>>;

impl ReadyDedupe {
    async fn read(self: &Arc<Self>, outcome: Outcome, scope: &Arc<Scope>) -> KeyedItem {
        Some(match outcome? {
            Ok(answer) if answer.is_usable() => {
                self.clone().key(answer, scope.clone()).await.map_err(|error| error.at_step("dedupe"))
            }
            other => other.map(|answer| (None, answer)),
        })
    }

    /// The body is sent unchanged: only the key is made of it.
    async fn key(self: Arc<Self>, answer: Answer, scope: Arc<Scope>) -> Result<(Option<Bytes>, Answer), Error> {
        let text = format::Text::from_answer(&answer);
        let (answer, item) = format::peek(answer, self.max_body).await?;
        let (weight, names) = (weigh(&self.filter, &item, &answer.names, &scope), answer.names.clone());
        let key = offload::run(weight, move || self.find(&item, &names, &scope)).await;
        Ok((key.map_err(|error| format::explain(text.as_ref(), error))?, answer))
    }

    fn find(&self, item: &Data, names: &Names, scope: &Scope) -> Result<Option<Bytes>, Error> {
        let mut keys = evaluate(&self.filter, item.clone().into_value(), names, scope, self.fault_source)?;
        let key = keys.pop().filter(|key| jq::kind(key) != "null");
        if !keys.is_empty() {
            return Err(Error::new(Kind::Expression, "the expression gives several keys; put them in [ ]"));
        }
        let key = key.map(|key| json::to_bytes(&alike(&key))).transpose()?;
        if key.as_ref().is_some_and(|key| key.len() > KEY) {
            return Err(Error::new(Kind::Oversized, format!("a key is longer than {KEY} bytes")));
        }
        Ok(key)
    }
}

/// The value in a form that is the same for all values that jq calls equal. Large integers keep all their digits.
fn alike(key: &Value) -> Value {
    match value::shape(key) {
        Shape::Literal(literal) if literal.contains(['.', 'e', 'E']) || literal == "-0" => {
            literal.parse().map_or_else(|_| key.clone(), positive)
        }
        Shape::Float(number) => positive(number),
        Shape::List(items) => jq::list(items.iter().map(alike).collect()),
        Shape::Object(fields) => {
            let mut fields: Vec<(Value, Value)> =
                fields.iter().map(|(name, value)| (name.clone(), alike(value))).collect();
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            value::fields_of(fields.into_iter().collect())
        }
        _ => key.clone(),
    }
}

/// Zero has a sign that makes no difference.
fn positive(number: f64) -> Value {
    if number == 0.0 { 0.0.into() } else { number.into() }
}

/// The keys of one request of a client so far.
#[derive(Default)]
struct SeenKeys(Mutex<HashSet<Bytes>>);

impl SeenKeys {
    /// The item, unless there was one like it.
    fn admit(&self, item: KeyedItem, limit: usize) -> Outcome {
        let (key, answer) = match item? {
            Ok(item) => item,
            Err(error) => return Some(Err(error)),
        };
        let Some(key) = key else { return Some(Ok(answer)) };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(&key) {
            return None;
        }
        if seen.len() == limit {
            let detail = format!("there are more than {limit} different keys");
            return Some(Err(Error::new(Kind::Oversized, detail).at_step("dedupe")));
        }
        seen.insert(key);
        Some(Ok(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::super::dedupe::*;

    #[test]
    fn equal_values_are_one_key() {
        let form = |text: &str| json::to_bytes(&alike(&json::read(&text.to_owned().into()).expect("JSON")));
        for (one, other) in [
            ("1", "1.0"),
            ("1", "1e0"),
            ("100", "1E+2"),
            ("0", "-0"),
            ("0", "-0.0"),
            ("0.5", "5e-1"),
            ("[1,{\"a\":2.0}]", "[1.0, {\"a\": 2}]"),
            ("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"),
            ("\"\\u0041\"", "\"A\""),
        ] {
            assert_eq!(form(one).expect("written"), form(other).expect("written"), "{one} {other}");
        }
        for (one, other) in [
            ("12345678901234567890", "12345678901234567891"),
            ("9007199254740993", "9007199254740992"),
            ("1", "\"1\""),
            ("[1]", "1"),
            ("{\"a\":1}", "{\"a\":2}"),
        ] {
            assert_ne!(form(one).expect("written"), form(other).expect("written"), "{one} {other}");
        }
    }
}
