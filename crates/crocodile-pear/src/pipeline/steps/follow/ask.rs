//! `follow` with a `request`: what the expression gives is a value to call for, not a link.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::stream::StreamExt;

use super::leads::Lead;
use super::ready::{LinkedValue, ReadyFollow, together};
use super::spec::{Follow, REDIRECTS, Required, ResultKeys};
use crate::error::{Error, Kind};
use crate::format;
use crate::jq::{self, Value};
use crate::json::value::{self, Shape as Kinds};
use crate::message::answer::Answer;
use crate::message::names::Names;
use crate::pipeline::call::{Asking, Batch, Collector, Coming, Request, seated};
use crate::pipeline::flow::{Flow, Outcome};
use crate::pipeline::step::{Compile, ReadyStep};
use crate::request::context::Scope;

/// The step.
pub(super) struct Asks {
    ready: Arc<ReadyFollow>,
    asking: Arc<Asking>,
}

impl Asks {
    pub(super) fn new(ready: Arc<ReadyFollow>, asking: Asking) -> Self {
        Asks { ready, asking: Arc::new(asking) }
    }
}

impl ReadyStep for Asks {
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let (ready, scope, at_once) = (self.ready.clone(), scope.clone(), flow.at_once());
        let collector = Collector::new(self.asking.clone(), &scope);
        let producers = collector.watch(flow).map(move |(producer, coming)| {
            let (ready, scope, collector) = (ready.clone(), scope.clone(), collector.clone());
            producer.then(move |outcome| Ask { ready, scope, collector }.follow(outcome, coming))
        });
        Flow::stream(producers, at_once)
    }
}

/// The requests of one item.
struct Ask {
    ready: Arc<ReadyFollow>,
    scope: Arc<Scope>,
    collector: Arc<Collector>,
}

impl Ask {
    async fn follow(self, outcome: Outcome, coming: Coming) -> Outcome {
        match outcome? {
            Ok(answer) if answer.is_usable() => {
                Some(self.embed(answer, coming).await.map_err(|error| error.at_step("follow")))
            }
            other => Some(other),
        }
    }

    async fn embed(self, answer: Answer, coming: Coming) -> Result<Answer, Error> {
        let text = format::Text::from_answer(&answer);
        let (mut answer, item) = format::open(answer, self.ready.max_body).await?;
        let values = self.ready.find(&item, &answer.headers, &answer.names, &self.scope).await;
        let values = values.map_err(|error| format::explain(text.as_ref(), error))?;
        let value = |lead| match lead {
            Lead::Link(value) | Lead::Part(value) | Lead::Action(value, _) => value.into_value(),
            Lead::Act(act) => act.link.clone().into_value(),
            Lead::Typed(_) => jq::null(),
        };
        let values = values.into_iter().map(value).collect();
        let found = self.found(values, &answer.names, coming).await?;
        answer.redescribe();
        found.arrive(&mut answer);
        answer.names = self.ready.rebase(answer.names, found.base, item.is_object());
        answer.body = self.ready.put(item, found.data, found.head).await?.into();
        Ok(answer)
    }

    /// The documents of the values: one, or a list where several are allowed.
    async fn found(&self, values: Vec<Value>, names: &Names, coming: Coming) -> Result<LinkedValue, Error> {
        let limit = self.ready.limit;
        if values.len() as u64 > limit {
            let detail = format!("the item has {} values to ask for; the limit is {limit}", values.len());
            return Err(Error::new(Kind::Oversized, detail));
        }
        let most = self.ready.concurrency.map_or(usize::MAX, NonZeroUsize::get);
        let asked = together(values.into_iter().map(|value| self.one(value, names.clone())), most);
        let mut found = seated(asked, coming).await.into_iter().collect::<Result<Vec<LinkedValue>, Error>>()?;
        if limit == 1 {
            return Ok(found.pop().unwrap_or_else(LinkedValue::nothing));
        }
        Ok(LinkedValue::list(found))
    }

    async fn one(&self, value: Value, names: Names) -> Result<LinkedValue, Error> {
        if matches!(value::shape(&value), Kinds::Null) {
            return Ok(LinkedValue::nothing());
        }
        let fetched = self.collector.clone().ask(value, names).await;
        let head = self.ready.head_of(&fetched);
        let instead = |data| LinkedValue::instead(data, head.clone());
        let found = match fetched {
            Ok(document) => match self.ready.rule(&document) {
                ControlFlow::Break(ruled) => return ruled.map(instead),
                ControlFlow::Continue(used) => used.map(|_| LinkedValue::document(&document, head.clone())),
            },
            Err(error) => Err(error),
        };
        match &self.ready.otherwise {
            Some(otherwise) => Ok(found.unwrap_or_else(|_| instead(otherwise.clone()))),
            None => found,
        }
    }
}

/// Compiles `request`, and reports the settings that cannot stand beside it.
pub(super) fn compile(spec: &mut Follow, cx: &mut Compile<'_>) -> Option<Option<Asking>> {
    let Some(mut request) = spec.request.take() else { return Some(None) };
    let depth = Some(spec.depth.span).filter(|_| spec.depth.value > 1);
    let for_links = spec.base.as_ref().map(|base| base.span).or(spec.pages.as_ref().map(|pages| pages.span)).or(depth);
    let for_links = for_links.or(spec.with.as_ref().map(|with| with.span));
    let for_links = for_links.or((spec.redirects.value != REDIRECTS).then_some(spec.redirects.span));
    let for_links = for_links.or(spec.method.as_ref().map(|method| method.span));
    let for_links = for_links.or(spec.body.as_ref().map(|body| body.0.span));
    let for_links = for_links.or(Some(request.path.span).filter(|_| spec.headers.is_some()));
    let for_links = for_links.or(Some(request.path.span).filter(|_| spec.required == Required::On));
    if let Some(place) = for_links.or(Some(request.path.span).filter(|_| spec.link.is_none())) {
        let remedy = "write `link: EXPRESSION` for the value, and nothing that is for links: `base`, `pages`, `depth`, `with`, `required`, \
                      `redirects`, `method`, `headers`, `body`";
        return cx.problems.error(place, "`request` takes a value, not a link", remedy);
    }
    let head = spec.name.as_ref().and_then(|name| name.head.as_ref());
    if let (Some(head), Some(_)) = (head, &request.batch) {
        let remedy = "leave it out: the values of a batch share one answer";
        return cx.problems.error(head.span, "`head` beside `batch`", remedy);
    }
    if let (Some(most), Some(_)) = (&spec.concurrency, &request.batch) {
        let remedy = "leave one out; `in_flight` of the upstream bounds its calls as well";
        return cx.problems.error(most.span, "`concurrency` beside `batch`", remedy);
    }
    let own = [
        request.for_each.as_ref().map(|each| each.0.span),
        request.when.as_ref().map(|when| when.0.span),
        request.otherwise.as_ref().map(|otherwise| otherwise.span),
        request.concurrency.as_ref().map(|most| most.span),
        request.on_status.as_ref().map(|_| request.path.span),
    ];
    if let Some(place) = own.into_iter().flatten().next() {
        let remedy =
            "write `when`, `otherwise`, `on_status` and `concurrency` beside `request`; its values are those of `link`";
        return cx.problems.error(place, "this `request` is made for what `link` gives", remedy);
    }
    request.timeout = request.timeout.or(spec.timeout.clone());
    // What items a batch has depends on whether its answer is used.
    request.on_status = spec.on_status.clone();
    explain(spec, &request, cx);
    request.asking("follow", cx).map(Some)
}

fn explain(spec: &Follow, request: &Request, cx: &mut Compile<'_>) {
    let link = spec.link.as_ref().map(|link| link.0.to_string()).unwrap_or_default();
    let name = spec.name.as_ref().map(ResultKeys::outline).unwrap_or_default();
    let values = cx.flow.shape.most().saturating_mul(spec.limit.value);
    let batches = request.batch.as_ref().map(Batch::describe).unwrap_or_default();
    let text = format!("request {} {} for {link}{name}{batches}", request.to, request.path);
    let waits = "an item is read whole, and what is asked for it; other items do not wait for it";
    cx.explain(text, Some(waits), values);
    if let (Some(batch), Some(line)) = (&request.batch, cx.found.outline.last_mut()) {
        line.together = Some(batch.calls(values));
    }
}
