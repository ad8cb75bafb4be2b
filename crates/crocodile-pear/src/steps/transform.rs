//! `transform`: a new body for each item, by an expression.

use std::sync::Arc;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG};

use crate::error::{Error, Kind};
use crate::flow::{Answer, Body, Flow, Outcome};
use crate::format;
use crate::jq::Filter;
use crate::problem::Problems;
use crate::scope::Scope;
use crate::spec::{Expression, Located, Size};
use crate::spec;
use crate::step::{Blame, Compile, Spec, Step, evaluate};

spec! {
    /// Gives each item a new body. Written short as the expression alone.
    /// The item's body is read whole, within `max_body`. An answer with another status than 2xx passes as it is: the
    /// expression is for what was asked for. An expression without an output drops the item.
    pub struct Transform {
        /// The expression; `.` is the item's body.
        pub jq: Expression,
        /// The most bytes of a body that are read.
        pub max_body: Size = Size(16 << 20),
    }
    short(short)
}

fn short(text: Located<String>, _: &mut Problems) -> Option<Transform> {
    Some(Transform { jq: Expression(text), max_body: Size(16 << 20) })
}

impl Spec for Transform {
    fn compile(self, cx: &mut Compile<'_>) -> Option<Box<dyn Step>> {
        let filter = cx.filter(&self.jq)?;
        cx.explain("transform each item", Some("an item's body is read whole before it is transformed"), 0);
        let blame = Blame::of(&filter, cx.first);
        let max_body = self.max_body.bytes();
        Some(Box::new(Transforming(Arc::new(Ready { filter, blame, max_body }))))
    }
}

struct Transforming(Arc<Ready>);

struct Ready {
    filter: Filter,
    blame: Blame,
    max_body: usize,
}

impl Step for Transforming {
    fn run(&self, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let (ready, scope) = (self.0.clone(), scope.clone());
        flow.map(move |producer| {
            let (ready, scope) = (ready.clone(), scope.clone());
            producer.then(move |outcome| transform(ready, outcome, scope))
        })
    }
}

async fn transform(ready: Arc<Ready>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
    match outcome? {
        Ok(answer) if answer.status.is_success() => {
            ready.apply(answer, &scope).await.map_err(|error| error.at_step("transform")).transpose()
        },
        other => Some(other),
    }
}

impl Ready {
    async fn apply(&self, answer: Answer, scope: &Scope) -> Result<Option<Answer>, Error> {
        let answer = format::plain(answer)?;
        let (status, names, mut headers) = (answer.status, answer.names.clone(), answer.headers.clone());
        let upstream = answer.upstream.clone();
        let item = format::value(answer, self.max_body).await?;
        let mut outputs = evaluate(&self.filter, item, &names, scope, self.blame)?;
        if outputs.len() > 1 {
            let detail = format!("the expression gives {} values where one is needed; put it in [ ]", outputs.len());
            return Err(Error::new(Kind::Expression, detail));
        }
        // They describe the body that was read, not the one that leaves.
        for name in [CONTENT_LENGTH, CONTENT_TYPE, ETAG] {
            headers.remove(name);
        }
        Ok(outputs.pop().map(|value| Answer { status, headers, body: Body::Value(value), names, upstream }))
    }
}
