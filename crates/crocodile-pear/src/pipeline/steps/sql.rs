//! `sql`: runs a statement in a database, once or for each item.

use std::sync::Arc;

use crate::format;
use crate::jq;
use crate::pipeline::call::ReadyStatement;
pub use crate::pipeline::call::{Sql, StatementSpec};
use crate::pipeline::flow::{Flow, Outcome};
use crate::pipeline::step::{About, Compile, ReadyStep, Shape, Spec};
use crate::request::context::Scope;

impl Spec for Sql {
    fn about(&self) -> About {
        About { asks_database: true, replaces: self.name.is_none(), ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let (place, many) = (self.to.span, matches!(cx.flow.shape, Shape::Many(_)));
        if let Some(name) = self.name.as_ref().filter(|_| !cx.flow.item) {
            let remedy = "leave out `as`, or put a step before this one";
            return cx.problems.error(name.span, "there is no item to put the result into", remedy);
        }
        let (key, text) = (self.name.clone(), format!("sql {}", self.to));
        let statement = self.ready("sql".into(), cx)?;
        let text = format!("{text} {}", statement.shown());
        if let Some(name) = key {
            cx.put_under(&name);
        }
        if many && statement.is_the_same() {
            let remedy = "run it once, before the list, or use the item in `values`";
            cx.problems.warning(place, "every item runs the same statement", remedy);
        }
        let waits = statement.name.as_ref().map(|_| "the item and the result are read whole, to be one object");
        cx.explain(text, waits, cx.flow.shape.most());
        Some(Arc::new(statement))
    }
}

impl ReadyStep for ReadyStatement {
    fn begin(self: Arc<Self>, scope: &Arc<Scope>) -> Flow {
        Flow::one(scope.next_producer(), self.answer(jq::null().into(), None, scope.clone()))
    }

    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let scope = scope.clone();
        flow.map(move |producer| {
            let (statement, scope) = (self.clone(), scope.clone());
            producer.then(move |outcome| follow(statement, outcome, scope))
        })
    }
}

/// Runs it for the item that a producer yields.
async fn follow(statement: Arc<ReadyStatement>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
    let answer = match outcome? {
        Ok(answer) if answer.is_usable() => answer,
        other => return Some(other),
    };
    let (names, text) = (answer.names.clone(), format::Text::from_answer(&answer));
    let item = match statement.terms.reads_item || statement.name.is_some() {
        true => match format::data(answer, statement.terms.max_body).await {
            Ok(item) => item,
            Err(error) => return Some(Err(error)),
        },
        false => jq::null().into(),
    };
    statement.answer(item, names, scope).await.map(|made| made.map_err(|error| format::explain(text.as_ref(), error)))
}
