//! The contract of a step: a `Spec`, as written, compiles into a `ReadyStep`, ready.

mod about;
pub mod answers;
mod braces;
mod compile;
mod evaluate;
mod flowing;
mod known;
pub(crate) mod public_links;
pub mod reshape;
pub(crate) mod rewrite;
mod sink;
pub mod status;
pub mod view;
mod whole;

use std::sync::Arc;

pub use self::about::{About, LinkTemplate, Proxied};
pub use self::compile::Compile;
pub use self::evaluate::{FaultSource, apply, evaluate, holds, part, weigh};
pub use self::flowing::{Ahead, CallMethod, Findings, Flowing, Outline, Shape, TakenParts};
pub use self::known::{ByName, Known, KnownRoute, MAX_BODY, StreamSpec};
pub use self::public_links::{PublicLinks, PublicTable, PublicWay};
pub use self::sink::Sink;
pub use self::whole::{ask_plain, ask_whole};
use futures_util::future::BoxFuture;

use crate::config::spec::Decode;
use crate::error::Error;
use crate::json::Raw;
use crate::message::answer::Answer;
use crate::pipeline::flow::Flow;
use crate::request::context::Scope;

pub trait Spec: Decode {
    /// The step's declaration for the plan and the other steps.
    fn about(&self) -> About {
        About::default()
    }

    /// Checks it against what is known and makes it ready; every problem is noted.
    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>>;
}

/// A step, ready: shared by all requests, immutable.
pub trait ReadyStep: Send + Sync + 'static {
    /// Takes the producers of the step before and gives those of this one. Nothing runs before it is asked for.
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow;

    /// The same for the first step of a pipeline, which has no producers before it but one null.
    fn begin(self: Arc<Self>, scope: &Arc<Scope>) -> Flow {
        let unit = Answer::of_value(crate::jq::null());
        self.run(Flow::one(scope.next_producer(), std::future::ready(Some(Ok(unit)))), scope)
    }

    /// The templates that links which it follows are in a recorded answer, for `explain`.
    fn templates(&self, _: &Raw) -> Vec<LinkTemplate> {
        Vec::new()
    }

    /// Runs before all others for a step that guards them and stands before the first that gives anything.
    ///
    /// # Errors
    /// Why no other step runs.
    fn admit(self: Arc<Self>, _: &Arc<Scope>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
