//! The steps of a pipeline in order, each noted on the way: what a request runs through.

mod change;
mod check;
mod sequence;

use std::sync::Arc;

use futures_util::StreamExt;
use http::Method;
use http::header::{CACHE_CONTROL, VARY};

pub use self::change::AnswerChange;
use self::check::LostParts;
pub use self::check::{listed, often_has_body};
use crate::cache::{AnswerParts, Dependence};
use crate::config::problem::{Problems, Span};
use crate::config::spec::Located;
use crate::error::Error;
use crate::http::http1::AnswerFields;
use crate::jq::Read;
use crate::json::Raw;
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::pipeline::flow::{Flow, Order, Outcome};
use crate::pipeline::step::public_links::EndpointFacts;
use crate::pipeline::step::{
    About, Ahead, Compile, Known, LinkTemplate, Outline, PublicLinks, PublicWay, ReadyStep, Shape, StreamSpec,
    TakenParts,
};
use crate::pipeline::steps::{Written, spell_out};
use crate::request::context::Scope;
use crate::upstream::LinksSpec;

/// A pipeline, ready.
pub struct Plan {
    /// Whether something is to be done before it runs.
    waits: bool,
    /// The steps that may refuse a request before any other runs.
    guards: Vec<Arc<dyn ReadyStep>>,
    steps: Vec<Arc<dyn ReadyStep>>,
    shape: Shape,
    /// The largest body of a client that is read whole, in bytes.
    max_body: usize,
    reads_body: bool,
    /// Whether an expression makes something of the client's body, which then must be a value.
    needs_value: bool,
    /// The parts of the client's request that its calls take.
    taken: TakenParts,
    /// The parts of the client's request that nothing takes.
    lost: LostParts,
    timed: bool,
    /// Whether it asks a database.
    asks: bool,
    /// Whether what it gives is a stream that has no end of its own.
    endless: bool,
    /// The variables that its expressions use.
    uses: Vec<String>,
    /// The parts of variables that its answer depends on.
    reads: Box<[Read]>,
    /// The parts of a request on which its answers depend in a way that caches must know.
    dependence: Dependence,
    /// The parts on which they may depend, wherever links lead.
    reachable: Dependence,
    /// Whether its answers are made of parts, so that their fields have to be put together.
    composes: bool,
    /// Whether parts may come after the head of an answer.
    joins: bool,
    outline: Box<[Outline]>,
    /// How its paths are those of an upstream, if its first call is the client's request.
    way: Option<PublicWay>,
    /// The map of the links in its answers.
    links: Option<Arc<PublicLinks>>,
}

impl Plan {
    /// Compiles the steps in order. Every problem of every step is noted. `place` is where the pipeline is written.
    pub fn compile(
        written: Vec<Located<Written>>,
        known: Known<'_>,
        place: Span,
        problems: &mut Problems,
    ) -> Option<Self> {
        Plan::compile_with(written, Vec::new(), known, place, problems)
    }

    /// The same with expressions that change its answer at the end, in this order. They take the place of its body where its
    /// status is 2xx.
    pub fn compile_with(
        written: Vec<Located<Written>>,
        changes: Vec<AnswerChange>,
        known: Known<'_>,
        place: Span,
        problems: &mut Problems,
    ) -> Option<Self> {
        let cx = &mut Compile::new(known, place, problems);
        let written = spell_out(written);
        if written.iter().any(|step| matches!(step.value, Written::Unread)) {
            cx.problems.doubt();
        }
        let about: Vec<About> = written.iter().map(|step| step.value.about()).collect();
        let any = |is: fn(&About) -> bool| about.iter().any(is);
        let endless = known.route.stream == StreamSpec::On || any(|about| about.gives_events);
        let last = check::last(&written, &about, cx);
        let steps = compile_steps(written, &about, changes.len(), cx);
        let changes = compile_changes(changes, endless, cx);
        let steps = last.and(steps).zip(changes);
        let (guards, steps) = steps
            .map(|((guards, steps), changes)| (guards, steps.into_iter().chain(changes).collect::<ReadySteps>()))?;
        check::end(cx);
        check::waste(any(|about| about.merges), cx);
        let asks = any(|about| about.asks_database);
        let lost = check::lost(place, asks, cx);
        let composes = steps.len() != 1 || cx.flow.shape != Shape::One || asks;
        let mut dependence = std::mem::take(&mut cx.found.dependence);
        if composes && cx.found.names_client {
            dependence.personalise();
        }
        about.iter().for_each(|about| dependence.write(&about.writes));
        let way = cx.found.way.take();
        let mapped = cx.found.called.iter().any(|upstream| cx.maps_links(upstream));
        let links = mapped.then(|| {
            PublicLinks::new(EndpointFacts {
                table: known.table,
                written: known.route.links.map(LinksSpec::public),
                called: &cx.found.called,
                all: known.upstreams.values().filter(|upstream| !upstream.is_choice()).cloned().collect(),
                own: way.clone(),
            })
        });
        let links = links.flatten();
        let waits = !guards.is_empty() || cx.found.reads_body || !cx.found.taken_parts.copies.is_empty();
        Some(Plan {
            waits,
            guards,
            steps,
            shape: cx.flow.shape,
            max_body: known.route.max_body,
            timed: any(|about| about.looks_on),
            asks,
            dependence,
            reachable: std::mem::take(&mut cx.found.reachable),
            composes,
            joins: any(|about| about.joins) || cx.flow.shape != Shape::One,
            endless,
            uses: std::mem::take(&mut cx.found.used),
            reads: std::mem::take(&mut cx.found.reads).into(),
            reads_body: cx.found.reads_body,
            needs_value: cx.found.needs_value,
            taken: std::mem::take(&mut cx.found.taken_parts),
            lost,
            outline: std::mem::take(&mut cx.found.outline).into(),
            way: way.map(|(upstream, way)| PublicWay { upstream, way }),
            links,
        })
    }

    /// The lines of `explain`.
    pub fn outline(&self) -> &[Outline] {
        &self.outline
    }

    /// The templates that links which its steps follow are in a recorded answer.
    pub fn templates(&self, answer: &Raw) -> Vec<LinkTemplate> {
        let mut found: Vec<LinkTemplate> = Vec::new();
        for template in self.steps.iter().flat_map(|step| step.templates(answer)) {
            if !found.contains(&template) {
                found.push(template);
            }
        }
        found
    }

    /// How its paths are those of an upstream, if its first call is the client's request.
    pub fn take_way(&mut self) -> Option<PublicWay> {
        self.way.take()
    }

    /// The map of the links in its answers, if they are mapped.
    pub fn links(&self) -> Option<&PublicLinks> {
        self.links.as_deref()
    }

    pub fn calls(&self) -> u64 {
        Outline::calls_of(&self.outline)
    }

    /// Whether it is one call whose answer is handed on.
    pub fn is_proxy(&self) -> bool {
        self.steps.len() == 1 && self.shape == Shape::One && !self.asks && self.calls() > 0
    }

    /// Whether an expression uses this variable.
    pub fn uses(&self, name: &str) -> bool {
        self.uses.iter().any(|used| used == name)
    }

    /// The parts of variables that its expressions read, and those of the upstreams that it may call, each once.
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// The parts of a request on which its answers depend in a way that caches must know.
    pub fn dependence(&self) -> &Dependence {
        &self.dependence
    }

    /// The parts on which its answers may depend, wherever links lead.
    pub fn reachable(&self) -> &Dependence {
        &self.reachable
    }

    /// Whether its answers are made of parts.
    pub fn composes(&self) -> bool {
        self.composes
    }

    /// Whether parts may come after the head of an answer.
    pub fn joins(&self) -> bool {
        self.joins
    }

    /// The largest body of a client that is read whole, in bytes.
    pub fn max_body(&self) -> usize {
        self.max_body
    }

    /// Whether the client's body is read whole, for `$body`.
    pub fn reads_body(&self) -> bool {
        self.reads_body
    }

    /// Whether clients with a body that is no value are refused, since an expression makes something of `$body`.
    pub fn needs_value(&self) -> bool {
        self.needs_value
    }

    /// The parts of the client's request that its calls take.
    pub fn taken(&self) -> &TakenParts {
        &self.taken
    }

    /// Whether a client's body has nowhere to go: such requests are refused.
    pub fn refuses_body(&self) -> bool {
        self.lost.body
    }

    /// Whether it serves requests with this method. A call that is a GET by default does not stand for a client's DELETE.
    pub fn serves(&self, method: &Method) -> bool {
        let Some(served) = &self.lost.methods else { return true };
        served.contains(if *method == Method::HEAD { &Method::GET } else { method })
    }

    /// The methods that it serves, if not all.
    pub fn served(&self) -> &[Method] {
        self.lost.methods.as_deref().unwrap_or_default()
    }

    /// Whether its result is a stream of events, or another one that the configuration declares endless.
    pub fn is_endless(&self) -> bool {
        self.endless
    }

    /// Whether timers note when its messages pass.
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// Runs it for one request.
    ///
    /// # Errors
    /// The failure before the first part of an answer is there.
    pub fn answer(&self, scope: &Arc<Scope>) -> impl Future<Output = Outcome> {
        self.settle(scope, self.waits)
    }

    /// Runs it for a request that was admitted.
    ///
    /// # Errors
    /// The errors of `answer`.
    pub fn run(&self, scope: &Arc<Scope>) -> impl Future<Output = Outcome> {
        self.settle(scope, false)
    }

    // All of it is one future: each further future would copy the outcome, which is large.
    async fn settle(&self, scope: &Arc<Scope>, waits: bool) -> Outcome {
        let parts = self.parts(scope);
        // Boxed, here and below: otherwise every call carries the room for it.
        let refused = match waits {
            true => Box::pin(self.admit(scope)).await.err(),
            false => None,
        };
        let mut outcome = match refused {
            Some(error) => Some(Err(error)),
            None => match (self.start(scope), self.shape) {
                (None, _) => None,
                (Some(flow), Shape::One) => match flow.only() {
                    Ok(outcome) => outcome.await,
                    Err(mut flow) => Box::pin(async move { flow.next().await?.outcome.await }).await,
                },
                (Some(flow), Shape::Many(_)) => Box::pin(sequence::first_come(flow)).await,
            },
        };
        self.finish(&mut outcome, parts, scope);
        outcome
    }

    /// Gives an outcome the fields that say how it may be kept, and maps its links. Links are mapped last, because steps may follow
    /// them.
    // The outcome is changed in place, because an answer is large.
    fn finish(&self, outcome: &mut Outcome, parts: Option<Arc<AnswerParts>>, scope: &Arc<Scope>) {
        match (outcome.as_mut(), parts) {
            (Some(Ok(answer)), Some(parts)) => parts.describe(answer, &self.dependence),
            (Some(Err(error)), Some(parts)) => self.describe_failure(error, &parts),
            _ => {}
        }
        if let (Some(links), Some(Ok(_))) = (&self.links, &*outcome)
            && let Some(Ok(answer)) = outcome.take()
        {
            *outcome = Some(links.apply(answer, scope));
        }
    }

    /// The parts of its answer, from now on. Where a cache notes them, the cache describes the answer.
    fn parts(&self, scope: &Scope) -> Option<Arc<AnswerParts>> {
        self.composes.then(|| AnswerParts::new(self.joins)).filter(|parts| scope.note_parts(parts))
    }

    /// Gives a failure the fields that say how it may be kept, as an answer of its parts would have them.
    fn describe_failure(&self, error: &mut Error, parts: &AnswerParts) {
        let mut refusal = Answer::new(error.status(), AnswerFields::default(), AnswerBody::empty());
        parts.describe(&mut refusal, &self.dependence);
        for name in [CACHE_CONTROL, VARY] {
            if let Some(value) = refusal.headers.remove(&name) {
                error.add_field(name, value);
            }
        }
    }

    /// Reads the client's body where calls or expressions need it whole, and asks the steps that may refuse the request.
    ///
    /// # Errors
    /// Why it is refused.
    pub async fn admit(&self, scope: &Arc<Scope>) -> Result<(), Error> {
        if !self.taken.copies.is_empty() {
            scope.keep_body(self.max_body).await?;
        }
        if self.reads_body {
            scope.read_body(self.max_body).await?;
            if self.needs_value {
                scope.need_value()?;
            }
        }
        for guard in &self.guards {
            guard.clone().admit(scope).await?;
        }
        Ok(())
    }

    /// The answers that it gives, item by item, for one request; no step runs yet. A step that needs the client's body finds none.
    pub fn flow(&self, scope: &Arc<Scope>) -> Option<Flow> {
        self.start(scope)
    }

    /// The steps put together; nothing runs yet.
    fn start(&self, scope: &Arc<Scope>) -> Option<Flow> {
        let mut steps = self.steps.iter();
        let first = steps.next()?.clone().begin(scope);
        Some(steps.fold(first, |flow, step| step.clone().run(flow, scope)))
    }
}

/// Steps that are compiled, in order.
type ReadySteps = Vec<Arc<dyn ReadyStep>>;

/// Makes all steps ready: those that guard the pipeline, and the others. A step with a problem does not hide the problems of the others.
fn compile_steps(
    written: Vec<Located<Written>>,
    about: &[About],
    changes: usize,
    cx: &mut Compile<'_>,
) -> Option<(ReadySteps, ReadySteps)> {
    cx.flow.item = false;
    let (mut guards, mut steps) = (Vec::new(), Vec::new());
    for (index, Located { value: step, span, .. }) in written.into_iter().enumerate() {
        let own = &about[index];
        cx.problems.move_to(span);
        cx.index = u16::try_from(index).unwrap_or(u16::MAX);
        cx.ahead = ahead(&about[index..], changes);
        let gives = cx.flow.item || !own.looks_on;
        let fed = check::source(own, cx);
        let guards_all = own.guards && cx.flow.first;
        let ready = step.compile(cx).filter(|_| fed.is_some());
        if guards_all {
            guards.push(ready);
        } else {
            steps.push(ready);
        }
        if own.replaces {
            check::forget(cx);
        }
        cx.flow.first = guards_all;
        cx.flow.item = gives;
    }
    let (guards, steps): (Option<Vec<_>>, Option<Vec<_>>) = (guards.into_iter().collect(), steps.into_iter().collect());
    guards.zip(steps)
}

/// The needs of these steps that the first of them must know, with this number of changes after them.
fn ahead(about: &[About], changes: usize) -> Ahead {
    let behind = &about[1..];
    Ahead {
        follows: behind.iter().any(|step| step.follows),
        reads: changes > 0 || behind.iter().any(|step| !step.looks_on && !step.hands_on),
        order: about.iter().find_map(|step| step.order).unwrap_or(Order::Arrival),
    }
}

fn compile_changes(changes: Vec<AnswerChange>, endless: bool, cx: &mut Compile<'_>) -> Option<Vec<Arc<dyn ReadyStep>>> {
    let compile = |change: AnswerChange| {
        let place = change.place();
        cx.problems.move_to(place);
        let whole = match endless {
            true => {
                let remedy = "leave it out, or write an endpoint of its own here";
                cx.problems.error_here("a stream of events is never whole, and cannot be changed", remedy)
            }
            false => Some(()),
        };
        change.compile(cx).filter(|_| whole.is_some())
    };
    // All, before one that failed ends it.
    changes.into_iter().map(compile).collect::<Vec<_>>().into_iter().collect()
}
