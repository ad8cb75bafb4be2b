//! `request`: calls an upstream, once for each item or for each value of a list.

pub(crate) mod batch;
pub(crate) mod collect;
mod rewrite;

use std::borrow::Cow;
use std::future::ready;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::{BoxFuture, Either};
use futures_util::stream::{BoxStream, StreamExt};
use http::header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};

use self::batch::{Asking, Batch};
use self::collect::{Collector, Coming, seated};
use self::rewrite::Rewrite;
use crate::error::{Error, Kind};
use crate::flow::{Answer, Awaited, Base, Body, Flow, Named, Names, Order, Outcome, Passage, Producer};
use crate::format;
use crate::jq::{self, Data, Filter, Value};
use crate::offload::{self, Work};
use crate::problem::{Problems, Span};
use crate::record::{CallNote, CallingStep};
use crate::scope::Scope;
use crate::scope::memo::Document;
use crate::spec;
use crate::spec::{Entries, Expression, Literal, Located, Size, Timeout, only};
use crate::step::answers::{ANSWER, Asked};
use crate::step::status::{OnStatus, Rules};
use crate::step::view::View;
use crate::step::{Blame, Compile, MAX_BODY, Shape, Spec, Step, StreamSpec, ask_whole, evaluate, holds, weigh};
use crate::template::{Source, Template, TemplateKind};
use crate::upstream::{Call, Events, Likeness, RewriteSpec, Root, TimeoutSpec, Timeouts, Upstream};

/// However many values there are, so many calls of one request run side by side behind other steps.
const MOST_AT_ONCE: usize = 1024;

spec! {
    /// Calls an upstream: once, once for each item that flows in, or once for each value of `for_each`. Written short
    /// as `UPSTREAM /path`. An answer that flows in with another status than 2xx passes unchanged, without a call.
    pub struct Request {
        /// The name of the upstream.
        pub to: Located<String>,
        /// Path and query. `{word}` is a parameter of the endpoint's path, `{*word}` the rest of that path as it came.
        /// Any other `{…}` is an expression; its value is percent-encoded as one segment or one query value. `{*…}`
        /// inserts several segments. `?*` at the end sends the client's query as it came. A query parameter whose value
        /// is null or empty is left out, with its name.
        pub path: Located<String>,
        /// The method. By default, the first step of a pipeline uses the client's method and streams the client's body,
        /// if it makes one call. All other calls use GET, or POST if they have a `body`.
        pub method: Option<Located<String>>,
        /// Header fields to send; each value is a text with `{}`, as in `path`. They replace forwarded fields of the
        /// same name. A field whose value is null or empty is left out.
        pub headers: Option<Entries<Located<String>>>,
        /// An expression. Its value is sent as a JSON body.
        pub body: Option<Expression>,
        /// An expression that gives values. One call is made for each of them; in `path`, `headers` and `body`, `.` is
        /// the value. All calls start at once, unless `concurrency` is set.
        pub for_each: Option<Expression>,
        /// The most calls for `for_each`. More values are an error.
        pub limit: Located<u64> = Located::new(100, Default::default()),
        /// With `for_each`: the most calls at the same time. Further calls wait. No limit by default.
        pub concurrency: Option<Located<NonZeroUsize>>,
        /// With `for_each`: asks for several values in one call.
        pub batch: Option<Batch>,
        /// A condition. If it is false or null, the call is not made; the result is `otherwise`, or null.
        pub when: Option<Expression>,
        /// How long the call may take: one time for the whole call, or a time for each phase.
        pub timeout: Option<TimeoutSpec>,
        /// The value to use if the call fails, or if the answer has another status than 2xx. To know that, the gateway
        /// then reads the whole body, within `max_body`, before it goes on.
        pub otherwise: Option<Located<Literal>>,
        /// What to do by the status of the answer, or by its class: `{ 404: null, 409: pass, 5xx: fail }`. `pass` uses
        /// the answer as if its status were 2xx. `fail` makes the call fail, also if it has `otherwise`. Any other
        /// value is used instead of the answer.
        pub on_status: Option<OnStatus>,
        /// Overrides `rewrite` of the upstream for this call. Only for the first step, if its answer is handed on.
        pub rewrite: Option<Located<RewriteSpec>>,
        /// The most bytes of a body that are read for `otherwise` or for an expression.
        pub max_body: Located<Size> = Located::new(MAX_BODY, Default::default()),
    }
    short(short)
}

impl Request {
    /// Reads the short form, `UPSTREAM /path`.
    pub fn short(text: Located<String>, problems: &mut Problems) -> Option<Self> {
        short(text, problems)
    }
}

/// `UPSTREAM /path`
fn short(text: Located<String>, problems: &mut Problems) -> Option<Request> {
    let Some((to, path)) = text.value.split_once(char::is_whitespace) else {
        let remedy = match text.value.contains("://") {
            true => "write an upstream's name and a path here, and its URL under `upstreams`",
            false => "write the upstream's name, a space, and a path that begins with `/`",
        };
        return problems.error(text.span, "a call in short form is `UPSTREAM /path`", remedy);
    };
    let path_at = text.value.len() - path.trim_start().len();
    let located = |at: usize, value: &str| text.part(at, value.len());
    only([("to", located(0, to)), ("path", located(path_at, path.trim()))], problems)
}

/// Whether a field stands in the file, and is not its default.
fn is_written(place: Span) -> bool {
    place.line > 0
}

/// One call, ready to be made for any item.
pub(crate) struct Calling {
    /// For errors: `request`, or `requests.NAME`.
    step: Cow<'static, str>,
    /// For records.
    noted: Arc<CallingStep>,
    upstream: Arc<Upstream>,
    target: Template,
    client_query: bool,
    /// Whether it may be the client's own request, handed on: it is the first step, and one call.
    own: bool,
    method: Verb,
    headers: Vec<(HeaderName, Template)>,
    /// What makes fields of its answers that point into the upstream point to the gateway.
    rewrite: Option<Rewrite>,
    body: Sent,
    timeouts: Option<Arc<Timeouts>>,
    when: Option<Filter>,
    otherwise: Option<Value>,
    on_status: Rules,
    max_body: usize,
    reads_item: bool,
    /// Whether it has expressions.
    evaluates: bool,
    /// The variables that it uses.
    uses: Vec<String>,
    blame: Blame,
    /// Whether its answers say where they came from.
    notes_base: bool,
    /// Whether anybody asks for the status and the fields of its answers.
    asked: Asked,
    /// Whether a step reads its answers.
    is_read: bool,
}

/// A call, or why there is none.
type Prepared = Result<Call, Error>;

/// How far a call is when it is begun.
enum Begun<C> {
    Calling(C, Names),
    Failed(Error, Names),
    /// There is no call.
    Over(Outcome),
}

/// What a call is made for.
enum Given {
    Item(Data, Names),
    /// It has to be read.
    Other(Outcome),
    /// There is no call.
    Over(Outcome),
}

/// The method of a call.
enum Verb {
    /// The client's own.
    Clients,
    Fixed(Method),
}

/// The body of a call.
enum Sent {
    Nothing,
    /// The client's own, as it comes.
    Clients,
    Json(Box<Filter>),
}

impl Spec for Request {
    fn compile(self, cx: &mut Compile<'_>) -> Option<Box<dyn Step>> {
        let for_each = self.for_each.as_ref().map(|expression| cx.filter(expression));
        let each = for_each.is_some();
        let (limit, text, place) = (self.limit.value, self.describe(), self.path.span);
        let (bound, reads) = (self.max_body.span, self.reads_whole(cx));
        let batch = self.batch.clone().filter(|_| each);
        let at_once = self.concurrency.as_ref().map_or(usize::MAX, |most| most.value.get());
        self.check_concurrency(cx)?;
        let made = match &batch {
            Some(_) => self.asking("request", cx).map(|asking| (asking.calling.clone(), Some(Arc::new(asking)))),
            None if each => {
                cx.of_values(|cx| self.calling("request".into(), cx, true)).map(|calling| (Arc::new(calling), None))
            }
            None => self.calling("request".into(), cx, false).map(|calling| (Arc::new(calling), None)),
        };
        // Not before the call was looked at as well: every problem is told.
        let (for_each, (calling, asking)) = (for_each.map_or(Some(None), |filter| filter.map(Some))?, made?);
        if is_written(bound) && !reads && !calling.reads_item {
            cx.problems.warning(bound, "`max_body` bounds nothing: this call reads no body whole", "leave it out");
        }
        if each && batch.is_none() && calling.is_the_same() {
            let remedy = "put the value into the path, as `{.}`, or leave out `for_each`";
            cx.problems.warning(place, "every value makes the same call", remedy);
        }
        if !each && matches!(cx.shape, Shape::Many(_)) && calling.is_the_same() {
            let remedy = "call it once: name it in `requests`, and use its `$name`";
            cx.problems.warning(place, "every item makes the same call", remedy);
        }
        let before = cx.shape.most();
        let most = if each { before.saturating_mul(limit) } else { before };
        match &batch {
            Some(batch) => {
                let waits = "the answer to a batch is read whole; other batches do not wait for it";
                cx.explain(text, Some(waits), before.saturating_mul(batch.calls(limit)));
                cx.shape = Shape::Many(most);
            }
            None => {
                cx.shape = if each { Shape::Many(most) } else { cx.shape };
                cx.explain(text, calling.waits(), most);
            }
        }
        cx.know(ANSWER);
        let first = cx.first;
        let for_each = for_each.map(|filter| {
            let blame = Blame::of(&filter, first);
            Arc::new(ForEach { filter, limit, blame })
        });
        Some(Box::new(Calls { calling, asking, for_each, at_once, order: cx.order }))
    }
}

impl Request {
    /// The call itself, without `for_each`; `each` says that its `.` is a value of one.
    pub(crate) fn calling(self, step: Cow<'static, str>, cx: &mut Compile<'_>, each: bool) -> Option<Calling> {
        if self.batch.is_some() {
            let remedy = "give the values with `for_each`, or put this call into a `follow` as its `request`";
            cx.problems.error::<()>(self.path.span, "a `batch` without values to ask for", remedy);
            cx.item = true;
        }
        if is_written(self.limit.span) && self.for_each.is_none() {
            let remedy = "leave it out: this is one call";
            cx.problems.error::<()>(self.limit.span, "`limit` without `for_each`", remedy);
        }
        let upstream = cx.upstream(&self.to);
        let (path, client_query) = self.target();
        let starts_right = path.value.starts_with('/');
        if !starts_right {
            let remedy = "begin it with `/`; the upstream's own path stands before it";
            cx.problems.error::<()>(path.span, "a path begins with `/`", remedy);
        }
        let target = cx.template(&path, TemplateKind::Target);
        let own = cx.first && !each;
        let method = method(&self, own, cx);
        let headers = headers(self.headers.as_ref(), cx);
        let body = body(&self, own, cx);
        let when = self.when.as_ref().map_or(Some(None), |when| cx.condition(when).map(Some));
        let otherwise = cx.literal(self.otherwise.as_ref());
        let rewritten = self.rewritten(own && !cx.follows, upstream.as_deref(), cx);
        let on_status = self.on_status.map_or(Some(Rules::default()), |rules| rules.compile(cx));
        let is_read = cx.reads || each || cx.shape != Shape::One || self.otherwise.is_some();
        let (upstream, target, method, headers, body) = (upstream?, target?, method?, headers?, body?);
        let (when, otherwise, on_status) = (when?, otherwise?.map(|value| value.value()), on_status?);
        let rewrite = if rewritten { Rewrite::new(&target, cx.path) } else { None };
        let templates = std::iter::once(&target).chain(headers.iter().map(|(_, template)| template));
        let filters: Vec<&Filter> =
            templates.flat_map(Template::filters).chain(body_filter(&body)).chain(&when).collect();
        let blames: Vec<Blame> = filters.iter().map(|filter| Blame::of(filter, cx.first)).collect();
        let blame = if blames.contains(&Blame::Upstream) { Blame::Upstream } else { Blame::Client };
        let reads_item = filters.iter().any(|filter| filter.reads_item());
        let evaluates = !filters.is_empty();
        let uses = filters.iter().flat_map(|filter| filter.uses().iter().cloned()).collect();
        let streams = cx.stream == StreamSpec::On && cx.first;
        let timeouts = timeouts(self.timeout.as_ref(), upstream.timeouts(), streams).map(Arc::new);
        Some(Calling {
            noted: cx.calling(&step),
            step,
            upstream,
            target,
            client_query,
            own,
            method,
            headers,
            rewrite,
            body,
            timeouts,
            when,
            otherwise,
            on_status,
            uses,
            max_body: self.max_body.value.bytes(),
            reads_item,
            evaluates,
            blame,
            notes_base: cx.follows,
            asked: cx.asked.clone(),
            is_read,
        })
        .filter(|_| starts_right)
    }

    /// Whether fields of its answers that point into the upstream point to the gateway instead.
    fn rewritten(&self, handed_on: bool, upstream: Option<&Upstream>, cx: &mut Compile<'_>) -> bool {
        match &self.rewrite {
            Some(written) if !handed_on => {
                let remedy = "leave it out; in a pipeline that follows links, links stay as the upstream wrote them";
                cx.problems.error::<()>(written.span, "`rewrite` is for an answer that is handed on", remedy);
                false
            }
            Some(written) => written.value == RewriteSpec::On,
            None => handed_on && upstream.is_some_and(|upstream| upstream.rewrite() == RewriteSpec::On),
        }
    }

    /// Whether it reads bodies whole, whatever its expressions read.
    fn reads_whole(&self, cx: &Compile<'_>) -> bool {
        let spreads = self.for_each.is_some() && cx.item;
        self.otherwise.is_some() || self.on_status.is_some() || self.batch.is_some() || spreads
    }

    fn check_concurrency(&self, cx: &mut Compile<'_>) -> Option<()> {
        let Some(place) = self.concurrency.as_ref().map(|most| most.span) else { return Some(()) };
        if self.for_each.is_none() {
            let remedy = "leave it out; of calls behind `each`, its `concurrency` says how many run at once";
            return cx.problems.error(place, "`concurrency` without `for_each`", remedy);
        }
        if self.batch.is_some() {
            let remedy = "leave one out; `in_flight` of the upstream bounds its calls as well";
            return cx.problems.error(place, "`concurrency` beside `batch`", remedy);
        }
        Some(())
    }

    /// The path without a `?*` at its end, and whether it had one.
    fn target(&self) -> (Located<String>, bool) {
        match self.path.value.strip_suffix("?*") {
            Some(path) => (self.path.part(0, path.len()), true),
            None => (self.path.clone(), false),
        }
    }

    fn describe(&self) -> String {
        let each = match &self.for_each {
            Some(expression) => format!(", for each of {}", expression.0.value),
            None => String::new(),
        };
        let batches = self.batch.as_ref().map(Batch::describe).unwrap_or_default();
        let at_once = self.concurrency.as_ref().map(|most| format!(", at most {most} at once")).unwrap_or_default();
        format!("request {} {}{each}{batches}{at_once}", self.to.value, self.path.value)
    }
}

/// The times of a call, where they are not the upstream's. One that streams may rest and go on, unless the call itself says how
/// long.
fn timeouts(written: Option<&TimeoutSpec>, upstream: &Timeouts, streams: bool) -> Option<Timeouts> {
    let usual = match streams {
        true => Timeouts { idle: Timeout::Never, call: Timeout::Never, ..upstream.clone() },
        false => upstream.clone(),
    };
    written.map(|written| written.over(&usual)).or_else(|| streams.then_some(usual))
}

fn method(spec: &Request, own: bool, cx: &mut Compile<'_>) -> Option<Verb> {
    let Some(written) = &spec.method else {
        return Some(match &spec.body {
            Some(_) => Verb::Fixed(Method::POST),
            None if own => Verb::Clients,
            None => Verb::Fixed(Method::GET),
        });
    };
    match Method::from_bytes(written.value.as_bytes()) {
        Ok(method) if written.value.bytes().all(|byte| byte.is_ascii_uppercase()) && method != Method::CONNECT => {
            Some(Verb::Fixed(method))
        }
        _ => cx.problems.error(
            written.span,
            format!("`{}` is no method for a call", written.value),
            "write GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS, in capitals",
        ),
    }
}

fn headers(written: Option<&Entries<Located<String>>>, cx: &mut Compile<'_>) -> Option<Vec<(HeaderName, Template)>> {
    let mut headers = Some(Vec::new());
    for (name, (span, text)) in written.into_iter().flatten() {
        let template = cx.template(text, TemplateKind::Field);
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().filter(crate::upstream::may_send);
        if parsed.is_none() {
            let remedy = "names are of letters, digits and `-`; framing and hop-by-hop fields are the gateway's own";
            cx.problems.error::<()>(*span, format!("`{name}` cannot be set as a header field"), remedy);
        }
        headers = match (headers, parsed, template) {
            (Some(mut headers), Some(name), Some(template)) => {
                headers.push((name, template));
                Some(headers)
            }
            _ => None,
        };
    }
    headers
}

fn body(spec: &Request, own: bool, cx: &mut Compile<'_>) -> Option<Sent> {
    if let Some(expression) = &spec.body {
        return cx.filter(expression).map(|filter| Sent::Json(Box::new(filter)));
    }
    let method = spec.method.as_ref().map(Located::as_str);
    if own && (method.is_none() || method == cx.method.map(Method::as_str)) {
        return Some(Sent::Clients);
    }
    Some(Sent::Nothing)
}

/// Whether a request of this method says what its body is, even if that is empty.
fn takes_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

fn body_filter(body: &Sent) -> Option<&Filter> {
    match body {
        Sent::Json(filter) => Some(filter),
        Sent::Nothing | Sent::Clients => None,
    }
}

/// Adds the fields by which a client and a server agree on WebSocket (RFC 6455, 4.1): without them there is none.
fn shake_hands(scope: &Scope, headers: &mut HeaderMap) {
    for name in scope.headers().keys().filter(|name| name.as_str().starts_with("sec-websocket-")) {
        if !headers.contains_key(name) {
            let values = scope.headers().get_all(name).iter();
            headers.extend(values.map(|value| (name.clone(), value.clone())));
        }
    }
}

/// The names, with where the answer comes from.
fn rebased(names: &Names, base: Base) -> Names {
    let mut known: Named = names.as_deref().cloned().unwrap_or_default();
    known.set_document(base);
    Some(Arc::new(known))
}

impl Calling {
    /// Why a call must wait for something before it can begin or end.
    pub(crate) fn waits(&self) -> Option<&'static str> {
        match (self.reads_item, &self.otherwise) {
            (_, Some(_)) => Some("the answer is read whole, for `otherwise`"),
            _ => None,
        }
    }

    /// Makes the call for an item.
    pub(crate) async fn make(self: Arc<Self>, item: Data, names: Names, scope: Arc<Scope>) -> Outcome {
        let begun = match self.prepared(item, &names, &scope) {
            Either::Left(here) => self.begin(here.into_inner(), names),
            Either::Right(lent) => self.begin(lent.await, names),
        };
        let (called, mut names) = match begun {
            Begun::Over(outcome) => return outcome,
            Begun::Failed(error, names) => (Err(error), names),
            Begun::Calling(calling, names) => (calling.await, names),
        };
        self.asked.note(&mut names, &called);
        let called = called.map(|answer| self.rewritten(answer, &scope));
        let answer = match self.on_status.is_empty() && self.otherwise.is_none() {
            true => called,
            // Boxed: calls without these would carry the room.
            false => Box::pin(self.settle(called)).await,
        };
        Some(match answer {
            Ok(answer) => Ok(Answer { names, ..answer }),
            Err(error) => Err(error.at_step(self.step.clone())),
        })
    }

    /// Starts the call, if there is one.
    fn begin(
        &self,
        prepared: Result<Option<Prepared>, Error>,
        mut names: Names,
    ) -> Begun<impl Future<Output = Result<Answer, Error>> + Send + use<>> {
        match prepared {
            Ok(Some(Ok(call))) => {
                self.note(&call, &mut names);
                Begun::Calling(self.upstream.call(call), names)
            }
            Ok(Some(Err(error))) => Begun::Failed(error, names),
            Ok(None) => Begun::Over(Some(Ok(self.unmade(names)))),
            Err(error) => Begun::Over(Some(Err(error.at_step(self.step.clone())))),
        }
    }

    /// The answer with its fields as clients may see them.
    fn rewritten(&self, mut answer: Answer, scope: &Scope) -> Answer {
        if let Some(rewrite) = &self.rewrite {
            rewrite.apply(&mut answer.headers, &self.upstream, scope);
        }
        answer
    }

    /// What the call is made for, and what is known of it, where it is at hand.
    fn item_here(&self, outcome: Outcome) -> Given {
        match outcome {
            Some(Ok(answer)) if answer.is_usable() => match format::open_here(answer) {
                Ok((answer, item)) => Given::Item(item, answer.names),
                Err(answer) => Given::Other(Some(Ok(answer))),
            },
            other => Given::Over(other),
        }
    }

    /// The call, or why it fails; none where `when` says so.
    fn prepared(self: &Arc<Self>, item: Data, names: &Names, scope: &Arc<Scope>) -> Work<Option<Prepared>> {
        if !self.evaluates {
            return Either::Left(ready(Ok(Some(self.prepare_one(&jq::null().into(), names, scope)))));
        }
        let own = if self.reads_item { item.weight() } else { 0 };
        let weight = own + scope.weight(&self.uses, names);
        let here = || self.prepare_wanted(&item, names, scope);
        let lent = || {
            let (calling, item, names, scope) = (self.clone(), item.clone(), names.clone(), scope.clone());
            move || calling.prepare_wanted(&item, &names, &scope)
        };
        offload::run_or(weight, here, lent)
    }

    fn prepare_wanted(&self, item: &Data, names: &Names, scope: &Scope) -> Result<Option<Prepared>, Error> {
        let wanted = self.wanted(item, names, scope)?;
        Ok(wanted.then(|| self.prepare_one(item, names, scope)))
    }

    fn prepare_one(&self, item: &Data, names: &Names, scope: &Scope) -> Prepared {
        let call = self.prepare(item, names, scope);
        call.map_err(|error| self.blame.lay(error).of_upstream(self.upstream.name()))
    }

    /// What stands for the answer where `when` says that there is no call.
    fn unmade(&self, mut names: Names) -> Answer {
        self.asked.note_nothing(&mut names);
        Answer { names, ..Answer::of_value(self.otherwise.clone().unwrap_or_else(jq::null)) }
    }

    /// The same for a value that is asked for together with others.
    async fn ask(
        self: Arc<Self>,
        value: Value,
        names: Names,
        scope: Arc<Scope>,
        collector: Arc<Collector>,
        coming: Coming,
    ) -> Outcome {
        let mut names = names;
        let (calling, asked, known, request) = (self.clone(), Data::from(value.clone()), names.clone(), scope.clone());
        let wanted = move || calling.wanted(&asked, &known, &request);
        match offload::run(scope.weight(&self.uses, &names), wanted).await {
            Ok(true) => {}
            Ok(false) => return Some(Ok(self.unmade(names))),
            Err(error) => return Some(Err(error.at_step(self.step.clone()))),
        }
        let fetched = seated(collector.ask(value, names.clone()), coming).await;
        self.asked.note_document(&mut names, &fetched);
        let picked = match fetched {
            Ok(document) => match self.on_status.rule(&document) {
                ControlFlow::Break(ruled) => return Some(self.stand_for(ruled, names)),
                ControlFlow::Continue(Ok(_)) => self.pick(&document, &names),
                ControlFlow::Continue(Err(error)) => Err(error.of_upstream(self.upstream.name())),
            },
            Err(error) => Err(error),
        };
        Some(match (picked, &self.otherwise) {
            (Err(_), Some(otherwise)) => self.stand_for(Ok(otherwise.clone().into()), names),
            (picked, _) => picked.map_err(|error| error.at_step(self.step.clone())),
        })
    }

    /// What a rule says, as the answer.
    fn stand_for(&self, ruled: Result<Data, Error>, names: Names) -> Result<Answer, Error> {
        match ruled {
            Ok(value) => Ok(Answer { names, ..Answer::of_value(value) }),
            Err(error) => Err(error.of_upstream(self.upstream.name()).at_step(self.step.clone())),
        }
    }

    /// The answer of one value, as if it had been asked for alone.
    fn pick(&self, document: &Document, names: &Names) -> Result<Answer, Error> {
        if document.data.is_null() {
            let error = Error::new(Kind::Missing, "the answer has nothing for this value");
            return Err(error.of_upstream(self.upstream.name()));
        }
        let mut headers = document.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let names = if self.notes_base { rebased(names, document.base.clone()) } else { names.clone() };
        let upstream = Some(self.upstream.name().clone());
        Ok(Answer { headers, names, upstream, ..Answer::of_value(document.data.clone()) })
    }

    fn wanted(&self, item: &Data, names: &Names, scope: &Scope) -> Result<bool, Error> {
        self.when.as_ref().map_or(Ok(true), |when| holds(when, item.clone(), names, scope, self.blame))
    }

    /// Whether it reads, and asks for the same whatever the item is.
    fn is_the_same(&self) -> bool {
        !self.reads_item && matches!(self.method, Verb::Fixed(Method::GET | Method::HEAD))
    }

    /// The named results that it uses.
    pub(crate) fn uses(&self) -> &[String] {
        &self.uses
    }

    /// What stands for its answer, if something does.
    pub(crate) fn otherwise(&self) -> Option<Answer> {
        self.otherwise.clone().map(Answer::of_value)
    }

    /// The most bytes of its answer that are read whole.
    pub(crate) fn max_body(&self) -> usize {
        self.max_body
    }

    /// Notes where the answer comes from.
    fn note(&self, call: &Call, names: &mut Names) {
        if self.notes_base {
            *names = rebased(names, Base::At(self.upstream.name().clone(), self.upstream.url(&call.target).into()));
        }
    }

    fn prepare(&self, item: &Data, names: &Names, scope: &Scope) -> Result<Call, Error> {
        let view = View { item, names, scope, blame: self.blame };
        let mut target = self.target.target(&view)?;
        if let (true, Some(query)) = (self.client_query, scope.forwarded_query()) {
            target.push('?');
            target.push_str(&query);
        }
        let method = match &self.method {
            Verb::Clients => scope.call_method().clone(),
            Verb::Fixed(method) => method.clone(),
        };
        let likeness = if let Sent::Clients = self.body { Likeness::Same } else { Likeness::Other };
        let mut headers = self.upstream.fields(scope, likeness)?;
        if self.is_read {
            ask_whole(&mut headers, &method);
        }
        for (name, template) in &self.headers {
            match view.field(name, template)? {
                Some(value) => drop(headers.insert(name.clone(), value)),
                None => drop(headers.remove(name)),
            }
        }
        let body = self.body(&view, &mut headers)?;
        let passage = match self.own && method == *scope.call_method() {
            true => scope.passage().clone(),
            false => Passage::default(),
        };
        if passage.upgrade.is_some() {
            shake_hands(scope, &mut headers);
        }
        let (timeouts, deadline, host) = (self.timeouts.clone(), scope.deadline(), self.upstream.host(scope));
        let events = if self.own && !self.is_read { Events::HandedOn } else { Events::Read };
        let (root, received) = (Root::Upstream, scope.version());
        let keeping = self.upstream.keeping(scope, &headers)?;
        let note = scope.record().map(|record| CallNote::new(record, &self.noted));
        Ok(Call {
            method,
            target,
            headers,
            body,
            timeouts,
            deadline,
            root,
            passage,
            events,
            host,
            received,
            keeping,
            note,
        })
    }

    fn body(&self, view: &View<'_>, headers: &mut HeaderMap) -> Result<Option<Body>, Error> {
        match &self.body {
            Sent::Nothing => Ok(None),
            Sent::Json(filter) => {
                headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
                Ok(Some(Body::Value(view.evaluate(filter)?.into_value())))
            }
            Sent::Clients => {
                let Some(body) = view.scope.take_body() else { return Ok(None) };
                if matches!(&body, Body::Bytes(bytes) if bytes.is_empty()) && !takes_body(view.scope.method()) {
                    return Ok(None);
                }
                for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE] {
                    if let (Some(value), false) = (view.scope.headers().get(&name), headers.contains_key(&name)) {
                        headers.insert(name, value.clone());
                    }
                }
                Ok(Some(body))
            }
        }
    }

    /// What the call gave, or what stands for it.
    async fn settle(&self, called: Result<Answer, Error>) -> Result<Answer, Error> {
        let called = match called {
            Ok(answer) => match self.on_status.judge(answer).await {
                ControlFlow::Continue(answer) => Ok(answer),
                ControlFlow::Break(ruled) => return ruled,
            },
            failed => failed,
        };
        match &self.otherwise {
            None => called,
            // A tunnel has no body to read.
            Some(_) if matches!(&called, Ok(Answer { body: Body::Tunnel(_), .. })) => called,
            // Boxed: calls without this would carry the room.
            Some(otherwise) => {
                Ok(Box::pin(self.whole(called)).await.unwrap_or_else(|| Answer::of_value(otherwise.clone())))
            }
        }
    }

    /// The whole answer as a value, if it is one that can be used.
    async fn whole(&self, called: Result<Answer, Error>) -> Option<Answer> {
        let answer = called.ok().filter(Answer::is_usable)?;
        let answer = format::plain(answer).ok()?;
        let (status, headers, accepted) = (answer.status, answer.headers.clone(), answer.accepted);
        let data = format::data(answer, self.max_body).await.ok()?;
        Some(Answer { status, headers, accepted, ..Answer::of_value(data) })
    }
}

/// The step.
struct Calls {
    calling: Arc<Calling>,
    /// For calls in batches.
    asking: Option<Arc<Asking>>,
    for_each: Option<Arc<ForEach>>,
    /// At most so many calls of `for_each` side by side.
    at_once: usize,
    /// In which order items that become several calls follow each other.
    order: Order,
}

struct ForEach {
    filter: Filter,
    limit: u64,
    blame: Blame,
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
        let values = evaluate(&self.filter, item.into_value(), names, scope, self.blame);
        let values = values.map_err(|error| error.at_step("request"))?;
        if values.len() as u64 > self.limit {
            let detail = format!("`for_each` gives {} values; the limit is {}", values.len(), self.limit);
            return Err(self.blame.lay(Error::new(Kind::Expression, detail)).at_step("request"));
        }
        Ok(values)
    }
}

impl Step for Calls {
    fn begin(&self, scope: &Arc<Scope>) -> Flow {
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

    fn run(&self, flow: Flow, scope: &Arc<Scope>) -> Flow {
        match &self.for_each {
            None => {
                let (calling, scope) = (self.calling.clone(), scope.clone());
                flow.map(move |producer| {
                    let (calling, scope) = (calling.clone(), scope.clone());
                    let outcome = match producer.outcome {
                        Awaited::Here(outcome) => match calling.item_here(outcome) {
                            Given::Item(item, names) => Awaited::later(calling.make(item, names, scope)),
                            Given::Other(outcome) => Awaited::later(follow(calling, outcome, scope)),
                            Given::Over(outcome) => Awaited::Here(outcome),
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
        Given::Item(item, names) => calling.make(item, names, scope).await,
        // Boxed: items that are at hand would carry the room.
        Given::Other(outcome) => Box::pin(follow(calling, outcome, scope)).await,
        Given::Over(outcome) => outcome,
    }
}

/// Calls for the item that a producer yields.
async fn follow(calling: Arc<Calling>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
    let answer = match outcome? {
        Ok(answer) if answer.is_usable() => answer,
        other => return Some(other),
    };
    let (names, text) = (answer.names.clone(), format::Text::of(&answer));
    let item = match calling.reads_item {
        true => match format::data(answer, calling.max_body).await {
            Ok(item) => item,
            Err(error) => return Some(Err(error)),
        },
        false => jq::null().into(),
    };
    calling.make(item, names, scope).await.map(|made| made.map_err(|error| format::explain(text.as_ref(), error)))
}

impl Calls {
    fn call(&self, scope: &Arc<Scope>, item: Data, names: Names) -> Flow {
        Flow::one(scope.next_producer(), self.calling.clone().make(item, names, scope.clone()))
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
                None => Box::pin(calling.make(Data::from(item), names, scope)),
                Some(collector) => Box::pin(calling.ask(item, names, scope, collector.clone(), collector.expect())),
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
        let calls = Calls { calling, asking, for_each: None, at_once: self.at_once, order: self.order };
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
        let (names, text) = (answer.names.clone(), format::Text::of(&answer));
        let values = match format::data(answer, self.calling.max_body).await {
            Ok(item) => each.values(item, &names, &scope).await,
            Err(error) => Err(error),
        };
        match values.map_err(|error| format::explain(text.as_ref(), error)) {
            Ok(values) => self.producers(values, names, &scope, batches.as_ref().map(|(collector, _)| collector)),
            Err(error) => alone(Err(error)),
        }
    }
}
