//! `read: created` of a `request`: what the answer to a write says it has created is read, and becomes the answer.

use std::sync::Arc;

use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, StatusCode};

use super::ready::{LinkedValue, ReadyFollow};
use super::spec::Follow;
use crate::config::problem::Span;
use crate::config::spec::{ExpressionSpec, Located};
use crate::error::Error;
use crate::jq;
use crate::message::answer::Answer;
use crate::message::names::Names;
use crate::pipeline::flow::{Flow, Outcome};
use crate::pipeline::step::{About, Compile, ReadyStep};
use crate::request::context::Scope;

/// Where the upstream itself says that the resource is: the field of the answer is the client's by now.
const ADDRESS: &str = "$answer.headers.location";

/// The step that stands behind a `request` with `read: created`.
#[derive(Clone, Debug)]
pub struct Created(pub(crate) Span);

impl Created {
    pub(crate) fn about(&self) -> About {
        About { follows: true, needs_items: true, writes: vec![CONTENT_LOCATION], ..About::default() }
    }

    pub(crate) fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let address = Located::new(ADDRESS.to_owned(), self.0);
        let (ready, _) = Follow::of(ExpressionSpec::plain(address)).ready(cx)?;
        Some(Arc::new(FollowStep(ready)))
    }
}

struct FollowStep(Arc<ReadyFollow>);

impl ReadyStep for FollowStep {
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let (ready, scope) = (self.0.clone(), scope.clone());
        flow.map(move |producer| {
            let (ready, scope) = (ready.clone(), scope.clone());
            producer.then(move |outcome| read(ready, outcome, scope))
        })
    }
}

async fn read(ready: Arc<ReadyFollow>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
    match outcome? {
        Ok(answer) if creates(&answer) => match ready.created(answer.names.clone(), &scope).await {
            Ok(Some(found)) => Some(Ok(with_read(answer, found, &ready))),
            // The write is done: what says so is worth more than an error about reading it.
            Ok(None) | Err(_) => Some(Ok(answer)),
        },
        other => Some(other),
    }
}

/// Whether it may say where something is that the call has made.
fn creates(answer: &Answer) -> bool {
    matches!(answer.status, StatusCode::CREATED | StatusCode::SEE_OTHER)
}

/// The answer with what was read. A 303 has become what it led to.
fn with_read(mut answer: Answer, found: LinkedValue, ready: &ReadyFollow) -> Answer {
    answer.redescribe();
    answer.headers.remove(&CONTENT_LOCATION);
    if answer.status == StatusCode::SEE_OTHER {
        answer.status = found.status.unwrap_or(StatusCode::OK);
        if let Some(address) = answer.headers.remove(&LOCATION) {
            answer.headers.insert(CONTENT_LOCATION, address);
        }
    }
    answer.names = ready.rebase(answer.names, found.base, false);
    answer.body = found.data.into();
    answer
}

impl ReadyFollow {
    /// The resource at the address in the answer; `None` if there is no such address.
    async fn created(self: &Arc<Self>, names: Names, scope: &Arc<Scope>) -> Result<Option<LinkedValue>, Error> {
        let leads = self.find(&jq::null().into(), &HeaderMap::new(), &names, scope).await?;
        if leads.iter().all(super::leads::Lead::is_nothing) {
            return Ok(None);
        }
        let found = self.clone().descend(leads, self.site(&names), scope.clone()).await?;
        Ok(found.status.is_some().then_some(found))
    }
}
