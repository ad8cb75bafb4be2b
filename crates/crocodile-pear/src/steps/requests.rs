//! `requests`: several calls with a name each, all at once.

use std::sync::Arc;

use crate::flow::{Flow, Producer};
use crate::jq;
use crate::scope::Scope;
use crate::spec::{Decode, Definitions, Json, Entries, Node};
use crate::problem::Problems;
use crate::step::{Compile, Shape, Spec, Step};
use crate::steps::request::{Calling, Request};

/// Calls with a name each; the names are known to expressions after `merge`.
#[derive(Clone, Debug)]
pub struct Requests(Entries<Request>);

impl Decode for Requests {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let calls = Entries::decode(node, problems)?;
        if calls.is_empty() {
            return problems.error(node.span, "`requests` without a call", "write `NAME: UPSTREAM /path` for each");
        }
        Some(Requests(calls))
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let mut schema = Entries::<Request>::schema(definitions);
        schema["description"] = "Several calls with a name each, all started at once. `merge` makes one value of \
            their answers, in which each stands as `$name`; without it each is an item."
            .into();
        schema
    }
}

impl Spec for Requests {
    fn compile(self, cx: &mut Compile<'_>) -> Option<Box<dyn Step>> {
        if !cx.first {
            // Who uses the names later has no fault of their own.
            cx.pending.extend(self.0.keys().cloned());
            let place = self.0.values().next().map(|(span, _)| *span).unwrap_or_default();
            let remedy = "put it first; what depends on other answers is a `request` with expressions in its path";
            return cx.problems.error(place, "`requests` begins a pipeline", remedy);
        }
        let mut calls = Some(Vec::new());
        let mut lines = Vec::new();
        for (name, (span, request)) in self.0 {
            if !variable(&name) {
                let remedy = "a name is of letters, digits and `_`, begins with a letter, and is not the client's own: \
                    `path`, `query`, `headers`, `body`";
                cx.problems.error::<()>(span, format!("`{name}` cannot be the name of a variable"), remedy);
                calls = None;
            }
            if let Some(each) = &request.for_each {
                let remedy = "call once, or use `request` with `for_each`";
                cx.problems.error::<()>(each.0.span, "a named call cannot have `for_each`", remedy);
                calls = None;
            }
            lines.push(format!("{name} = {} {}", request.to.value, request.path.value));
            let calling = request.calling(format!("requests.{name}").into(), cx, true);
            cx.pending.push(name.clone());
            calls = match (calls, calling) {
                (Some(mut calls), Some(calling)) => {
                    calls.push((Arc::from(name), Arc::new(calling)));
                    Some(calls)
                }
                _ => None,
            };
        }
        let calls: Vec<(Arc<str>, Arc<Calling>)> = calls?;
        cx.shape = Shape::Many(calls.len() as u64);
        cx.explain(format!("requests, side by side: {}", lines.join("; ")), None, calls.len() as u64);
        Some(Box::new(Named { calls }))
    }
}

/// Whether it can stand behind `$`, and is none of the client's own.
fn variable(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    starts && fits && !crate::scope::VARIABLES.contains(&name)
}

struct Named {
    calls: Vec<(Arc<str>, Arc<Calling>)>,
}

impl Step for Named {
    fn begin(&self, scope: &Arc<Scope>) -> Flow {
        let producer = |(name, calling): &(Arc<str>, Arc<Calling>)| Producer {
            id: scope.next_producer(),
            name: Some(name.clone()),
            outcome: Box::pin(calling.clone().make(jq::null(), None, scope.clone())),
        };
        Flow::of(self.calls.iter().map(producer).collect())
    }

    /// Never behind another step: `compile` refuses that.
    fn run(&self, _: Flow, scope: &Arc<Scope>) -> Flow {
        self.begin(scope)
    }
}
