//! `requests`: several calls with a name each, side by side as far as they do not need each other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::ready;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, join_all};

use crate::config::problem::{Problems, Span};
use crate::config::spec::{Decode, Definitions, Entries, Field, Json, Located, Node};
use crate::error::Error;
use crate::format;
use crate::http::http1::AnswerFields;
use crate::jq::{self, Data};
use crate::message::answer::Answer;
use crate::message::names::{NamedResults, Names};
use crate::pipeline::call::{AnswerSource, Detach, FanOut, Request, Sql};
use crate::pipeline::flow::{Awaited, Flow, Outcome, Producer};
use crate::pipeline::step::answers::{self, ANSWER, ANSWERS};
use crate::pipeline::step::status::failure;
use crate::pipeline::step::{Compile, FaultSource, ReadyStep, Shape, Sink, Spec};
use crate::request::context::{Scope, VARIABLES};

/// Calls with a name each; the names are known to expressions after `merge`, and to each other's.
#[derive(Clone, Debug)]
pub struct Requests(Entries<NamedCall>);

/// A call: a request, or a statement as `{ sql: { … } }`.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there are as many as are written, at start")]
enum NamedCall {
    Request(Request),
    Sql(Sql),
}

impl NamedCall {
    /// Whether it goes on without the client.
    fn is_detached(&self) -> bool {
        matches!(self, NamedCall::Request(Request { detach: Some(_), .. }))
    }

    /// Whether it may change something.
    fn changes(&self) -> bool {
        match self {
            NamedCall::Request(request) => match request.method.as_ref().map(Located::as_str) {
                Some(method) => !matches!(method, "GET" | "HEAD" | "OPTIONS"),
                None => request.body.is_some(),
            },
            NamedCall::Sql(_) => false,
        }
    }
}

impl Decode for NamedCall {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_map() {
            Some([(key, inner)]) if key.value == "sql" => Sql::decode(inner, problems).map(NamedCall::Sql),
            _ => Request::decode(node, problems).map(NamedCall::Request),
        }
    }

    fn fields() -> Vec<Field> {
        Request::fields()
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let sql = serde_json::json!({
            "type": "object",
            "properties": { "sql": Sql::schema(definitions) },
            "required": ["sql"],
            "additionalProperties": false,
        });
        serde_json::json!({ "anyOf": [Request::schema(definitions), sql] })
    }
}

impl Decode for Requests {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let calls = Entries::<NamedCall>::decode(node, problems)?;
        if calls.is_empty() {
            return problems.error(node.span, "`requests` without a call", "write `NAME: UPSTREAM /path` for each");
        }
        Some(Requests(calls))
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let mut schema = Entries::<NamedCall>::schema(definitions);
        schema["description"] =
            "Several calls, each with a name. They all start at once. `merge` makes one value of their answers, \
            where each answer is `$name`; without `merge`, each answer is an item. A call may use another call's \
            `$name` in its expressions: it then waits for that answer, which is read whole, within its \
            `max_body`, and must have a status of 2xx, or a value from `otherwise` or `on_status`. A call that \
            uses `$answers.NAME` runs whatever the other call answered. `{ sql: { … } }` runs a statement in a database. The order in which the calls are written \
            does not matter."
                .into();
        schema
    }
}

impl Spec for Requests {
    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        if !cx.flow.first {
            // Steps that use the names later have no problem of their own.
            cx.flow.pending.extend(self.0.keys().cloned());
            let remedy = "put it first; what depends on other answers is a `request` with expressions in its path";
            return cx.problems.error_here("`requests` begins a pipeline", remedy);
        }
        let before = cx.flow.names.len();
        // A detached call has no answer that others could use.
        let answered = |(_, (_, call)): &(&String, &(Span, NamedCall))| !call.is_detached();
        let names: Vec<String> = self.0.iter().filter(answered).map(|(name, _)| name.clone()).collect();
        cx.flow.names.extend(names.iter().cloned());
        cx.know(ANSWERS);
        cx.flow.answers = names;
        // A call that changes something is of use though nobody uses its answer.
        let asks = |(_, (_, call)): &(&String, &(Span, NamedCall))| !call.is_detached() && !call.changes();
        let results: Vec<(String, Span)> =
            self.0.iter().filter(asks).map(|(name, (span, _))| (name.clone(), *span)).collect();
        let places: Vec<(String, Span)> = self.0.iter().map(|(name, (span, _))| (name.clone(), *span)).collect();
        let compiled: Vec<Option<NamedRequest>> =
            self.0.into_iter().map(|(name, (span, request))| compile(name, span, request, cx)).collect();
        cx.flow.names.truncate(before);
        cx.know(ANSWER);
        cx.found.results.extend(results);
        cx.flow.pending.extend(cx.flow.answers.iter().cloned());
        let mut calls = compiled.into_iter().collect::<Option<Vec<NamedRequest>>>()?;
        let names: Vec<Arc<str>> = calls.iter().map(|call| call.name.clone()).collect();
        for call in &mut calls {
            call.need(&names);
        }
        let order = order(&calls, &places, &mut cx.problems)?;
        explain(&calls, cx);
        Some(Arc::new(ReadyRequests { calls, order }))
    }
}

fn compile(name: String, span: Span, call: NamedCall, cx: &mut Compile<'_>) -> Option<NamedRequest> {
    let mut sound = check_name(&name, span, cx);
    let before = cx.found.taken.len();
    let mut calls = 1;
    let (source, text) = match call {
        NamedCall::Request(request) => {
            sound &= check_request(&request, cx);
            let each = request.describe_each();
            let text = format!("{name} = {} {}{}{each}", request.to, request.path, request.manner());
            calls = if request.for_each.is_some() { request.limit.value } else { 1 };
            let source = source(request, format!("requests.{name}"), cx)?;
            let detached = source.detach().map(Detach::outline).unwrap_or_default();
            (source, text + &detached)
        }
        NamedCall::Sql(sql) => {
            if let Some(key) = &sql.name {
                let remedy = "leave it out: the result has the name of the call";
                cx.problems.error::<()>(key.span, "a named statement cannot have `as`", remedy);
                sound = false;
            }
            let statement = sql.ready(format!("requests.{name}").into(), cx)?;
            let text = format!("{name} = {}", statement.describe());
            (AnswerSource::Database(Arc::new(statement)), text)
        }
    };
    let taken = cx.found.taken.split_off(before);
    if taken.contains(&None) {
        let remedy = "write `$answers.NAME`, so that it is known which answer to wait for";
        cx.problems.error::<()>(span, format!("`{name}` may take any of `$answers`"), remedy);
        sound = false;
    }
    let answers = taken.into_iter().flatten().collect();
    sound.then(|| NamedRequest { name: name.into(), source, answers, needs: Vec::new(), calls, text })
}

/// Makes the source of one call, or of one for each value.
fn source(request: Request, step: String, cx: &mut Compile<'_>) -> Option<AnswerSource> {
    let Some(values) = &request.for_each else {
        return request.calling(step.into(), cx, true).map(|calling| AnswerSource::Upstream(Arc::new(calling)));
    };
    let values = cx.filter(values);
    let (limit, most) = (request.limit.value, request.concurrency.as_ref().map(|most| most.value.get()));
    let calling = cx.of_values(|cx| request.calling(step.into(), cx, true));
    let (values, calling) = (values?, Arc::new(calling?));
    let (fault_source, at_once) = (FaultSource::from_filter(&values, true), most.unwrap_or(usize::MAX));
    Some(AnswerSource::Each(Arc::new(FanOut { calling, values, limit, at_once, fault_source })))
}

/// Whether the call may have its name.
fn check_name(name: &str, span: Span, cx: &mut Compile<'_>) -> bool {
    if variable(name) {
        return true;
    }
    let known: Vec<String> = VARIABLES.iter().chain(&[ANSWER, ANSWERS]).map(|name| format!("`{name}`")).collect();
    let remedy = format!(
        "a name is of letters, digits and `_`, begins with a letter, and is none of {}, which mean something else",
        known.join(", ")
    );
    cx.problems.error::<()>(span, format!("`{name}` cannot be the name of a variable"), remedy);
    false
}

/// Whether a request has nothing that a named one cannot have.
fn check_request(request: &Request, cx: &mut Compile<'_>) -> bool {
    let mut sound = true;
    if let (Some(most), None) = (&request.concurrency, &request.for_each) {
        let remedy = "leave it out; `in_flight` of the upstream bounds its calls";
        cx.problems.error::<()>(most.span, "a named call cannot have `concurrency`", remedy);
        sound = false;
    }
    if let (Some(_), Some(each)) = (&request.batch, &request.for_each) {
        let remedy = "leave out `batch`, or use `request` with `for_each` and `batch`";
        cx.problems.error::<()>(each.0.span, "a named call cannot have `batch`", remedy);
        sound = false;
    }
    if let (Some(_), Some(each)) = (&request.detach, &request.for_each) {
        let remedy = "use `request` with `for_each` and `detach`, behind this step";
        cx.problems.error::<()>(each.0.span, "a named call cannot have `for_each` beside `detach`", remedy);
        sound = false;
    }
    sound
}

/// Whether it is allowed after `$`, and is not a name of the request's own.
fn variable(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    starts && fits && !VARIABLES.contains(&name) && ![ANSWER, ANSWERS].contains(&name)
}

/// An order in which every call comes after those that it needs.
fn order(calls: &[NamedRequest], places: &[(String, Span)], problems: &mut Sink<'_>) -> Option<Vec<usize>> {
    let mut missing: Vec<usize> = calls.iter().map(|call| call.needs.len()).collect();
    let mut needed: Vec<Vec<usize>> = vec![Vec::new(); calls.len()];
    for (at, call) in calls.iter().enumerate() {
        call.needs.iter().for_each(|need| needed[need.at].push(at));
    }
    let mut free: BinaryHeap<Reverse<usize>> = (0..calls.len()).filter(|at| missing[*at] == 0).map(Reverse).collect();
    let mut order: Vec<usize> = Vec::with_capacity(calls.len());
    while let Some(Reverse(next)) = free.pop() {
        order.push(next);
        for at in &needed[next] {
            missing[*at] -= 1;
            if missing[*at] == 0 {
                free.push(Reverse(*at));
            }
        }
    }
    if order.len() < calls.len() {
        let stuck = (0..calls.len()).filter(|at| missing[*at] > 0);
        let names: Vec<String> = stuck.clone().map(|at| format!("`{}`", calls[at].name)).collect();
        let place = stuck.map(|at| places[at].1).next().unwrap_or_default();
        let message = format!("{} wait for each other's answers", names.join(", "));
        let message = if names.len() == 1 { format!("{} waits for its own answer", names[0]) } else { message };
        return problems.error(place, message, "one of them must do without the others");
    }
    Some(order)
}

fn explain(calls: &[NamedRequest], cx: &mut Compile<'_>) {
    let line = |call: &NamedRequest| {
        let needs: Vec<String> = call.needs.iter().map(|need| format!("${}", calls[need.at].name)).collect();
        if needs.is_empty() { call.text.clone() } else { format!("{}, after {}", call.text, needs.join(", ")) }
    };
    let lines: Vec<String> = calls.iter().map(line).collect();
    let waits = calls.iter().any(|call| !call.needs.is_empty());
    let waits = waits.then_some("a call that uses another's answer waits until that is read whole");
    let most = calls.iter().fold(0_u64, |sum, call| sum.saturating_add(call.calls));
    cx.explain(format!("requests, side by side: {}", lines.join("; ")), waits, most);
    let answered = calls.iter().filter(|call| call.source.detach().is_none()).count();
    cx.flow.shape = if answered == 0 { Shape::One } else { Shape::Many(answered as u64) };
}

struct NamedRequest {
    name: Arc<str>,
    /// Where its answer comes from.
    source: AnswerSource,
    /// The calls whose answers it takes out of `$answers`.
    answers: Vec<String>,
    /// The calls that it waits for.
    needs: Vec<AnswerNeed>,
    /// The most calls that it makes.
    calls: u64,
    /// For `explain`.
    text: String,
}

/// The parts of another call's answer that a call needs.
#[derive(Clone, Copy)]
struct AnswerNeed {
    at: usize,
    /// Whether it uses the value, and not only what was answered.
    value: bool,
    /// Whether it uses what was answered.
    answer: bool,
}

impl NamedRequest {
    fn need(&mut self, names: &[Arc<str>]) {
        let need = |(at, name): (usize, &Arc<str>)| {
            let value = self.source.uses(name);
            let answer = self.answers.iter().any(|taken| **taken == **name);
            (value || answer).then_some(AnswerNeed { at, value, answer })
        };
        self.needs = names.iter().enumerate().filter_map(need).collect();
    }
}

struct ReadyRequests {
    calls: Vec<NamedRequest>,
    /// Each behind those that it needs.
    order: Vec<usize>,
}

/// An answer that others use as well: read, and shared.
#[derive(Clone)]
struct Read {
    status: http::StatusCode,
    headers: AnswerFields,
    data: Data,
    names: Names,
    upstream: Option<Arc<str>>,
    accepted: bool,
}

type SharedRead = Shared<BoxFuture<'static, Result<Option<Read>, Error>>>;

impl ReadyStep for ReadyRequests {
    fn begin(self: Arc<Self>, scope: &Arc<Scope>) -> Flow {
        let mut readings: Vec<Option<SharedRead>> = vec![None; self.calls.len()];
        let mut outcomes: Vec<Option<BoxFuture<'static, Outcome>>> = self.calls.iter().map(|_| None).collect();
        for &at in &self.order {
            let call = &self.calls[at];
            let needs = call.needs.iter().filter_map(|need| {
                let (name, reading) = (self.calls[need.at].name.clone(), readings[need.at].clone()?);
                Some(Needed { need: *need, name, reading })
            });
            if let Some(detach) = call.source.detach() {
                outcomes[at] = detached(call, detach, needs.collect(), scope);
                continue;
            }
            let making: BoxFuture<'static, Outcome> = match call.needs.is_empty() {
                true => call.source.ask(None, scope.clone()),
                false => Box::pin(make(call.source.clone(), needs.collect(), scope.clone())),
            };
            let needed = |other: &NamedRequest| other.needs.iter().any(|need| need.at == at);
            outcomes[at] = Some(match self.calls.iter().any(needed) {
                false => making,
                true => {
                    let reading = read(making, call.source.terms().max_body, call.name.clone()).boxed().shared();
                    readings[at] = Some(reading.clone());
                    Box::pin(reading.map(|read| Some(read.transpose()?.map(Read::answer))))
                }
            });
        }
        let named = self.calls.iter().zip(outcomes);
        let producer = |(call, outcome): (&NamedRequest, Option<BoxFuture<'static, Outcome>>)| {
            Some(Producer {
                id: scope.next_producer(),
                name: Some(call.name.clone()),
                outcome: Awaited::Later(outcome?),
            })
        };
        let producers: Vec<Producer> = named.filter_map(producer).collect();
        if producers.is_empty() {
            // Nobody waits for any of them.
            return Flow::of(vec![Producer::here(scope.next_producer(), Some(Ok(Answer::of_value(jq::null()))))]);
        }
        Flow::of(producers)
    }

    /// Never behind another step: `compile` refuses that.
    fn run(self: Arc<Self>, _: Flow, scope: &Arc<Scope>) -> Flow {
        self.begin(scope)
    }
}

/// An answer that a call waits for.
struct Needed {
    need: AnswerNeed,
    name: Arc<str>,
    reading: SharedRead,
}

/// Begins a call that nobody waits for. What is given is why it cannot begin, in place of an answer.
fn detached(
    call: &NamedRequest,
    detach: &Detach,
    needs: Vec<Needed>,
    scope: &Arc<Scope>,
) -> Option<BoxFuture<'static, Outcome>> {
    let places = match detach.enter(1) {
        Ok(places) => places,
        Err(error) => return Some(Box::pin(ready(Some(Err(call.source.terms().name(error)))))),
    };
    let (source, scope) = (call.source.clone(), scope.clone());
    let ask = move |names| source.ask(names, scope.clone());
    detach.begin(call.source.terms().step.clone(), places, gather(needs), ask);
    None
}

/// Makes a call when all the answers that it uses are there.
async fn make(source: AnswerSource, needs: Vec<Needed>, scope: Arc<Scope>) -> Outcome {
    match gather(needs).await {
        Ok(names) => source.ask(names, scope).await,
        Err(error) => Some(source.terms().substitute().ok_or(error)),
    }
}

/// The answers that a call uses.
async fn gather(needs: Vec<Needed>) -> Result<Names, Error> {
    let mut names = NamedResults::default();
    let mut answers = Vec::new();
    let read = join_all(needs.iter().map(|needed| needed.reading.clone())).await;
    for (Needed { need, name, .. }, read) in needs.into_iter().zip(read) {
        if need.answer {
            answers.push((name.clone(), answer_data(&read)));
        }
        if !need.value {
            continue;
        }
        let read = read.and_then(|read| read.map(|read| read.usable(&name)).transpose())?;
        names.values.extend(read.map(|read| (name, read.data)));
    }
    if !answers.is_empty() {
        names.values.push(answers::gather(answers));
    }
    Ok(Some(Arc::new(names)))
}

/// The answer of a call, for `$answers`.
fn answer_data(read: &Result<Option<Read>, Error>) -> Data {
    match read {
        Ok(Some(read)) => answers::of(&read.names).cloned().unwrap_or_else(|| jq::null().into()),
        Ok(None) => jq::null().into(),
        Err(error) => answers::failed(error).into(),
    }
}

async fn read(making: BoxFuture<'static, Outcome>, bound: usize, name: Arc<str>) -> Result<Option<Read>, Error> {
    let Some(answer) = making.await.transpose()? else { return Ok(None) };
    let (status, headers, names) = (answer.status, answer.headers.clone(), answer.names.clone());
    let (upstream, accepted) = (answer.upstream.clone(), answer.accepted);
    let usable = answer.is_usable();
    let data = match format::data(answer, bound).await {
        // A body that no step uses need not be readable.
        Err(_) if !usable => jq::null().into(),
        data => data.map_err(|error| error.at_step(format!("requests.{name}")))?,
    };
    Ok(Some(Read { status, headers, data, names, upstream, accepted }))
}

impl Read {
    fn answer(self) -> Answer {
        let (status, headers, names) = (self.status, self.headers, self.names);
        let (upstream, accepted) = (self.upstream, self.accepted);
        Answer { status, headers, names, upstream, accepted, ..Answer::of_value(self.data) }
    }

    /// The part that other calls may use.
    fn usable(self, name: &str) -> Result<Self, Error> {
        if self.accepted || self.status.is_success() {
            return Ok(self);
        }
        let error = failure(self.status, &self.headers, &self.data).at_step(format!("requests.{name}"));
        Err(self.upstream.iter().fold(error, Error::of_upstream))
    }
}
