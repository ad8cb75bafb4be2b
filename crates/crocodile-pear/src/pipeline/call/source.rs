//! Where the answer of a named call comes from.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::call_options::Terms;
use super::detach::Detach;
use super::fan::FanOut;
use super::statement::ReadyStatement;
use super::upstream_call::Calling;
use crate::jq;
use crate::message::names::Names;
use crate::pipeline::flow::Outcome;
use crate::request::context::Scope;

/// An upstream or a database that is asked once, whatever item there is.
#[derive(Clone)]
pub(crate) enum AnswerSource {
    Upstream(Arc<Calling>),
    /// Once for each of some values.
    Each(Arc<FanOut>),
    Database(Arc<ReadyStatement>),
}

impl AnswerSource {
    /// Asks. `names` are the results that it uses.
    pub(crate) fn ask(&self, names: Names, scope: Arc<Scope>) -> BoxFuture<'static, Outcome> {
        match self {
            AnswerSource::Upstream(calling) => Box::pin(calling.clone().answer(jq::null().into(), names, scope)),
            AnswerSource::Each(fan) => fan.clone().ask(names, scope),
            AnswerSource::Database(statement) => Box::pin(statement.clone().answer(jq::null().into(), names, scope)),
        }
    }

    /// When it is called, and the value instead of its answer.
    pub(crate) fn terms(&self) -> &Terms {
        match self {
            AnswerSource::Upstream(calling) => &calling.terms,
            AnswerSource::Each(fan) => &fan.calling.terms,
            AnswerSource::Database(statement) => &statement.terms,
        }
    }

    /// Whether it uses the variable of this name.
    pub(crate) fn uses(&self, name: &str) -> bool {
        let values = match self {
            AnswerSource::Each(fan) => fan.values.uses(),
            AnswerSource::Upstream(_) | AnswerSource::Database(_) => &[],
        };
        self.terms().uses.iter().chain(values).any(|used| used == name)
    }

    /// How it goes on without the client, if it does.
    pub(crate) fn detach(&self) -> Option<&Detach> {
        match self {
            AnswerSource::Upstream(calling) => calling.detach.as_ref(),
            AnswerSource::Each(fan) => fan.calling.detach.as_ref(),
            AnswerSource::Database(_) => None,
        }
    }
}
