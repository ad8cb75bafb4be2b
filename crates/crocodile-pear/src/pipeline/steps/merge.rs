//! `merge`: one value of all answers.

use std::sync::Arc;

use futures_util::StreamExt;

use crate::config::problem::Problems;
use crate::config::spec::{ExpressionSpec, Located, Size, only};
use crate::error::{Error, Kind};
use crate::format;
use crate::jq::{self, Data, Filter};
use crate::message::answer::Answer;
use crate::message::names::{NamedResults, Names};
use crate::offload;
use crate::pipeline::flow::{Flow, Order, Outcome, Producer};
use crate::pipeline::step::answers::{self, ANSWER, ANSWERS};
use crate::pipeline::step::status::refuse;
use crate::pipeline::step::{About, Compile, FaultSource, MAX_BODY, ReadyStep, Shape, Spec, apply, weigh};
use crate::request::context::Scope;
use crate::spec;

spec! {
    /// Makes one value of all answers. Each named answer is `$name`, and `.` is the list of all of them in the order
    /// of the requests. Short form: the expression. Every body is read whole, within `max_body`. A call that fails,
    /// or gets a status other than 2xx, fails the merge, unless its `otherwise` or `on_status` gives a value instead.
    /// If that status is the client's fault (404, 401, 409 and most of 4xx), the client gets the same status;
    /// otherwise it gets 502. If several calls fail, the first in the order of the configuration decides.
    /// `$answers.NAME` has the `{status, headers}` of a named call's answer.
    pub struct Merge {
        /// The expression.
        pub jq: ExpressionSpec,
        /// The most bytes of one body that are read.
        pub max_body: Size = MAX_BODY,
    }
    short(short)
}

fn short(text: Located<String>, problems: &mut Problems) -> Option<Merge> {
    only([("jq", text)], problems)
}

impl Merge {
    /// The value that this expression makes of all answers.
    pub fn of(jq: ExpressionSpec) -> Self {
        Merge { jq, max_body: MAX_BODY }
    }
}

impl Spec for Merge {
    fn about(&self) -> About {
        // Of a list that is always the same, each item has its place.
        About { merges: true, replaces: true, order: Some(Order::Request), ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let named = std::mem::take(&mut cx.flow.pending);
        if !named.is_empty() {
            cx.know(ANSWERS);
        }
        if matches!(cx.flow.shape, Shape::Many(_)) {
            cx.forget(ANSWER);
        }
        cx.flow.answers.clone_from(&named);
        cx.flow.names.extend(named);
        cx.flow.shape = Shape::One;
        let filter = cx.filter(&self.jq)?;
        if filter.reads_item() {
            cx.found.results.clear();
        }
        cx.explain("merge all answers into one value", Some("every answer is read whole before they are merged"), 0);
        let fault_source = FaultSource::from_filter(&filter, cx.flow.first);
        Some(Arc::new(ReadyMerge { filter, fault_source, max_body: self.max_body.bytes() }))
    }
}

struct ReadyMerge {
    filter: Filter,
    fault_source: FaultSource,
    max_body: usize,
}

impl ReadyStep for ReadyMerge {
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        Flow::one(scope.next_producer(), merge(self, flow, scope.clone()))
    }
}

/// An answer that was read.
struct ReadAnswer {
    at: usize,
    name: Option<Arc<str>>,
    data: Data,
    names: Names,
    text: Option<format::Text>,
}

impl ReadAnswer {
    /// Its status and fields, if it has a name and an expression uses them.
    fn answer(&self) -> Option<(Arc<str>, Data)> {
        Some((self.name.clone()?, answers::of(&self.names)?.clone()))
    }

    /// Adds what this part makes known: its name, and the URLs of it and of those before it.
    fn note(&self, names: &mut NamedResults) {
        let own = self.names.iter().flat_map(|own| own.bases.iter());
        for (part, base) in own {
            match &self.name {
                Some(name) if part.is_empty() => names.set_base(&format!("${name}"), base.clone()),
                _ if part.starts_with('$') => names.set_base(part, base.clone()),
                _ => {}
            }
        }
        let own = self.names.iter().flat_map(|own| own.values.iter());
        names
            .values
            .extend(own.filter(|(name, _)| self.name.is_none() || ![ANSWER, ANSWERS].contains(&&**name)).cloned());
        names.values.extend(self.name.iter().map(|name| (name.clone(), self.data.clone())));
    }
}

async fn merge(ready: Arc<ReadyMerge>, flow: Flow, scope: Arc<Scope>) -> Outcome {
    let parts = match gather(flow, ready.max_body).await {
        Ok(parts) => parts,
        Err(error) => return Some(Err(error)),
    };
    let mut names = NamedResults::default();
    for part in &parts {
        part.note(&mut names);
    }
    let answers: Vec<_> = parts.iter().filter_map(ReadAnswer::answer).collect();
    if !answers.is_empty() {
        names.values.push(answers::gather(answers));
    }
    let names = Some(Arc::new(names));
    let text = parts.iter().find_map(|part| part.text.clone());
    let parts: Vec<Data> = match ready.filter.reads_item() {
        true => parts.into_iter().map(|part| part.data).collect(),
        false => Vec::new(),
    };
    let variables = weigh(&ready.filter, &jq::null().into(), &names, &scope);
    let weight = variables + parts.iter().map(Data::weight).sum::<usize>();
    let known = names.clone();
    let merged = offload::run(weight, move || {
        let list = match ready.filter.reads_item() {
            true => jq::list(parts.iter().cloned().map(Data::into_value).collect()),
            false => jq::null(),
        };
        apply(&ready.filter, list.into(), &known, &scope, ready.fault_source).and_then(single)
    });
    let merged = merged.await.map_err(|error| format::explain(text.as_ref(), error).at_step("merge"));
    merged.map(|data| data.map(|data| Answer { names, ..Answer::of_value(data) })).transpose()
}

fn single(mut outputs: Vec<Data>) -> Result<Option<Data>, Error> {
    match outputs.len() {
        0 | 1 => Ok(outputs.pop()),
        more => Err(Error::new(Kind::Expression, format!("the expression gives {more} values where one is needed"))),
    }
}

/// All answers, in the order of their requests. A failure ends it, and with it the calls still running, as soon as
/// those that were written before it have ended: of several failures the first that is written counts, so that the
/// same failures have the same status, whichever arrives first.
async fn gather(flow: Flow, bound: usize) -> Result<Vec<ReadAnswer>, Error> {
    let mut started = 0;
    let mut running = flow.drive(Order::Arrival, |producer| {
        started += 1;
        part(started, producer, bound)
    });
    let (mut parts, mut arrived, mut failed) = (Vec::new(), Vec::new(), None::<(usize, Error)>);
    while let Some((at, part)) = running.next().await {
        arrived.push(at);
        match part {
            Ok(part) => parts.extend(part),
            Err(error) if failed.as_ref().is_none_or(|(first, _)| at < *first) => failed = Some((at, error)),
            Err(_) => {}
        }
        let before = |first: usize| arrived.iter().filter(|at| **at < first).count() + 1;
        if let Some((_, error)) = failed.take_if(|(first, _)| before(*first) == *first) {
            return Err(error);
        }
    }
    parts.sort_unstable_by_key(|part: &ReadAnswer| part.at);
    Ok(parts)
}

/// Reads one of the answers; calls are counted from 1.
async fn part(at: usize, producer: Producer, bound: usize) -> (usize, Result<Option<ReadAnswer>, Error>) {
    let name = producer.name.clone();
    let read = async {
        let Some(answer) = producer.outcome.await.transpose()? else { return Ok(None) };
        if !answer.is_usable() {
            return Err(refuse(answer).await);
        }
        let (names, text) = (answer.names.clone(), format::Text::from_answer(&answer));
        let data = format::data(answer, bound).await?;
        Ok(Some(ReadAnswer { at, name: name.clone(), data, names, text }))
    };
    (at, read.await.map_err(|error| named(error, name.as_deref())))
}

/// Says which of the named calls it was.
fn named(error: Error, name: Option<&str>) -> Error {
    match name {
        Some(name) => error.at_step(format!("requests.{name}")),
        None => error.at_step("merge"),
    }
}
