//! A pipeline that a Rust program puts together, word by word.

use std::sync::Arc;

use http::header::HeaderMap;
use http::{Method, Response};
use serde::de::DeserializeOwned;

use super::calls;
use super::expression::{IntoExpression, IntoItems, read};
use super::faults::Faults;
use super::request::Request;
use super::servers::{Named, Servers};
use super::shape::IntoSelect;
use super::whole::Whole;
use super::{answer, map};
use crate::error::{Error, Kind};
use crate::flow::{Body, Pulled};
use crate::plan::Plan;
use crate::problem::{Problems, Span};
use crate::scope::Scope;
use crate::spec::Located;
use crate::step;
use crate::steps::Written;
use crate::steps::concatenate::{As, Concatenate};
use crate::steps::convert::{Convert, Form};
use crate::steps::dedupe::Dedupe;
use crate::steps::each::Each;
use crate::steps::follow::Follow;
use crate::steps::merge::Merge;
use crate::steps::sql::Sql;
use crate::steps::timer::Timer;
use crate::steps::transform::Transform;

/// The most bytes of a body that a step reads whole.
pub const MAX_BODY: usize = step::MAX_BODY.0 as usize;

/// What an item of a concatenated answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// `{"status", "headers", "body"}`
    All,
    /// The body alone.
    BodyOnly,
}

/// Calls, and what is to be done with their answers, with the words of a configuration's pipeline. Nothing happens
/// before [`into_response`](Self::into_response); dropping what that gives cancels all calls behind it.
///
/// Where a configuration has an expression, a method takes a closure over any types that serde reads and writes, or
/// [`jq`](crate::jq()). A word with settings is a value for [`step`](Self::step).
///
/// It is compiled each time it runs: about a microsecond for a step, two for each `jq` that is not kept and cloned, and
/// 10 to 300 for a [`select`](Self::select) that is not kept and cloned. A program that does the same for every request reads its pipeline once, with
/// [`Client::read`](crate::Client::read), and runs it with [`Prepared::answer`](crate::Prepared::answer).
///
/// ```
/// use crocodile_pear::{Client, Parts, jq, steps::each::{Each, Limit}};
///
/// #[derive(serde::Deserialize)]
/// struct Inbox { cases: Vec<serde_json::Value> }
///
/// let client = Client::new();
/// let short = client
///     .request(["http://127.0.0.1:9000/streamflow/api/cases/inbox"])
///     .each(|inbox: Inbox| inbox.cases)
///     .dedupe(jq(".id")?)
///     .concatenate_json(Parts::BodyOnly);
/// let with_settings = client
///     .request(["http://127.0.0.1:9000/streamflow/api/cases/inbox"])
///     .step(Each { limit: Some(Limit::Most(10)), ..Each::of(jq(".cases[]")?) })
///     .concatenate_ndjson(Parts::BodyOnly);
/// short.check()?;
/// with_settings.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pipeline {
    servers: Arc<Servers>,
    steps: Vec<Written>,
    problems: Problems,
}

impl Pipeline {
    pub(super) fn new(servers: Arc<Servers>) -> Self {
        Pipeline { servers, steps: Vec::new(), problems: Problems::default() }
    }

    pub(super) fn begin(servers: Arc<Servers>, starts: Vec<calls::Start>) -> Self {
        let begin = calls::begin(servers.clone(), starts);
        Pipeline::new(servers).step(begin)
    }

    /// Adds a step with all its settings.
    #[must_use]
    pub fn step(mut self, step: impl Into<Written>) -> Self {
        self.steps.push(step.into());
        self
    }

    /// Notes when each message passes: a line in the log (target `crocodile_pear::timer`), a mark on the timeline.
    #[must_use]
    pub fn timer(self, label: &str) -> Self {
        self.step(Timer::new(label))
    }

    /// Maps every answer: status, headers and body. The body is read whole, within [`MAX_BODY`].
    #[must_use]
    pub fn transform<F>(self, transform: F) -> Self
    where
        F: Fn(Whole) -> Result<Whole, Error> + Send + Sync + 'static,
    {
        self.step(map::whole(Arc::new(transform)))
    }

    /// Makes a new body of each item's: the configuration's `transform`. An answer with another status than 2xx passes
    /// unchanged.
    ///
    /// ```
    /// # let client = crocodile_pear::Client::new();
    /// #[derive(serde::Deserialize)]
    /// struct City { name: String, main: Weather }
    /// #[derive(serde::Deserialize)]
    /// struct Weather { temp: f64 }
    ///
    /// let warm = client.request(["http://127.0.0.1:9000/weather"]).map(|city: City| (city.name, city.main.temp));
    /// # warm.check().unwrap();
    /// ```
    #[must_use]
    pub fn map<K>(self, map: impl IntoExpression<K>) -> Self {
        self.step(Transform::of(map.into_expression()))
    }

    /// Makes one item of each item of a list. A plain path such as `jq(".cases[]")` is read while the list arrives; for a
    /// closure, the body is read whole.
    #[must_use]
    pub fn each<K>(self, items: impl IntoItems<K>) -> Self {
        self.step(Each::of(items.into_items()))
    }

    /// Makes a call for each item; the answer takes the item's place.
    ///
    /// ```
    /// # let client = crocodile_pear::Client::new();
    /// let api = "http://127.0.0.1:9000";
    /// let users = client.request([format!("{api}/ids")]).each(|ids: Vec<u64>| ids);
    /// let users = users.request_each(move |id: u64| format!("{api}/users/{id}"));
    /// # users.check().unwrap();
    /// ```
    #[must_use]
    pub fn request_each<In: DeserializeOwned, R: Into<Request>>(
        self,
        request: impl Fn(In) -> R + Send + Sync + 'static,
    ) -> Self {
        let make = move |item: &[u8]| read(item).map(|item| request(item).into());
        let calls = calls::each(self.servers.clone(), Arc::new(make));
        self.step(calls)
    }

    /// Fetches what a link in each item leads to and puts it into the item under `name`. A link leads only to the origins
    /// that the client knows: those of its requests so far, and its named upstreams.
    #[must_use]
    pub fn follow<K>(self, link: impl IntoExpression<K>, name: &str) -> Self {
        let name = Some(Located::new(name.to_owned(), Span::default()));
        self.step(Follow { name, ..Follow::of(link.into_expression()) })
    }

    /// Keeps one of the items with the same key.
    #[must_use]
    pub fn dedupe<K>(self, key: impl IntoExpression<K>) -> Self {
        self.step(Dedupe::of(key.into_expression()))
    }

    /// Keeps the fields that are wanted, in the shape that is written: `{"id": true, "title": ".name"}`.
    /// A shape that is written here becomes jq each time the pipeline runs: 10 microseconds for one field, some 300 for four.
    /// For many requests, keep a [`select`](crate::select()) and clone it.
    #[must_use]
    pub fn select(mut self, shape: impl IntoSelect) -> Self {
        match shape.into_select(&mut self.problems) {
            Some(select) => self.step(select),
            None => self,
        }
    }

    /// Makes one value of all answers. A closure is given an object of the named results, or the list of the answers where
    /// they have no names; in [`jq`](crate::jq()), they are `$name`, and `.` is the list.
    ///
    /// ```
    /// # let client = crocodile_pear::Client::new();
    /// #[derive(serde::Deserialize)]
    /// struct Parts { user: serde_json::Value, orders: Vec<serde_json::Value> }
    ///
    /// let api = "http://127.0.0.1:9000";
    /// let calls = [("user", format!("{api}/users/7")), ("orders", format!("{api}/orders?user=7"))];
    /// let page = client.requests(calls).merge(|parts: Parts| (parts.user, parts.orders.len()));
    /// # page.check().unwrap();
    /// ```
    #[must_use]
    pub fn merge<K>(self, merge: impl IntoExpression<K>) -> Self {
        self.step(Merge::of(merge.into_expression()))
    }

    /// Runs a statement in a database that the client knows, once or for each item; each value is bound, never put into
    /// the text. Its rows are a list. For one row, or a key for the result, use [`step`](Self::step).
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// let client = Client::new();
    /// client.database("shop", "postgres://shop@127.0.0.1/shop")?;
    /// let orders = client.pipeline().sql("shop", "select id, total from orders where year = $1", [jq("2026")?]);
    /// # orders.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn sql<K, E: IntoExpression<K>>(
        self,
        database: &str,
        query: &str,
        values: impl IntoIterator<Item = E>,
    ) -> Self {
        let values = values.into_iter().map(E::into_expression).collect();
        self.step(Sql { values, ..Sql::of(database, query) })
    }

    /// Makes another format of the answer.
    #[must_use]
    pub fn convert(self, form: Form) -> Self {
        self.step(Convert::to(form))
    }

    /// One answer of all: a JSON list, an item a chunk, in order of arrival.
    #[must_use]
    pub fn concatenate_json(self, parts: Parts) -> Self {
        self.concatenate(As::Json, parts)
    }

    /// One answer of all: a line of JSON for each item, as it arrives.
    #[must_use]
    pub fn concatenate_ndjson(self, parts: Parts) -> Self {
        self.concatenate(As::Ndjson, parts)
    }

    /// One answer of all: a server-sent event for each item, as it arrives.
    #[must_use]
    pub fn concatenate_events(self, parts: Parts) -> Self {
        self.concatenate(As::Sse, parts)
    }

    fn concatenate(self, form: As, parts: Parts) -> Self {
        self.step(Concatenate { form, body_only: parts == Parts::BodyOnly, ..Concatenate::default() })
    }

    /// Whether it can run: its names, shapes and bounds.
    ///
    /// # Errors
    /// Everything that is wrong in it.
    pub fn check(self) -> Result<(), Faults> {
        self.compile().map(drop)
    }

    fn compile(mut self) -> Result<Plan, Faults> {
        let named = self.servers.named();
        let plan = plan(self.steps, &named, &mut self.problems);
        plan.filter(|_| !self.problems.fatal()).ok_or_else(|| Faults::of(self.problems))
    }

    /// The answer, when its head is there; its body is pulled. Several producers follow one another: whichever
    /// answers first goes first, and goes whole before the next. A failure is a problem document (RFC 9457); a pipeline
    /// that cannot run is logged and answered 500.
    pub async fn into_response(self) -> Response<Pulled> {
        let plan = match self.compile() {
            Ok(plan) => plan,
            Err(faults) => {
                tracing::error!(target: "crocodile_pear::client", %faults, "the pipeline cannot run");
                return answer::failure(&Error::new(Kind::Internal, "the pipeline cannot run"));
            }
        };
        let scope = Arc::new(Scope::new(Method::GET, None, HeaderMap::new(), Body::empty()));
        answer::of(plan.answer(&scope, MAX_BODY).await)
    }
}

fn plan(steps: Vec<Written>, named: &Named, problems: &mut Problems) -> Option<Plan> {
    let steps = steps.into_iter().map(|step| Located::new(step, Span::default())).collect();
    Plan::compile(steps, named.known(&[]), Span::default(), problems)
}
