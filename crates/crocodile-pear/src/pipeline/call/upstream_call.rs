//! A single call, ready and made.

use std::future::ready;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::Either;
use http::Method;
use http::header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderName, HeaderValue, IF_MATCH};
use pin_project_lite::pin_project;

use crate::error::{Error, Kind};
use crate::format;
use crate::jq::{self, Data, Filter};
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::message::names::{Base, NamedResults, Names};
use crate::message::side_channel::Passage;
use crate::offload::{self, Work};
use crate::pipeline::flow::Outcome;
use crate::pipeline::step::answers::AnswersUsed;
use crate::pipeline::step::status::StatusRules;
use crate::pipeline::step::view::View;
use crate::pipeline::step::{ask_plain, ask_whole};
use crate::request::context::Scope;
use crate::request::fetch_memo::FetchedDocument;
use crate::telemetry::request_record::CallNote;
use crate::template::{Template, TemplateSource};
use crate::upstream::{
    CallFields, Directed, EventUse, Likeness, Presents, ReadyUpstream, TargetRoot, Timeouts, Trailing, UpstreamCall,
};

use super::call_options::Terms;
use super::detach::Detach;
use super::fields::{copy_websocket_headers, takes_body};
use super::relabel::relabel;
use super::spec::ReadAs;
use crate::pipeline::step::public_links::strengthen;
use crate::pipeline::step::rewrite::{Rewrite, withhold};

/// A call, ready to be made for any item.
pub(crate) struct Calling {
    pub(crate) terms: Terms,
    pub(crate) upstream: Arc<ReadyUpstream>,
    pub(super) target: Template,
    pub(super) client_query: bool,
    /// Whether it may be the client's own request, handed on: it is the first step, and one call.
    pub(super) own: bool,
    pub(super) method: Verb,
    pub(super) headers: Vec<(HeaderName, Template)>,
    /// The rules by which fields of its answers that point into the upstream point to the gateway.
    pub(super) rewrite: Option<Rewrite>,
    /// The format of its answers, whatever they say.
    pub(super) read_as: Option<ReadAs>,
    /// Whether the links of its answer are mapped, so that it must be whole and plain.
    pub(super) maps_links: bool,
    /// How the beginning of the client's path is found that it leaves out, where the upstream is told.
    pub(super) prefixed: Option<Rewrite>,
    /// Whether its answers are parts of others, and do not show clients where the upstream is.
    pub(super) inner: bool,
    pub(super) body: CallBody,
    pub(super) timeouts: Option<Arc<Timeouts>>,
    pub(crate) on_status: StatusRules,
    /// Whether it has expressions.
    pub(super) evaluates: bool,
    /// Whether its answers carry their URL, for links in them.
    pub(super) notes_base: bool,
    /// Whether expressions use the status and the fields of its answers.
    pub(crate) answers_used: AnswersUsed,
    /// Whether a step reads its answers.
    pub(super) is_read: bool,
    /// How it goes on without the client, if it does.
    pub(crate) detach: Option<Detach>,
}

/// A call, or why it cannot be made.
pub(super) type PreparedCall = Result<Directed, Error>;

pin_project! {
    /// A call that has been started. A future of its own: taken apart in another one, the call would have its room twice.
    #[project = StartedCallProjection]
    pub(super) enum StartedCall<C> {
        Calling { #[pin] call: C, names: Names },
        Failed { error: Option<Error>, names: Names },
        /// No call is made.
        Over { outcome: Outcome },
    }
}

/// The outcome of a call.
pub(super) enum EndedCall {
    Called(Result<Answer, Error>, Names),
    /// No call was made.
    Over(Outcome),
}

impl<C: Future<Output = Result<Answer, Error>>> Future for StartedCall<C> {
    type Output = EndedCall;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<EndedCall> {
        match self.project() {
            StartedCallProjection::Calling { call, names } => {
                call.poll(cx).map(|called| EndedCall::Called(called, names.take()))
            }
            StartedCallProjection::Failed { error, names } => {
                let error = error.take().expect("it is polled once");
                Poll::Ready(EndedCall::Called(Err(error), names.take()))
            }
            StartedCallProjection::Over { outcome } => Poll::Ready(EndedCall::Over(outcome.take())),
        }
    }
}

/// The item that a call is made for.
pub(crate) enum StepInput {
    Item(Data, Names),
    /// Its body must be read first.
    Other(Outcome),
    /// No call is made.
    Over(Outcome),
}

/// The method of a call.
pub(super) enum Verb {
    Clients,
    Fixed(Method),
}

pub(super) enum CallBody {
    Nothing,
    /// The client's own body, streamed.
    Clients,
    /// A copy of the client's body, which was read whole.
    Copy,
    /// The value of an expression, in the format of the call's content type.
    Made(Box<Filter>),
    /// `$body` itself: the value of the client's body, or the body as it came if nothing reads its type.
    Body(Box<Filter>),
}

/// The fields of a client that describe its body.
const DESCRIBING: [HeaderName; 3] = [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE];

/// The client's body, with its own content type where the call has none.
fn as_it_came(bytes: &Bytes, scope: &Scope, fields: &mut CallFields) -> Result<Option<AnswerBody>, Error> {
    let written = fields.get(CONTENT_TYPE);
    let parts = |media: Option<&HeaderValue>| media.is_some_and(|media| format::is_parts(media.as_bytes()));
    let both_parts = parts(written) && parts(scope.headers().get(CONTENT_TYPE));
    if let Some(written) = written.filter(|written| !both_parts && format::is_made(written.as_bytes())) {
        let written = String::from_utf8_lossy(written.as_bytes());
        return Err(scope.no_value(&format!("it cannot be sent as `{written}`")));
    }
    // Only the client knows the boundary of its parts.
    let own = written.is_none() || both_parts;
    for name in DESCRIBING.into_iter().filter(|name| own || *name != CONTENT_TYPE) {
        fields.hand_on(&name, scope.headers());
    }
    Ok(Some(AnswerBody::Bytes(bytes.clone())))
}

/// The names, with where the answer comes from.
fn rebased(names: &Names, base: Base) -> Names {
    let mut known: NamedResults = names.as_deref().cloned().unwrap_or_default();
    known.set_document(base);
    Some(Arc::new(known))
}

impl Calling {
    /// Why a call must wait for something before it can begin or end.
    pub(crate) fn waits(&self) -> Option<&'static str> {
        self.terms.otherwise.is_some().then_some("the answer is read whole, for `otherwise`")
    }

    pub(crate) async fn answer(self: Arc<Self>, item: Data, names: Names, scope: Arc<Scope>) -> Outcome {
        let started = match self.evaluate(item, &names, &scope) {
            Either::Left(here) => self.start(here.into_inner(), names),
            Either::Right(lent) => self.start(lent.await, names),
        };
        let (called, mut names) = match started.await {
            EndedCall::Over(outcome) => return outcome,
            EndedCall::Called(called, names) => (called, names),
        };
        self.answers_used.note(&mut names, &called);
        let called = called.map(|answer| self.rewritten(answer, &scope));
        let answer = match self.on_status.is_empty() && self.terms.otherwise.is_none() {
            true => called,
            // Boxed: calls without these would carry the room.
            false => Box::pin(self.settle(called)).await,
        };
        Some(match answer {
            Ok(answer) => Ok(Answer { names, ..answer }),
            Err(error) => Err(self.terms.name(error)),
        })
    }

    /// Starts the call, if there is one.
    pub(super) fn start(
        &self,
        prepared: Result<Option<PreparedCall>, Error>,
        mut names: Names,
    ) -> StartedCall<impl Future<Output = Result<Answer, Error>> + Send + use<>> {
        match prepared {
            Ok(Some(Ok(call))) => {
                self.note(&call, &mut names);
                StartedCall::Calling { call: call.send(&self.upstream), names }
            }
            Ok(Some(Err(error))) => StartedCall::Failed { error: Some(error), names },
            Ok(None) => StartedCall::Over { outcome: Some(Ok(self.unmade(names))) },
            Err(error) => StartedCall::Over { outcome: Some(Err(self.terms.name(error))) },
        }
    }

    /// The answer with its fields as clients may see them.
    pub(super) fn rewritten(&self, mut answer: Answer, scope: &Scope) -> Answer {
        if let Some(read_as) = self.read_as {
            answer = relabel(answer, read_as);
        }
        if self.inner {
            withhold(&mut answer.headers, self.rewrite.as_ref(), &self.upstream, scope);
        }
        if let Some(rewrite) = &self.rewrite {
            rewrite.apply(&mut answer.headers, &self.upstream, scope);
        }
        answer
    }

    /// The item that the call is made for, if its body is in memory.
    pub(crate) fn item_here(&self, outcome: Outcome) -> StepInput {
        match outcome {
            Some(Ok(answer)) if answer.is_usable() => match format::open_here(answer) {
                Ok((answer, item)) => StepInput::Item(item, answer.names),
                Err(answer) => StepInput::Other(Some(Ok(answer))),
            },
            other => StepInput::Over(other),
        }
    }

    /// The call, or why it fails; `None` if `when` is false.
    pub(super) fn evaluate(
        self: &Arc<Self>,
        item: Data,
        names: &Names,
        scope: &Arc<Scope>,
    ) -> Work<Option<PreparedCall>> {
        if !self.evaluates {
            return Either::Left(ready(Ok(Some(self.request(&jq::null().into(), names, scope)))));
        }
        let weight = self.terms.weigh(&item, names, scope);
        let here = || self.request_if_wanted(&item, names, scope);
        let lent = || {
            let (calling, item, names, scope) = (self.clone(), item.clone(), names.clone(), scope.clone());
            move || calling.request_if_wanted(&item, &names, &scope)
        };
        offload::run_or(weight, here, lent)
    }

    pub(super) fn request_if_wanted(
        &self,
        item: &Data,
        names: &Names,
        scope: &Scope,
    ) -> Result<Option<PreparedCall>, Error> {
        let wanted = self.terms.wanted(item, names, scope)?;
        Ok(wanted.then(|| self.request(item, names, scope)))
    }

    pub(super) fn request(&self, item: &Data, names: &Names, scope: &Scope) -> PreparedCall {
        let call = self.build(item, names, scope);
        call.map_err(|error| self.terms.fault_source.attribute(error).of_upstream(self.upstream.name()))
    }

    /// The answer instead, if `when` is false.
    pub(crate) fn unmade(&self, mut names: Names) -> Answer {
        self.answers_used.note_nothing(&mut names);
        Answer { names, ..self.terms.unmade() }
    }

    /// The value of a rule, as the answer.
    pub(crate) fn stand_for(&self, ruled: Result<Data, Error>, names: Names) -> Result<Answer, Error> {
        match ruled {
            Ok(value) => Ok(Answer { names, ..Answer::of_value(value) }),
            Err(error) => Err(self.terms.name(error.of_upstream(self.upstream.name()))),
        }
    }

    /// The answer of one value, as if it had been asked for alone.
    pub(crate) fn pick(&self, document: &FetchedDocument, names: &Names) -> Result<Answer, Error> {
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

    /// Whether it reads, and asks for the same whatever the item is.
    pub(crate) fn is_the_same(&self) -> bool {
        !self.terms.reads_item && matches!(self.method, Verb::Fixed(Method::GET | Method::HEAD))
    }

    /// Notes where the answer comes from.
    pub(super) fn note(&self, directed: &Directed, names: &mut Names) {
        if self.notes_base {
            let upstream = directed.upstream(&self.upstream);
            *names = rebased(names, Base::At(upstream.name().clone(), upstream.url(&directed.call.target).into()));
        }
    }

    pub(super) fn build(&self, item: &Data, names: &Names, scope: &Scope) -> PreparedCall {
        let view = View { item, names, scope, fault_source: self.terms.fault_source };
        let mut target = self.target.target(&view)?;
        if let (true, Some(query)) = (self.client_query, scope.forwarded_query()) {
            target.push('?');
            target.push_str(&query);
        }
        let method = match &self.method {
            Verb::Clients => scope.call_method().clone(),
            Verb::Fixed(method) => method.clone(),
        };
        let likeness =
            if matches!(self.body, CallBody::Clients | CallBody::Copy) { Likeness::Same } else { Likeness::Other };
        let upstream = self.upstream.chosen(scope)?;
        let mut fields = upstream.fields(scope, likeness)?;
        if self.is_read {
            ask_whole(&mut fields, &method);
        }
        if self.maps_links {
            ask_plain(&mut fields);
        }
        if let Some(prefix) = self.prefixed.as_ref().and_then(|way| way.prefix(upstream, scope)) {
            upstream.tell_prefix(&prefix, &mut fields);
        }
        for (name, template) in &self.headers {
            fields.write(name, view.field(name, template)?);
        }
        if self.maps_links
            && let Some(condition) = fields.get(IF_MATCH).and_then(strengthen)
        {
            fields.write(&IF_MATCH, Some(condition));
        }
        let body = self.body(&view, &mut fields)?;
        let trailing = match &body {
            Some(AnswerBody::Pulled(_)) => upstream.trailing(scope, self.headers.iter().map(|(name, _)| name)),
            _ => Trailing::default(),
        };
        let passage = match self.own && method == *scope.call_method() {
            true => scope.passage().clone(),
            false => Passage::default(),
        };
        if passage.upgrade.is_some() {
            copy_websocket_headers(scope, &mut fields);
        }
        // What goes on without the client has no place in its time, nor in its record.
        let attached = self.detach.is_none();
        let deadline = scope.deadline().filter(|_| attached);
        let (timeouts, host) = (self.timeouts.clone(), upstream.host(scope));
        let events = if self.own && !self.is_read { EventUse::HandedOn } else { EventUse::Read };
        let (root, received) = (TargetRoot::Upstream, scope.version());
        let keeping = upstream.keep(scope, &mut fields)?;
        let note = scope.record().filter(|_| attached).map(|record| CallNote::new(record, &self.terms.noted));
        // Boxed: it goes through many hands.
        let call = Box::new(UpstreamCall {
            method,
            target,
            headers: fields.into_map(),
            body,
            trailing,
            timeouts,
            deadline,
            root,
            passage,
            events,
            host,
            received,
            keeping,
            note,
            affinity: None,
            presents: Presents::Credentials,
            context: None,
        });
        let set = || {
            let value =
                |(name, template): &(HeaderName, Template)| Some((name.clone(), view.field(name, template).ok()?));
            self.headers.iter().filter_map(value).collect()
        };
        Directed::new(&self.upstream, upstream, call, (scope, likeness), set)
    }

    pub(super) fn body(&self, view: &View<'_>, fields: &mut CallFields) -> Result<Option<AnswerBody>, Error> {
        match &self.body {
            CallBody::Nothing => Ok(None),
            CallBody::Body(_) if let Some(bytes) = view.scope.unread_body() => as_it_came(bytes, view.scope, fields),
            CallBody::Made(filter) | CallBody::Body(filter) => {
                let value = view.evaluate(filter)?.into_value();
                let Some(written) = fields.get(CONTENT_TYPE) else {
                    fields.write(&CONTENT_TYPE, Some(HeaderValue::from_static("application/json")));
                    return Ok(Some(AnswerBody::Value(value)));
                };
                let made = format::typed::write(&value, Some(written.as_bytes()))?;
                if let Some(content_type) = made.content_type {
                    fields.write(&CONTENT_TYPE, Some(content_type));
                }
                Ok(Some(AnswerBody::Bytes(made.bytes)))
            }
            CallBody::Clients | CallBody::Copy => {
                let body = match self.body {
                    CallBody::Copy => view.scope.copy_body(),
                    _ => view.scope.take_body(),
                };
                let Some(body) = body else { return Ok(None) };
                if matches!(&body, AnswerBody::Bytes(bytes) if bytes.is_empty()) && !takes_body(view.scope.method()) {
                    return Ok(None);
                }
                for name in DESCRIBING {
                    fields.hand_on(&name, view.scope.headers());
                }
                Ok(Some(body))
            }
        }
    }

    /// The answer of the call, or the value of a rule or of `otherwise`.
    pub(super) async fn settle(&self, called: Result<Answer, Error>) -> Result<Answer, Error> {
        let called = match called {
            Ok(answer) => match self.on_status.judge(answer).await {
                ControlFlow::Continue(answer) => Ok(answer),
                ControlFlow::Break(ruled) => return ruled,
            },
            failed => failed,
        };
        match &self.terms.otherwise {
            None => called,
            // A tunnel has no body to read.
            Some(_) if matches!(&called, Ok(Answer { body: AnswerBody::Tunnel(_), .. })) => called,
            // Boxed: calls without this would carry the room.
            Some(otherwise) => {
                Ok(Box::pin(self.whole(called)).await.unwrap_or_else(|| Answer::of_value(otherwise.clone())))
            }
        }
    }

    /// The whole answer as a value, if it is one that can be used.
    pub(super) async fn whole(&self, called: Result<Answer, Error>) -> Option<Answer> {
        let answer = called.ok().filter(Answer::is_usable)?;
        let answer = format::plain(answer).ok()?;
        let (status, headers, accepted) = (answer.status, answer.headers.clone(), answer.accepted);
        let data = format::data(answer, self.terms.max_body).await.ok()?;
        Some(Answer { status, headers, accepted, ..Answer::of_value(data) })
    }
}
