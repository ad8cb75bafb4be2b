//! `reject`: fails with a status of the operator's choice.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::StatusCode;

use crate::config::spec::{ExpressionSpec, Located, Size};
use crate::error::{Error, Kind};
use crate::format;
use crate::jq::{self, Data, Filter};
use crate::json;
use crate::message::answer::Answer;
use crate::message::names::Names;
use crate::offload;
use crate::pipeline::flow::{Flow, Outcome};
use crate::pipeline::step::view::View;
use crate::pipeline::step::{About, Compile, FaultSource, MAX_BODY, ReadyStep, Spec, holds, weigh};
use crate::request::context::Scope;
use crate::spec;
use crate::template::{Template, TemplateKind, TemplateSource};

spec! {
    /// Fails with a status of your choice if a condition holds; otherwise what arrives passes unchanged. Before the first
    /// call, the request is refused and no call is made. Behind a call, the item fails; the client gets the status if
    /// that is the only item. An item's body is read only if an expression uses `.`, then whole, within `max_body`. An
    /// expression of any step can fail in the same way: `error({status: 404, detail: "no such order"})`.
    pub struct Reject {
        /// The condition. False or null lets the request or the item pass.
        pub when: ExpressionSpec,
        /// The status, from 400 to 599.
        pub status: Located<u16> = Located::new(400, Default::default()),
        /// The `detail` of the problem document; a text with `{}`, as in the `headers` of a request.
        pub detail: Option<Located<String>>,
        /// An expression. Its value is the body, as JSON, instead of a problem document.
        pub body: Option<ExpressionSpec>,
        /// The most bytes of an item's body that are read.
        pub max_body: Size = MAX_BODY,
    }
}

impl Spec for Reject {
    fn about(&self) -> About {
        About { looks_on: true, guards: true, ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let text = format!("reject with {} when {}", self.status, self.when.0);
        let when = cx.condition(&self.when);
        let detail = self.detail.as_ref().map_or(Some(None), |text| cx.template(text, TemplateKind::Field).map(Some));
        let body = self.body.as_ref().map_or(Some(None), |body| cx.filter(body).map(Some));
        if let (Some(detail), Some(_)) = (&self.detail, &self.body) {
            let remedy = "leave one out; `body` is sent instead of the problem document that has the `detail`";
            return cx.problems.error(detail.span, "`detail` beside `body`", remedy);
        }
        let status = StatusCode::from_u16(self.status.value).ok().filter(|_| (400..600).contains(&self.status.value));
        let Some(status) = status else {
            let message = format!("`{}` is not the status of a refusal", self.status);
            return cx.problems.error(self.status.span, message, "write one from 400 to 599");
        };
        let (when, detail, body) = (when?, detail?, body?);
        let in_detail = detail.iter().flat_map(Template::filters).any(Filter::reads_item);
        let reads = cx.flow.item && (in_detail || when.reads_item() || body.iter().any(Filter::reads_item));
        cx.explain(text, reads.then_some("the item is read whole, for the expressions"), 0);
        let fault_source = FaultSource::from_filter(&when, cx.flow.first);
        let max_body = self.max_body.bytes();
        Some(Arc::new(ReadyReject { when, status, detail, body, reads, fault_source, max_body }))
    }
}

/// The step.
struct ReadyReject {
    when: Filter,
    status: StatusCode,
    detail: Option<Template>,
    body: Option<Filter>,
    /// Whether an expression uses `.`.
    reads: bool,
    fault_source: FaultSource,
    max_body: usize,
}

impl ReadyStep for ReadyReject {
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let scope = scope.clone();
        flow.map(move |producer| {
            let (ready, scope) = (self.clone(), scope.clone());
            producer.then(move |outcome| pass(ready, outcome, scope))
        })
    }

    fn admit(self: Arc<Self>, scope: &Arc<Scope>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.judge(jq::null().into(), None, scope.clone()))
    }
}

async fn pass(ready: Arc<ReadyReject>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
    match outcome? {
        Ok(answer) if answer.is_usable() => Some(ready.pass(answer, scope).await),
        other => Some(other),
    }
}

impl ReadyReject {
    async fn pass(self: Arc<Self>, answer: Answer, scope: Arc<Scope>) -> Result<Answer, Error> {
        let (names, text) = (answer.names.clone(), format::Text::from_answer(&answer));
        let (answer, item) = match self.reads {
            true => format::peek(answer, self.max_body).await.map_err(|error| error.at_step("reject"))?,
            false => (answer, jq::null().into()),
        };
        let judged = self.judge(item, names, scope).await;
        judged.map_err(|error| format::explain(text.as_ref(), error)).map(|()| answer)
    }

    /// # Errors
    /// `Rejected` if the condition holds, and whatever makes an expression fail.
    async fn judge(self: Arc<Self>, item: Data, names: Names, scope: Arc<Scope>) -> Result<(), Error> {
        let weight = weigh(&self.when, &item, &names, &scope);
        let judged =
            offload::run(weight, move || match holds(&self.when, item.clone(), &names, &scope, self.fault_source)? {
                false => Ok(()),
                true => Err(self.refusal(&View {
                    item: &item,
                    names: &names,
                    scope: &scope,
                    fault_source: self.fault_source,
                })?),
            });
        judged.await.map_err(|error| error.at_step("reject"))
    }

    fn refusal(&self, view: &View<'_>) -> Result<Error, Error> {
        let detail = self.detail.as_ref().map_or(Ok(None), |detail| detail.field(view))?;
        let usual = self.status.canonical_reason().unwrap_or("rejected").to_owned();
        let error = Error::new(Kind::Rejected(self.status), detail.unwrap_or(usual));
        match &self.body {
            None => Ok(error),
            Some(body) => Ok(error.with_body(json::to_bytes(&view.evaluate(body)?.into_value())?)),
        }
    }
}
