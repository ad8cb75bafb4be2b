//! A pipeline that is read from YAML, for Rust programs.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;

use super::answer;
use super::faults::Faults;
use super::pipeline::MAX_BODY;
use super::servers::Named;
use crate::database::DatabaseSpec;
use crate::error::{Error, Kind};
use crate::flow::{Body, Pulled};
use crate::plan::Plan;
use crate::problem::{Problems, Span};
use crate::scope::{Params, Scope};
use crate::spec;
use crate::spec::{Decode, Entries, Located, Node};
use crate::steps::Written;
use crate::upstream::{Given, UpstreamSpec};
use crate::yaml;

spec! {
    /// A pipeline, and what it needs.
    struct Document {
        /// The APIs that it calls, by name, beside those that the client knows.
        upstreams: Entries<UpstreamSpec> = Entries::new(),
        /// The databases that it asks, by name, beside those that the client knows.
        databases: Entries<DatabaseSpec> = Entries::new(),
        /// The names of the path's parameters.
        params: Vec<String> = Vec::new(),
        /// The steps in order.
        pipeline: Vec<Located<Written>>,
    }
}

/// A pipeline, ready: it runs for any number of requests at the same time.
pub struct Prepared {
    plan: Plan,
    params: Vec<Arc<str>>,
}

/// Reads a file that a spec names, from the program's folder.
pub fn file(written: &Located<String>) -> Result<Vec<u8>, String> {
    std::fs::read(written.as_str()).map_err(|fault| fault.to_string())
}

impl Prepared {
    pub(super) fn read(text: &str, mut named: Named) -> Result<Self, Faults> {
        let mut problems = Problems::default();
        let node = yaml::read(0, text, &|name| std::env::var(name).ok(), &mut problems);
        let document = node.and_then(|node| document(&node, &mut problems));
        let prepared = document.and_then(|document| compile(document, &mut named, &mut problems));
        prepared.filter(|_| !problems.fatal()).ok_or_else(|| Faults::of(problems))
    }

    /// Answers a request. `params` are the values of the path's parameters, in the order of `params` in the text, percent-decoded.
    pub async fn answer<B>(&self, request: Request<B>, params: &[&str]) -> Response<Pulled>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let (head, body) = request.into_parts();
        let target = head.uri.path_and_query().cloned();
        let mut scope = Scope::new(head.method, target, head.headers, Body::Pulled(Box::pin(Brought(Box::pin(body)))));
        let values = self.params.iter().cloned().zip(params.iter().map(|value| (*value).to_owned())).collect();
        scope.set_params(Params { values, rest: None });
        answer::of(self.plan.answer(&Arc::new(scope), MAX_BODY).await)
    }
}

/// The body of a request, as a program's server has it.
struct Brought<B>(Pin<Box<B>>);

impl<B> http_body::Body for Brought<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = std::task::ready!(self.0.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(|error| Error::new(Kind::BadRequest, error.to_string()))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.0.size_hint()
    }
}

/// A list is the pipeline alone.
fn document(node: &Node, problems: &mut Problems) -> Option<Document> {
    if node.as_list().is_none() {
        return Document::decode(node, problems);
    }
    let pipeline = Vec::decode(node, problems)?;
    Some(Document { upstreams: Entries::new(), databases: Entries::new(), params: Vec::new(), pipeline })
}

fn compile(document: Document, named: &mut Named, problems: &mut Problems) -> Option<Prepared> {
    let given = Given { files: &file, resolver: None, cache: None };
    let mut sound = true;
    for (name, (span, spec)) in &document.upstreams {
        if spec.health.is_some() {
            let remedy = "leave it out here; a program polls `Upstream::watch` of its own upstreams";
            problems.error::<()>(*span, format!("nothing would make the health checks of `{name}`"), remedy);
        }
        match spec.compile(name, *span, &given, problems) {
            Some(upstream) => drop(named.upstreams.insert(name.clone(), upstream)),
            None => sound = false,
        }
    }
    for (name, (_, spec)) in &document.databases {
        match spec.compile(name, &file, problems) {
            Some(database) => drop(named.databases.insert(name.clone(), database)),
            None => sound = false,
        }
    }
    let params = document.params.iter().map(|name| name.as_str().into()).collect();
    let plan = Plan::compile(document.pipeline, named.known(&document.params), Span::default(), problems);
    let plan = plan.filter(|_| sound)?;
    Some(Prepared { plan, params })
}
