//! Whole answers changed by a closure.

use std::sync::Arc;

use super::guard;
use super::whole::Whole;
use crate::error::Error;
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::pipeline::flow::{Flow, Outcome};
use crate::pipeline::step::{MAX_BODY, ReadyStep};
use crate::pipeline::steps::rust_step::Own;
use crate::request::context::Scope;

/// From an answer to another one, or to a failure.
pub type AnswerTransform = dyn Fn(Whole) -> Result<Whole, Error> + Send + Sync;

/// A step that maps status, headers and body.
pub fn whole(transform: Arc<AnswerTransform>) -> Own {
    Own::new(move |cx| {
        cx.explain("a closure over each answer", Some("an item's body is read whole"), 0);
        Arc::new(Mapping(transform.clone()))
    })
}

struct Mapping(Arc<AnswerTransform>);

impl ReadyStep for Mapping {
    fn run(self: Arc<Self>, flow: Flow, _: &Arc<Scope>) -> Flow {
        let transform = self.0.clone();
        flow.map(move |producer| {
            let transform = transform.clone();
            producer.then(async move |outcome| apply(outcome?, transform).await)
        })
    }
}

async fn apply(outcome: Result<Answer, Error>, transform: Arc<AnswerTransform>) -> Outcome {
    let transformed = async {
        let answer = outcome?;
        let (status, headers) = (answer.status, answer.headers.clone().into_map());
        let (names, upstream) = (answer.names, answer.upstream);
        let body = answer.body.collect(MAX_BODY.bytes()).await?;
        let whole = guard::attempt(|| transform(Whole { status, headers, body }))?;
        Ok(Answer { names, upstream, ..Answer::new(whole.status, whole.headers, AnswerBody::Bytes(whole.body)) })
    };
    Some(transformed.await)
}
