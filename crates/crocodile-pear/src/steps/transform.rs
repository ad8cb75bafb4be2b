//! `transform`: a new body for each item, by an expression.

use std::sync::Arc;

use crate::error::{Error, Kind};
use crate::flow::{Answer, Flow, Outcome};
use crate::format;
use crate::jq::{Data, Filter};
use crate::offload;
use crate::problem::Problems;
use crate::scope::Scope;
use crate::spec;
use crate::spec::{Expression, Located, Size, only};
use crate::step::{Blame, Compile, MAX_BODY, Shape, Spec, Step, apply, weigh};

spec! {
    /// Gives each item a new body. Written short as the expression alone. The item's body is read whole, within
    /// `max_body`. An expression without an output drops the item. An answer with another status than 2xx passes
    /// unchanged, with its own body: use `on_status` of the call to handle it.
    pub struct Transform {
        /// The expression; `.` is the item's body.
        pub jq: Expression,
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
    pub fn of(jq: Expression) -> Self {
        Transform { jq, max_body: MAX_BODY }
    }
}

impl Spec for Transform {
    fn compile(self, cx: &mut Compile<'_>) -> Option<Box<dyn Step>> {
        let filter = cx.filter(&self.jq)?;
        cx.explain("transform each item", Some("an item's body is read whole before it is transformed"), 0);
        Some(Box::new(Transforming::new("transform", filter, None, self.max_body.bytes(), cx.first)))
    }
}

impl Transform {
    /// The same behind a pipeline, for its one answer: `.` is that, and the pipeline's names are not known.
    pub(crate) fn compile_behind(self, cx: &mut Compile<'_>) -> Option<Box<dyn Step>> {
        (cx.first, cx.item) = (false, true);
        let names = std::mem::take(&mut cx.names);
        let filter = cx.filter(&self.jq);
        cx.names = names;
        if cx.shape != Shape::One {
            let remedy =
                "put `merge` or `concatenate` at the end of the pipeline, or write an endpoint of its own here";
            let message = "this takes one answer, and the pipeline gives several";
            return cx.problems.error(self.jq.0.span, message, remedy);
        }
        cx.explain("change the answer", Some("the answer is read whole before it is changed"), 0);
        Some(Box::new(Transforming::new("answer", filter?, None, self.max_body.bytes(), false)))
    }
}

/// A step that gives each item a new body.
pub(super) struct Transforming(Arc<Ready>);

struct Ready {
    step: &'static str,
    filter: Filter,
    /// For a body that is a list.
    each: Option<Filter>,
    blame: Blame,
    max_body: usize,
}

impl Transforming {
    /// `each` is the expression for a body that is a list, if it is another.
    pub(super) fn new(step: &'static str, filter: Filter, each: Option<Filter>, max_body: usize, first: bool) -> Self {
        let blame = Blame::of(&filter, first);
        Transforming(Arc::new(Ready { step, filter, each, blame, max_body }))
    }
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
        Ok(answer) if answer.is_usable() => {
            ready.clone().apply(answer, scope).await.map_err(|error| error.at_step(ready.step)).transpose()
        }
        other => Some(other),
    }
}

impl Ready {
    fn filter(&self, item: &Data) -> &Filter {
        self.each.as_ref().filter(|_| item.is_list()).unwrap_or(&self.filter)
    }

    async fn apply(self: Arc<Self>, answer: Answer, scope: Arc<Scope>) -> Result<Option<Answer>, Error> {
        let text = format::Text::of(&answer);
        let (mut answer, item) = format::open(answer, self.max_body).await?;
        let names = answer.names.clone();
        let weight = weigh(self.filter(&item), &item, &names, &scope);
        let outputs = move || apply(self.filter(&item), item.clone(), &names, &scope, self.blame);
        let outputs = offload::run(weight, outputs).await;
        let mut outputs = outputs.map_err(|error| format::explain(text.as_ref(), error))?;
        if outputs.len() > 1 {
            let detail = format!("the expression gives {} values where one is needed; put it in [ ]", outputs.len());
            return Err(Error::new(Kind::Expression, detail));
        }
        answer.redescribe();
        Ok(outputs.pop().map(|data| Answer { body: data.into(), ..answer }))
    }
}
