//! The steps of a pipeline in order, each noted on the way: what a request runs through.

mod check;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::StreamExt;
use http::header::HeaderMap;
use http_body::Frame;

use crate::error::Error;
use crate::flow::{Answer, Body, Flow, Order, Outcome, Pulled};
use crate::problem::{Problems, Span};
use crate::scope::Scope;
use crate::spec::Located;
use crate::step::{Ahead, Compile, Known, Outline, Shape, Step, StreamSpec};
use crate::steps::Written;
use crate::steps::concatenate::As;
use crate::steps::dedupe::Keep;
use crate::steps::transform::Transform;

/// A pipeline, ready.
pub struct Plan {
    steps: Vec<Box<dyn Step>>,
    shape: Shape,
    reads_body: bool,
    timed: bool,
    /// Whether it asks a database.
    asks: bool,
    /// Whether what it gives is a stream that has no end of its own.
    endless: bool,
    /// The variables that its expressions use.
    uses: Vec<String>,
    outline: Vec<Outline>,
}

impl Plan {
    /// Compiles the steps in order; every problem of every step is noted. `place` is where the pipeline stands.
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
        changes: Vec<Transform>,
        known: Known<'_>,
        place: Span,
        problems: &mut Problems,
    ) -> Option<Self> {
        let cx = &mut Compile::new(known, place, problems);
        let has = |is: fn(&Written) -> bool| written.iter().any(|step| is(&step.value));
        let merges = has(|step| matches!(step, Written::Merge(_)));
        let timed = has(|step| matches!(step, Written::Timer(_)));
        let asks = has(|step| matches!(step, Written::Sql(_)));
        let endless = known.route.stream == StreamSpec::On || has(gives_events);
        let mut follows = written.iter().filter(|step| matches!(step.value, Written::Follow(_))).count();
        cx.flow.item = false;
        let mut readers = changes.len() + written.iter().filter(|step| reads(&step.value)).count();
        let order = |at| written[at..].iter().find_map(|step| order(&step.value)).unwrap_or(Order::Arrival);
        let orders: Vec<Order> = (0..written.len()).map(order).collect();
        let mut steps = check_last(&written, cx).map(|()| Vec::new());
        for (index, (Located { value: written, span, .. }, order)) in written.into_iter().zip(orders).enumerate() {
            cx.problems.move_to(span);
            cx.index = u16::try_from(index).unwrap_or(u16::MAX);
            let (replaces, gives) = (replaces(&written), cx.flow.item || check::gives(&written));
            readers -= usize::from(reads(&written));
            follows -= usize::from(matches!(written, Written::Follow(_)));
            cx.ahead = Ahead { follows: follows > 0, reads: readers > 0, order };
            let fed = check::source(&written, cx);
            let step = written.compile(cx).filter(|_| fed.is_some());
            if replaces {
                forget(cx);
            }
            cx.flow.first = false;
            cx.flow.item = gives;
            steps = match (steps, step) {
                (Some(mut steps), Some(step)) => {
                    steps.push(step);
                    Some(steps)
                }
                _ => None,
            };
        }
        for change in changes {
            if endless {
                let remedy = "leave it out, or write an endpoint of its own here";
                cx.problems.error::<()>(
                    change.jq.0.span,
                    "a stream of events is never whole, and cannot be changed",
                    remedy,
                );
                steps = None;
            }
            let step = change.compile_behind(cx);
            steps = steps.zip(step).map(|(mut steps, step)| {
                steps.push(step);
                steps
            });
        }
        let outline = std::mem::take(&mut cx.found.outline);
        let uses = cx.found.used.clone();
        let plan = Plan {
            steps: steps?,
            shape: cx.flow.shape,
            timed,
            asks,
            endless,
            uses,
            reads_body: cx.found.reads_body,
            outline,
        };
        check::end(cx);
        cx.problems.move_to(place);
        check::waste(plan.calls(), merges, cx);
        Some(plan)
    }

    /// The lines of `explain`.
    pub fn outline(&self) -> &[Outline] {
        &self.outline
    }

    /// At most so many upstream calls for one request.
    pub fn calls(&self) -> u64 {
        self.outline.iter().fold(0, |sum, line| sum.saturating_add(line.calls))
    }

    /// Whether it is one call, handed on as it comes.
    pub fn is_proxy(&self) -> bool {
        self.steps.len() == 1 && self.shape == Shape::One && !self.asks && self.calls() > 0
    }

    /// Whether an expression uses this variable.
    pub fn uses(&self, name: &str) -> bool {
        self.uses.iter().any(|used| used == name)
    }

    /// Whether the client's body is read whole, for `$body`.
    pub fn reads_body(&self) -> bool {
        self.reads_body
    }

    /// Whether what it gives is a stream of events, or another one that the configuration says is endless.
    pub fn is_endless(&self) -> bool {
        self.endless
    }

    /// Whether timers note when its messages pass.
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// Runs it for one request. `bound` limits the client's body where an expression reads it.
    ///
    /// # Errors
    /// What fails before the first part of an answer is there.
    pub async fn answer(&self, scope: &Arc<Scope>, bound: usize) -> Outcome {
        // Boxed, here and below: a plain call would carry the room of what it has not.
        if self.reads_body
            && let Err(error) = Box::pin(scope.read_body(bound)).await
        {
            return Some(Err(error));
        }
        let flow = self.start(scope)?;
        match self.shape {
            Shape::One => match flow.only() {
                Ok(outcome) => outcome.await,
                Err(mut flow) => Box::pin(async move { flow.next().await?.outcome.await }).await,
            },
            Shape::Many(_) => Box::pin(first_come(flow)).await,
        }
    }

    /// The steps put together; nothing runs yet.
    fn start(&self, scope: &Arc<Scope>) -> Option<Flow> {
        let mut steps = self.steps.iter();
        let first = steps.next()?.begin(scope);
        Some(steps.fold(first, |flow, step| step.run(flow, scope)))
    }
}

/// Whether a step makes server-sent events, whatever the client asks for.
fn gives_events(written: &Written) -> bool {
    match written {
        Written::Concatenate(concatenate) => concatenate.form == As::Sse,
        Written::Convert(convert) => convert.gives_events(),
        _ => false,
    }
}

/// `respond` has the last word.
fn check_last(written: &[Located<Written>], cx: &mut Compile<'_>) -> Option<()> {
    let mut sound = Some(());
    for (at, step) in written.iter().enumerate() {
        let Written::Respond(respond) = &step.value else { continue };
        if written[at + 1..].iter().any(|later| !matches!(later.value, Written::Timer(_))) {
            sound = cx.problems.error(respond.place(), "`respond` is not the last step", "move it to the end");
        }
    }
    sound
}

/// The order in which a step wants the items, if it takes all of them.
fn order(written: &Written) -> Option<Order> {
    match written {
        Written::Concatenate(concatenate) => Some(concatenate.order.into()),
        // Of a list that is always the same, each item has its place.
        Written::Merge(_) => Some(Order::Request),
        Written::Dedupe(dedupe) if dedupe.keep == Keep::Request => Some(Order::Request),
        _ => None,
    }
}

/// Whether what leaves the step is other than what arrives, so that only its expressions see that.
fn replaces(written: &Written) -> bool {
    match written {
        Written::Follow(follow) => follow.name.is_none() && follow.next.is_none() && follow.pages.is_none(),
        Written::Request(_) | Written::Each(_) | Written::Transform(_) | Written::Select(_) | Written::Merge(_) => true,
        Written::Respond(respond) => respond.replaces(),
        Written::Sql(sql) => sql.name.is_none(),
        _ => false,
    }
}

/// Whether the step reads the answers that arrive; otherwise it hands them on as they are.
fn reads(written: &Written) -> bool {
    match written {
        Written::Timer(_) => false,
        Written::Respond(respond) => respond.reads(),
        _ => true,
    }
}

/// What stands under a key and no expression has used is lost here.
fn forget(cx: &mut Compile<'_>) {
    for (key, place) in std::mem::take(&mut cx.flow.unused) {
        let message = format!("what is put under `{key}` is never used");
        cx.problems.warning(place, message, format!("use `.{key}` further on, or leave the step out"));
    }
}

/// Several answers as one: whichever comes first goes first, and goes whole before the next.
pub(crate) async fn first_come(flow: Flow) -> Outcome {
    let mut answers = Box::pin(flow.drive(Order::Arrival, |producer| producer.outcome)).filter_map(std::future::ready);
    let first = match answers.next().await? {
        Ok(first) => first,
        Err(error) => return Some(Err(error)),
    };
    let body = match first.body.into_pulled() {
        Ok(body) => body,
        Err(error) => return Some(Err(error)),
    };
    let headers = first.headers.get(http::header::CONTENT_TYPE).cloned();
    let headers = HeaderMap::from_iter(headers.map(|media| (http::header::CONTENT_TYPE, media)));
    let body = Sequence { current: Some(body), rest: answers };
    let answer = Answer::new(first.status, headers, Body::Pulled(Box::pin(body)));
    Some(Ok(Answer { names: first.names, ..answer }))
}

/// The bodies of several answers, one after another; chunks of two are never mixed.
struct Sequence<S> {
    current: Option<Pulled>,
    rest: S,
}

impl<S: futures_util::Stream<Item = Result<Answer, Error>> + Unpin> http_body::Body for Sequence<S> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            if let Some(current) = &mut self.current {
                match std::task::ready!(current.as_mut().poll_frame(cx)) {
                    Some(Ok(frame)) if frame.is_trailers() => continue,
                    Some(frame) => return Poll::Ready(Some(frame)),
                    None => self.current = None,
                }
            }
            match std::task::ready!(self.rest.poll_next_unpin(cx)) {
                None => return Poll::Ready(None),
                Some(next) => match next.and_then(|answer| answer.body.into_pulled()) {
                    Ok(body) => self.current = Some(body),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                },
            }
        }
    }
}
