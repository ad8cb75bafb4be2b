//! `detach` of an endpoint: its pipeline goes on without the client.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Located, Node, NodeKind, defaults};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::message::answer::Answer;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::pipeline::flow::Outcome;
use crocodile_pear::unstable::pipeline::plan::Plan;
use crocodile_pear::unstable::pipeline::step::Known;
use crocodile_pear::unstable::pipeline::steps::Written;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::runtime::detached::{self, Detached};
use crocodile_pear::unstable::spec;
use http::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::http::response;

spec! {
    /// The pipeline goes on to its end when the client has left. When the gateway stops, it waits for such pipelines for
    /// `clients.drain`. They are kept in memory only: what has not ended when the process ends, is lost. The client's body
    /// is read whole, within `max_body`, before the first call, and the answer within 16 MiB. Short form: `on`.
    pub struct EndpointDetachSpec {
        /// The answer that the client gets at once, written as the step `respond`: `{ status: 202 }`. Steps `reject` before
        /// the first call still refuse the request. By default the client waits for the answer of the pipeline.
        pub respond: Option<AnswerAtOnce>,
        /// The maximum number of such pipelines at once. With more, the request gets 503 before anything is called.
        pub in_flight: NonZeroUsize = PLACES,
    }
    short(switch)
}

const PLACES: NonZeroUsize = NonZeroUsize::new(256).expect("more than none");

/// The most bytes of an answer that nobody may be waiting for.
const ANSWER: usize = 16 << 20;

fn switch(text: Located<String>, problems: &mut Problems) -> Option<EndpointDetachSpec> {
    match text.as_str() {
        "on" | "true" => Some(defaults()),
        other => {
            let message = format!("found `{other}`, wanted `on` or a map");
            problems.error(text.span, message, "write `on`, or leave it out")
        }
    }
}

/// The step that answers.
#[derive(Clone, Debug)]
pub struct AnswerAtOnce(Located<Written>);

/// The step that gives an answer of its own.
const STEP: &str = "respond";

impl Decode for AnswerAtOnce {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let kind = NodeKind::Map(vec![(Located::new(STEP.to_owned(), node.span), node.clone())]);
        Located::decode(&Node { span: node.span, kind }, problems).map(AnswerAtOnce)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let steps = Written::schema(definitions);
        let own = |step: &Json| step["properties"].get(STEP).cloned();
        steps["oneOf"].as_array().into_iter().flatten().find_map(own).unwrap_or_default()
    }
}

/// The same, ready.
pub struct Detaching {
    places: Arc<Semaphore>,
    at_once: Option<Plan>,
}

impl EndpointDetachSpec {
    /// Compiles it. `known` is what the pipeline knows.
    pub fn compile(&self, known: Known<'_>, problems: &mut Problems) -> Option<Detaching> {
        let at_once = match &self.respond {
            None => None,
            Some(AnswerAtOnce(step)) => Some(Plan::compile(vec![step.clone()], known, step.span, problems)?),
        };
        Some(Detaching { places: Arc::new(Semaphore::new(self.in_flight.get())), at_once })
    }
}

impl Detaching {
    /// Runs the pipeline, and gives the client its answer.
    pub async fn run(&self, scope: &Arc<Scope>, plan: &Arc<Plan>) -> Response<AnswerBody> {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            detached::count(Detached::Refused);
            let error = Error::new(Kind::Overloaded, "too many requests go on without their clients");
            return response::fail(&error);
        };
        // A client that has left sends nothing more.
        if let Err(error) = scope.keep_body(plan.max_body()).await {
            return response::fail(&error);
        }
        if let Err(error) = plan.admit(scope).await {
            return response::respond(Some(Err(error)), scope);
        }
        let (sender, receiver) = oneshot::channel();
        detached::spawn(finish(plan.clone(), scope.clone(), place, sender));
        let outcome = match &self.at_once {
            Some(at_once) => at_once.answer(scope).await,
            None => receiver.await.unwrap_or_else(|_| Some(Err(Error::new(Kind::Internal, "the pipeline broke off")))),
        };
        response::respond(outcome, scope)
    }

    pub fn outline(&self) -> String {
        let answer = if self.at_once.is_some() { "; the client is answered at once" } else { "" };
        format!("goes on when the client has left{answer}")
    }
}

/// Runs the pipeline to its end.
async fn finish(
    plan: Arc<Plan>,
    scope: Arc<Scope>,
    place: OwnedSemaphorePermit,
    client: oneshot::Sender<Outcome>,
) -> Detached {
    let outcome = whole(plan.run(&scope).await).await;
    drop(place);
    let failure = match &outcome {
        Some(Err(error)) => Some(error.to_string()),
        Some(Ok(answer)) if answer.status.is_server_error() => {
            Some(format!("its status is {}", answer.status.as_u16()))
        }
        _ => None,
    };
    let told = client.send(outcome).is_ok();
    match failure {
        None => Detached::Done,
        Some(failure) => {
            if !told {
                tracing::warn!(id = scope.facts().id(), "a pipeline failed that nobody waits for: {failure}");
            }
            Detached::Failed
        }
    }
}

/// The outcome with its body in memory.
async fn whole(outcome: Outcome) -> Outcome {
    let answer = match outcome? {
        Ok(answer) if matches!(answer.body, AnswerBody::Pulled(_)) => answer,
        other => return Some(other),
    };
    let Answer { body, .. } = answer;
    let collected = body.collect(ANSWER).await;
    Some(collected.map(|bytes| Answer { body: AnswerBody::Bytes(bytes), ..answer }))
}
