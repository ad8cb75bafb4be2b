//! A change of the answer, behind all steps.

use std::sync::Arc;

use crate::config::problem::{Problems, Span};
use crate::config::spec::{ExpressionSpec, Located, Size, only};
use crate::pipeline::step::reshape::Reshape;
use crate::pipeline::step::{Compile, MAX_BODY, ReadyStep, Shape};
use crate::spec;

spec! {
    /// Gives the answer a new body. Short form: the expression. The body is read whole, within `max_body`. An answer
    /// with a status other than 2xx passes unchanged.
    pub struct AnswerChange {
        /// The expression; `.` is the answer's body.
        pub jq: ExpressionSpec,
        /// The most bytes of a body that are read.
        pub max_body: Size = MAX_BODY,
    }
    short(short)
}

fn short(text: Located<String>, problems: &mut Problems) -> Option<AnswerChange> {
    only([("jq", text)], problems)
}

impl AnswerChange {
    pub(super) fn place(&self) -> Span {
        self.jq.0.span
    }

    /// Makes it ready: `.` is the one answer of the pipeline, whose names are not known.
    pub(super) fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        (cx.flow.first, cx.flow.item) = (false, true);
        let names = std::mem::take(&mut cx.flow.names);
        let filter = cx.filter(&self.jq);
        cx.flow.names = names;
        if cx.flow.shape != Shape::One {
            let remedy =
                "put `merge` or `concatenate` at the end of the pipeline, or write an endpoint of its own here";
            return cx.problems.error_here("this takes one answer, and the pipeline gives several", remedy);
        }
        cx.explain("change the answer", Some("the answer is read whole before it is changed"), 0);
        Some(Arc::new(Reshape::new("answer", filter?, None, self.max_body.bytes(), false)))
    }
}
