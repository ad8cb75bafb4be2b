//! A new body for each item, by an expression.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::ReadyStep;
use super::evaluate::{FaultSource, apply, weigh};
use crate::error::{Error, Kind};
use crate::format;
use crate::jq::{Data, Filter};
use crate::message::answer::Answer;
use crate::message::names::Names;
use crate::offload;
use crate::pipeline::flow::{Awaited, Flow, Outcome, Producer};
use crate::request::context::Scope;

/// A step that gives each item a new body.
pub struct Reshape {
    step: &'static str,
    filter: Filter,
    /// For a body that is a list.
    each: Option<Filter>,
    fault_source: FaultSource,
    max_body: usize,
}

impl Reshape {
    /// `each` is the expression for a body that is a list, if it is another.
    pub fn new(step: &'static str, filter: Filter, each: Option<Filter>, max_body: usize, first: bool) -> Self {
        let fault_source = FaultSource::from_filter(&filter, first);
        Reshape { step, filter, each, fault_source, max_body }
    }
}

impl ReadyStep for Reshape {
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let (ready, scope) = (self, scope.clone());
        flow.map(move |producer| {
            let outcome = match producer.outcome {
                Awaited::Here(outcome) => match ready.apply_here(outcome, &scope) {
                    ControlFlow::Break(done) => Awaited::Here(done),
                    ControlFlow::Continue(outcome) => Awaited::later(ready.clone().apply(outcome, scope.clone())),
                },
                Awaited::Later(outcome) => Awaited::later(transform(ready.clone(), outcome, scope.clone())),
            };
            Producer { outcome, ..producer }
        })
    }
}

async fn transform(ready: Arc<Reshape>, outcome: BoxFuture<'static, Outcome>, scope: Arc<Scope>) -> Outcome {
    match ready.apply_here(outcome.await, &scope) {
        ControlFlow::Break(done) => done,
        // Boxed: items in memory would carry the room.
        ControlFlow::Continue(outcome) => Box::pin(ready.apply(outcome, scope)).await,
    }
}

impl Reshape {
    fn filter(&self, item: &Data) -> &Filter {
        self.each.as_ref().filter(|_| item.is_list()).unwrap_or(&self.filter)
    }

    /// Handles an item that is small and in memory; gives any other back unchanged.
    fn apply_here(&self, outcome: Outcome, scope: &Scope) -> ControlFlow<Outcome, Outcome> {
        let answer = match outcome {
            Some(Ok(answer)) if answer.is_usable() => answer,
            other => return ControlFlow::Break(other),
        };
        let (answer, item) = match format::open_here(answer) {
            Ok(opened) => opened,
            Err(answer) => return ControlFlow::Continue(Some(Ok(answer))),
        };
        let weight = weigh(self.filter(&item), &item, &answer.names, scope);
        match offload::attempt(weight, || self.outputs(&item, &answer.names, scope)) {
            Some(outputs) => ControlFlow::Break(self.single(answer, outputs)),
            None => ControlFlow::Continue(Some(Ok(Answer { body: item.into(), ..answer }))),
        }
    }

    async fn apply(self: Arc<Self>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
        let answer = match outcome? {
            Ok(answer) if answer.is_usable() => answer,
            other => return Some(other),
        };
        let text = format::Text::from_answer(&answer);
        let (answer, item) = match format::open(answer, self.max_body).await {
            Ok(opened) => opened,
            Err(error) => return Some(Err(error.at_step(self.step))),
        };
        let names = answer.names.clone();
        let weight = weigh(self.filter(&item), &item, &names, &scope);
        let ready = self.clone();
        let outputs = offload::run(weight, move || ready.outputs(&item, &names, &scope)).await;
        self.single(answer, outputs.map_err(|error| format::explain(text.as_ref(), error)))
    }

    fn outputs(&self, item: &Data, names: &Names, scope: &Scope) -> Result<Vec<Data>, Error> {
        apply(self.filter(item), item.clone(), names, scope, self.fault_source)
    }

    /// The item with this output as its body; `None` if there is no output.
    fn single(&self, mut answer: Answer, outputs: Result<Vec<Data>, Error>) -> Outcome {
        let mut outputs = match outputs {
            Ok(outputs) => outputs,
            Err(error) => return Some(Err(error.at_step(self.step))),
        };
        if outputs.len() > 1 {
            let detail = format!("the expression gives {} values where one is needed; put it in [ ]", outputs.len());
            return Some(Err(Error::new(Kind::Expression, detail).at_step(self.step)));
        }
        answer.redescribe();
        answer.body = outputs.pop()?.into();
        Some(Ok(answer))
    }
}
