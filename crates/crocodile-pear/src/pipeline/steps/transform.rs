//! `transform`: a new body for each item, by an expression.

use std::sync::Arc;

use crate::config::problem::Problems;
use crate::config::spec::{ExpressionSpec, Located, Size, only};
use crate::pipeline::step::reshape::Reshape;
use crate::pipeline::step::{About, Compile, MAX_BODY, ReadyStep, Spec};
use crate::spec;

spec! {
    /// Gives each item a new body. Short form: the expression. The item's body is read whole, within `max_body`. If
    /// the expression gives nothing, the item is dropped. An answer with a status other than 2xx passes unchanged,
    /// with its own body: use `on_status` of the call to handle it.
    pub struct Transform {
        /// The expression; `.` is the item's body.
        pub jq: ExpressionSpec,
        /// The most bytes of a body that are read.
        pub max_body: Size = MAX_BODY,
    }
    short(short)
}

fn short(text: Located<String>, problems: &mut Problems) -> Option<Transform> {
    only([("jq", text)], problems)
}

impl Transform {
    /// The body that this expression makes of each item.
    pub fn of(jq: ExpressionSpec) -> Self {
        Transform { jq, max_body: MAX_BODY }
    }
}

impl Spec for Transform {
    fn about(&self) -> About {
        About { replaces: true, ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let filter = cx.filter(&self.jq)?;
        cx.explain("transform each item", Some("an item's body is read whole before it is transformed"), 0);
        Some(Arc::new(Reshape::new("transform", filter, None, self.max_body.bytes(), cx.flow.first)))
    }
}
