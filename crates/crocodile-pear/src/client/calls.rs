//! The calls of a Rust program as steps: those that begin a pipeline, and those that are made for each item.

use std::sync::{Arc, Mutex, PoisonError};

use super::request::Request;
use super::servers::{self, Servers};
use crate::error::{Error, Kind};
use crate::format;
use crate::jq::Data;
use crate::message::answer::Answer;
use crate::message::names::{Base, Named};
use crate::pipeline::flow::{Awaited, Flow, Outcome, Producer};
use crate::pipeline::step::{Compile, MAX_BODY, Shape, Step};
use crate::pipeline::steps::own::Own;
use crate::request::context::Scope;

/// What begins a pipeline: a request, and the name of its result if it has one.
pub type Start = (Option<Arc<str>>, Request);

/// Calls that all start at once.
pub fn begin(servers: Arc<Servers>, requests: Vec<Start>) -> Own {
    let number = requests.len() as u64;
    let names: Vec<String> = requests.iter().filter_map(|(name, _)| name.as_deref().map(str::to_owned)).collect();
    // Known before the steps are made ready: links may lead to where these calls go.
    let aims = requests.into_iter().map(|(name, request)| (name, servers.aim(&request.uri), request)).collect();
    let calls: Arc<Mutex<Vec<Beginning>>> = Arc::new(Mutex::new(aims));
    Own::new(move |cx| {
        cx.flow.shape = if number == 1 { Shape::One } else { Shape::Many(number) };
        cx.flow.pending.extend(names.iter().cloned());
        cx.explain("calls of the program", None, number);
        Box::new(Begin { calls: calls.clone(), notes_base: cx.ahead.follows })
    })
}

type Beginning = (Option<Arc<str>>, Result<servers::Aim, Error>, Request);

struct Begin {
    calls: Arc<Mutex<Vec<Beginning>>>,
    notes_base: bool,
}

impl Step for Begin {
    fn run(&self, _: Flow, scope: &Arc<Scope>) -> Flow {
        self.begin(scope)
    }

    fn begin(&self, scope: &Arc<Scope>) -> Flow {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        let notes_base = self.notes_base;
        let producers = calls.into_iter().map(|(name, aim, request)| {
            let outcome = Awaited::later(async move { Some(call(aim, request, notes_base).await) });
            Producer { id: scope.next_producer(), name, outcome }
        });
        Flow::of(producers.collect())
    }
}

/// The answer, which says where it came from if links in it are followed.
async fn call(aim: Result<servers::Aim, Error>, request: Request, notes_base: bool) -> Result<Answer, Error> {
    let aim = aim?;
    let base = notes_base.then(|| Base::At(aim.0.name().clone(), aim.0.url(&aim.1).into()));
    let answer = servers::call(aim, request).await?;
    let Some(base) = base else { return Ok(answer) };
    let mut names: Named = answer.names.as_deref().cloned().unwrap_or_default();
    names.set_document(base);
    Ok(Answer { names: Some(Arc::new(names)), ..answer })
}

/// From an item's JSON to the request that is made for it.
pub type Make = dyn Fn(&[u8]) -> Result<Request, String> + Send + Sync;

/// A call for each item; its answer takes the item's place.
pub fn each(servers: Arc<Servers>, make: Arc<Make>) -> Own {
    Own::new(move |cx: &mut Compile<'_>| {
        let calls = cx.flow.shape.most();
        cx.explain("a call of the program for each item", Some("an item is read whole before its call"), calls);
        Box::new(Each { servers: servers.clone(), make: make.clone(), notes_base: cx.ahead.follows })
    })
}

struct Each {
    servers: Arc<Servers>,
    make: Arc<Make>,
    notes_base: bool,
}

impl Step for Each {
    fn run(&self, flow: Flow, _: &Arc<Scope>) -> Flow {
        let (servers, make, notes_base) = (self.servers.clone(), self.make.clone(), self.notes_base);
        flow.map(move |producer| {
            let (servers, make) = (servers.clone(), make.clone());
            producer.then(async move |outcome| ask(outcome, servers, make, notes_base).await)
        })
    }
}

async fn ask(outcome: Outcome, servers: Arc<Servers>, make: Arc<Make>, notes_base: bool) -> Outcome {
    match outcome? {
        Ok(answer) if answer.is_usable() => {
            let request = request(answer, &make).await;
            let answer = match request {
                Ok(request) => call(servers.aim(&request.uri), request, notes_base).await,
                Err(error) => Err(error),
            };
            Some(answer.map_err(|error| error.at_step("request")))
        }
        other => Some(other),
    }
}

async fn request(answer: Answer, make: &Arc<Make>) -> Result<Request, Error> {
    let (_, item) = format::open(answer, MAX_BODY.bytes()).await?;
    let mut json = Vec::new();
    match &item {
        Data::Json(raw) => make(raw.bytes()),
        Data::Value(_) => {
            item.write(&mut json)?;
            make(&json)
        }
    }
    .map_err(|reason| Error::new(Kind::Expression, reason))
}
