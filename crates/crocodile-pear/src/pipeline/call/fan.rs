//! A named call with `for_each`: several calls whose answers are one list.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};

use super::upstream_call::Calling;
use crate::error::{Error, Kind};
use crate::format;
use crate::jq::{self, Data, Filter, Value};
use crate::message::answer::Answer;
use crate::message::names::Names;
use crate::offload;
use crate::pipeline::flow::Outcome;
use crate::pipeline::step::answers;
use crate::pipeline::step::status::refuse;
use crate::pipeline::step::{FaultSource, evaluate, weigh};
use crate::request::context::Scope;

/// The calls for the values of an expression.
pub(crate) struct FanOut {
    pub(crate) calling: Arc<Calling>,
    pub(crate) values: Filter,
    pub(crate) limit: u64,
    pub(crate) at_once: usize,
    pub(crate) fault_source: FaultSource,
}

impl FanOut {
    /// Makes all calls. The answer is the list of their bodies, in the order of the values.
    pub(crate) fn ask(self: Arc<Self>, names: Names, scope: Arc<Scope>) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            let made = self.make(&names, &scope).await;
            Some(made.map_err(|error| self.calling.terms.name(error)))
        })
    }

    async fn make(self: &Arc<Self>, names: &Names, scope: &Arc<Scope>) -> Result<Answer, Error> {
        let nothing = Data::from(jq::null());
        let weight = weigh(&self.values, &nothing, names, scope);
        let (fan, known, request) = (self.clone(), names.clone(), scope.clone());
        let values = offload::run(weight, move || fan.find(&known, &request)).await?;
        let calls = values.into_iter().map(|value| self.clone().one(value, names.clone(), scope.clone()));
        let mut calls = stream::iter(calls).buffered(self.at_once.min(MOST_AT_ONCE));
        let (mut bodies, mut facts) = (Vec::new(), Vec::new());
        while let Some(made) = calls.next().await {
            let (body, fact) = made?;
            bodies.push(body);
            facts.push(fact);
        }
        let mut answer = Answer::of_value(jq::list(bodies));
        answer.names = names.clone();
        self.calling.answers_used.note_list(&mut answer.names, facts);
        Ok(answer)
    }

    fn find(&self, names: &Names, scope: &Scope) -> Result<Vec<Value>, Error> {
        let values = evaluate(&self.values, jq::null(), names, scope, self.fault_source)?;
        if values.len() as u64 > self.limit {
            let detail = format!("`for_each` gives {} values; the limit is {}", values.len(), self.limit);
            return Err(self.fault_source.attribute(Error::new(Kind::Expression, detail)));
        }
        Ok(values)
    }

    /// The body of one call, and what it answered.
    async fn one(self: Arc<Self>, value: Value, names: Names, scope: Arc<Scope>) -> Result<(Value, Value), Error> {
        let answer = match self.calling.clone().answer(value.into(), names, scope).await {
            None => return Ok((jq::null(), jq::null())),
            Some(answer) => answer?,
        };
        if !answer.is_usable() {
            return Err(refuse(answer).await);
        }
        let fact = answers::of(&answer.names).cloned().map_or_else(jq::null, Data::into_value);
        let body = format::data(answer, self.calling.terms.max_body).await?;
        Ok((body.into_value(), fact))
    }
}

/// However many values there are, so many calls run side by side.
const MOST_AT_ONCE: usize = 1024;
