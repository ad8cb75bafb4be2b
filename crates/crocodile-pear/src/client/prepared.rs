//! A pipeline that is read from YAML, for Rust programs.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;

use super::answer;
use super::body::Pulled;
use super::faults::Faults;
use super::handle::Client;
use crate::config::carried_state::Carry;
use crate::config::problem::{Problems, Span};
use crate::config::spec::{Decode, Entries, Located, Node};
use crate::config::yaml;
use crate::database::DatabaseSpec;
use crate::error::{Error, Kind};
use crate::message::body::AnswerBody;
use crate::pipeline::plan::Plan;
use crate::pipeline::steps::Written;
use crate::request::context::{Params, Scope};
use crate::spec;
use crate::upstream::UpstreamSpec;

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

/// A pipeline that [`Client::read`](crate::Client::read) compiled. It runs for any number of requests at the same time;
/// share it in an [`Arc`].
///
/// ```
/// use std::sync::Arc;
/// use crocodile_pear::{Client, Faults, Prepared};
///
/// fn users(api: &str) -> Result<Arc<Prepared>, Faults> {
///     let client = Client::new();
///     client.upstream("users", api)?;
///     client.read("
///       params: [user]
///       pipeline:
///         - request: users /users/{user}
///         - transform: '{name, mail}'
///     ").map(Arc::new)
/// }
/// # users("http://127.0.0.1:9000")?;
/// # Ok::<(), Faults>(())
/// ```
pub struct Prepared {
    plan: Plan,
    params: Vec<Arc<str>>,
}

/// Reads a file that a spec names, from the program's folder.
pub(super) fn file(written: &Located<String>) -> Result<Vec<u8>, String> {
    std::fs::read(written.as_str()).map_err(|fault| fault.to_string())
}

impl Prepared {
    pub(super) fn read(text: &str, variable: &dyn Fn(&str) -> Option<String>, client: &Client) -> Result<Self, Faults> {
        let mut problems = Problems::default();
        let node = yaml::read(0, text, &|name| variable(name), &mut problems);
        let document = node.and_then(|node| document(&node, &mut problems));
        let prepared = document.and_then(|document| compile(document, client, &mut problems));
        prepared.filter(|_| !problems.fatal()).ok_or_else(|| Faults::from_problems(problems))
    }

    /// Answers a request. `params` are the values of the path's parameters, percent-decoded, in the order of `params` in the
    /// text. A failure is a problem document (RFC 9457).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use http_body_util::{BodyExt, Empty};
    ///
    /// let greeting = "
    ///   params: [name]
    ///   pipeline:
    ///     - respond: { body: '{hello: $path.name}' }
    /// ";
    /// let prepared = crocodile_pear::Client::new().read(greeting)?;
    /// let response = prepared.answer(http::Request::new(Empty::new()), &["Lund"]).await;
    /// let body = response.into_body().collect().await?.to_bytes();
    /// assert_eq!(body, r#"{"hello":"Lund"}"#);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn answer<B>(&self, request: Request<B>, params: &[&str]) -> Response<Pulled>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let (head, body) = request.into_parts();
        let target = head.uri.path_and_query().cloned();
        // No body is no stream: a cache serves such a request.
        let body = match body.is_end_stream() {
            true => AnswerBody::empty(),
            false => AnswerBody::Pulled(Box::pin(Brought(Box::pin(body)))),
        };
        let mut scope = Scope::new(head.method, target, head.headers, body);
        scope.time_briefly();
        let values = self.params.iter().cloned().zip(params.iter().map(|value| (*value).to_owned())).collect();
        scope.set_params(Params { values, rest: None });
        answer::from_outcome(self.plan.answer(&Arc::new(scope)).await)
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("params", &self.params).finish_non_exhaustive()
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

fn compile(document: Document, client: &Client, problems: &mut Problems) -> Option<Prepared> {
    let mut named = client.servers.named();
    let named = Arc::make_mut(&mut named);
    let mut sound = true;
    for (name, (span, spec)) in &document.upstreams {
        if spec.health.is_some() {
            let remedy = "leave `health` out: the gateway alone makes health checks";
            problems.error::<()>(*span, format!("nothing makes the health checks of `{name}` here"), remedy);
        }
        if named.upstreams.contains_key(name) {
            let remedy = "give it another name";
            problems.error::<()>(*span, format!("the client has an upstream with the name `{name}`"), remedy);
            sound = false;
        }
        match client.servers.compile((name, *span), spec, &file, problems) {
            Some(upstream) => drop(named.upstreams.insert(name.clone(), upstream)),
            None => sound = false,
        }
    }
    for (name, (_, spec)) in &document.databases {
        match spec.compile(name, &file, &Carry::default(), problems) {
            Some(database) => drop(named.databases.insert(name.clone(), database)),
            None => sound = false,
        }
    }
    let params = document.params.iter().map(|name| name.as_str().into()).collect();
    let plan = Plan::compile(document.pipeline, named.known(&document.params), Span::default(), problems);
    let plan = plan.filter(|_| sound)?;
    Some(Prepared { plan, params })
}
