//! The terms of a call or a statement: when it is made, what it reads, and the value instead of its answer.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::Error;
use crate::jq::{self, Data, Filter};
use crate::message::answer::Answer;
use crate::message::names::Names;
use crate::pipeline::step::{Compile, FaultSource, holds};
use crate::request::context::Scope;
use crate::telemetry::request_record::{CallingStep, Hidden};

/// The settings that a call to an upstream and a statement in a database have in common.
pub(crate) struct Terms {
    /// For errors: `request`, `sql`, or `requests.NAME`.
    pub(crate) step: Cow<'static, str>,
    /// For records.
    pub(super) noted: Arc<CallingStep>,
    pub(super) when: Option<Filter>,
    /// The value instead of its answer, if there is one.
    pub(crate) otherwise: Option<Data>,
    /// The most bytes that are read whole.
    pub(crate) max_body: usize,
    pub(crate) reads_item: bool,
    /// The variables that it uses.
    pub(crate) uses: Vec<String>,
    pub(super) fault_source: FaultSource,
}

/// The written terms, compiled.
pub(super) struct CompiledTerms {
    pub(super) step: Cow<'static, str>,
    pub(super) when: Option<Filter>,
    pub(super) otherwise: Option<Data>,
    pub(super) max_body: usize,
    pub(super) hidden: Hidden,
}

impl Terms {
    /// The terms of a call with these expressions, besides its condition.
    pub(super) fn new(written: CompiledTerms, expressions: Vec<&Filter>, cx: &mut Compile<'_>) -> Self {
        let CompiledTerms { step, when, otherwise, max_body, hidden } = written;
        let mut filters = expressions;
        filters.extend(&when);
        let from_upstream =
            filters.iter().any(|filter| FaultSource::from_filter(filter, cx.flow.first) == FaultSource::Upstream);
        let fault_source = if from_upstream { FaultSource::Upstream } else { FaultSource::Client };
        let reads_item = filters.iter().any(|filter| filter.reads_item());
        let uses = filters.iter().flat_map(|filter| filter.uses().iter().cloned()).collect();
        Terms { noted: cx.calling(&step, hidden), step, when, otherwise, max_body, reads_item, uses, fault_source }
    }

    /// Whether the call is made for this item.
    pub(crate) fn wanted(&self, item: &Data, names: &Names, scope: &Scope) -> Result<bool, Error> {
        self.when.as_ref().map_or(Ok(true), |when| holds(when, item.clone(), names, scope, self.fault_source))
    }

    /// About how many bytes its expressions read.
    pub(super) fn weigh(&self, item: &Data, names: &Names, scope: &Scope) -> usize {
        let own = if self.reads_item { item.weight() } else { 0 };
        own + scope.weight(&self.uses, names)
    }

    /// The answer instead of a failed call, if there is one.
    pub(crate) fn substitute(&self) -> Option<Answer> {
        self.otherwise.clone().map(Answer::of_value)
    }

    /// The answer instead of a call that is not made.
    pub(super) fn unmade(&self) -> Answer {
        self.substitute().unwrap_or_else(|| Answer::of_value(jq::null()))
    }

    /// The error, with the step that it comes from.
    pub(crate) fn name(&self, error: Error) -> Error {
        error.at_step(self.step.clone())
    }
}
