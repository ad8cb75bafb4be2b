//! The calls of a Rust program as steps: those that begin a pipeline, and those that are made for each item.

use std::sync::{Arc, Mutex, PoisonError};

use super::body::Body;
use super::body_with_call::BodyWithCall;
use super::dispatch::{PreparedRequest, send};
use super::guard;
use super::handle::Client;
use super::request::Request;
use super::servers;
use crate::error::{CallId, Error};
use crate::format;
use crate::jq::Data;
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::message::names::{Base, NamedResults};
use crate::pipeline::flow::{Awaited, Flow, Outcome, Producer};
use crate::pipeline::step::{Compile, MAX_BODY, ReadyStep, Shape};
use crate::pipeline::steps::rust_step::Own;
use crate::request::context::Scope;

/// The begin of a pipeline: a request, and the name of its result if it has one.
pub type Start = (Option<Arc<str>>, Request);

/// Calls that all start at once.
pub fn begin(client: Client, requests: Vec<Start>) -> Own {
    let number = requests.len() as u64;
    let names: Vec<String> = requests.iter().filter_map(|(name, _)| name.as_deref().map(str::to_owned)).collect();
    let calls: Arc<Mutex<Vec<Start>>> = Arc::new(Mutex::new(requests));
    Own::new(move |cx| {
        cx.flow.shape = if number == 1 { Shape::One } else { Shape::Many(number) };
        cx.flow.pending.extend(names.iter().cloned());
        cx.explain("calls of the program", None, number);
        Arc::new(ProgramCalls { client: client.clone(), calls: calls.clone(), notes_base: cx.ahead.follows })
    })
}

struct ProgramCalls {
    client: Client,
    calls: Arc<Mutex<Vec<Start>>>,
    notes_base: bool,
}

impl ReadyStep for ProgramCalls {
    fn run(self: Arc<Self>, _: Flow, scope: &Arc<Scope>) -> Flow {
        self.begin(scope)
    }

    fn begin(self: Arc<Self>, scope: &Arc<Scope>) -> Flow {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        let producers = calls.into_iter().enumerate().map(|(at, (name, request))| {
            let id = CallId { index: at as u64, name: name.clone() };
            let (client, notes_base) = (self.client.clone(), self.notes_base);
            let outcome = Awaited::later(async move { Some(call(client, request, notes_base, id).await) });
            Producer { id: scope.next_producer(), name, outcome }
        });
        Flow::of(producers.collect())
    }
}

/// The answer, which says where it came from if links in it are followed.
async fn call(client: Client, request: Request, notes_base: bool, id: CallId) -> Result<Answer, Error> {
    let url = servers::url(&request.uri).map_err(|error| error.at_call(id.clone()))?;
    let body = request.body.and_then(Body::into_message);
    let ready =
        PreparedRequest { method: request.method, url: url.clone(), headers: request.headers, body, timeouts: None };
    let answer = send(&client, ready, &id).await?;
    let answer = with_call(answer, &url, id);
    if !notes_base {
        return Ok(answer);
    }
    let upstream = answer.upstream.clone().unwrap_or_default();
    let mut names: NamedResults = answer.names.as_deref().cloned().unwrap_or_default();
    names.set_document(Base::At(upstream, url.to_string().into()));
    Ok(Answer { names: Some(Arc::new(names)), ..answer })
}

/// The answer, of which an error in the body says which call it was.
fn with_call(answer: Answer, url: &http::Uri, id: CallId) -> Answer {
    let status = answer.status;
    let body = match answer.body {
        AnswerBody::Pulled(body) => {
            AnswerBody::Pulled(Box::pin(BodyWithCall { body, url: Some(url.clone()), id, status }))
        }
        body => body,
    };
    Answer { body, ..answer }
}

/// From an item's JSON to the request that is made for it.
pub type RequestMaker = dyn Fn(&[u8]) -> Result<Request, Error> + Send + Sync;

/// A call for each item; its answer takes the item's place.
pub fn each(client: Client, make: Arc<RequestMaker>) -> Own {
    Own::new(move |cx: &mut Compile<'_>| {
        let calls = cx.flow.shape.most();
        cx.explain("a call of the program for each item", Some("an item is read whole before its call"), calls);
        Arc::new(CallForEach { client: client.clone(), make: make.clone(), notes_base: cx.ahead.follows })
    })
}

struct CallForEach {
    client: Client,
    make: Arc<RequestMaker>,
    notes_base: bool,
}

impl ReadyStep for CallForEach {
    fn run(self: Arc<Self>, flow: Flow, _: &Arc<Scope>) -> Flow {
        let (client, make, notes_base) = (self.client.clone(), self.make.clone(), self.notes_base);
        let mut next = 0..;
        flow.map(move |producer: Producer| {
            let (client, make) = (client.clone(), make.clone());
            let id = CallId { index: next.next().unwrap_or(u64::MAX), name: producer.name.clone() };
            producer.then(async move |outcome| ask(outcome, client, make, notes_base, id).await)
        })
    }
}

async fn ask(outcome: Outcome, client: Client, make: Arc<RequestMaker>, notes_base: bool, id: CallId) -> Outcome {
    match outcome? {
        Ok(answer) if answer.is_usable() => {
            let answer = match request(answer, &make).await {
                Ok(request) => call(client, request, notes_base, id).await,
                Err(error) => Err(error.at_call(id)),
            };
            Some(answer.map_err(|error| error.at_step("request")))
        }
        other => Some(other),
    }
}

async fn request(answer: Answer, make: &Arc<RequestMaker>) -> Result<Request, Error> {
    let (_, item) = format::open(answer, MAX_BODY.bytes()).await?;
    let mut json = Vec::new();
    match &item {
        Data::Json(raw) => guard::attempt(|| make(raw.bytes())),
        Data::Value(_) => {
            item.write(&mut json)?;
            guard::attempt(|| make(&json))
        }
    }
}
