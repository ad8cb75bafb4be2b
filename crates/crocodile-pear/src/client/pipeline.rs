//! A pipeline that a Rust program puts together step by step.

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
use crate::config::problem::{Problems, Span};
use crate::config::spec::Located;
use crate::error::{Error, Kind};
use crate::message::body::{Body, Pulled};
use crate::pipeline::plan::Plan;
use crate::pipeline::step;
use crate::pipeline::steps::Written;
use crate::pipeline::steps::concatenate::{As, Concatenate};
use crate::pipeline::steps::convert::{Convert, Form};
use crate::pipeline::steps::dedupe::Dedupe;
use crate::pipeline::steps::each::Each;
use crate::pipeline::steps::follow::Follow;
use crate::pipeline::steps::merge::Merge;
use crate::pipeline::steps::sql::Sql;
use crate::pipeline::steps::timer::Timer;
use crate::pipeline::steps::transform::Transform;
use crate::request::context::Scope;

/// The most bytes of a body that a step reads whole: 16 MiB.
///
/// ```
/// assert_eq!(crocodile_pear::MAX_BODY, 16 << 20);
/// ```
pub const MAX_BODY: usize = step::MAX_BODY.0 as usize;

/// What an item of a concatenated answer holds.
///
/// ```
/// use crocodile_pear::{Client, Parts};
///
/// let users = || Client::new().request(["http://127.0.0.1:9000/users/7"]);
/// // [{"name":"Anna"}]
/// let bodies = users().concatenate_json(Parts::BodyOnly);
/// // [{"status":200,"headers":{…},"body":{"name":"Anna"}}]
/// let answers = users().concatenate_json(Parts::All);
/// # bodies.check()?;
/// # answers.check()?;
/// # Ok::<(), crocodile_pear::Faults>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// `{"status", "headers", "body"}`
    All,
    /// The body alone.
    BodyOnly,
}

/// Calls, and what to do with their answers. Each method adds a step of a configuration's pipeline.
///
/// No call is made before [`into_response`](Self::into_response). Dropping the response cancels all calls behind it.
///
/// Where a configuration has an expression, a method takes a closure over any types that serde reads and writes, or
/// [`jq`](crate::jq()). A step with settings is a value for [`step`](Self::step).
///
/// A pipeline is compiled each time it runs. That takes about 1 µs for a step, 2 µs for a `jq` and 10 to 300 µs for a
/// [`select`](Self::select), unless they are kept and cloned. A program that does the same for every request can read its
/// pipeline once, with [`Client::read`](crate::Client::read), and run it with
/// [`Prepared::answer`](crate::Prepared::answer).
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

    /// Adds a step with all its settings: a value from [`steps`](crate::pipeline::steps).
    ///
    /// ```
    /// use crocodile_pear::pipeline::steps::concatenate::{Concatenate, ItemOrder};
    /// use crocodile_pear::pipeline::steps::follow::Follow;
    /// use crocodile_pear::{Client, jq};
    ///
    /// let orders = Client::new()
    ///     .request(["http://127.0.0.1:9000/orders"])
    ///     .each(jq(".orders[]")?)
    ///     .step(Follow { limit: 50.into(), ..Follow::of(jq(".user")?) })
    ///     .step(Concatenate { order: ItemOrder::Request, ..Concatenate::default() });
    /// # orders.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn step(mut self, step: impl Into<Written>) -> Self {
        self.steps.push(step.into());
        self
    }

    /// Logs when each message passes, by [`tracing`](https://docs.rs/tracing) with the target `crocodile_pear::timer`.
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// let users = Client::new()
    ///     .request(["http://127.0.0.1:9000/users"])
    ///     .timer("answered")
    ///     .each(jq(".users[]")?)
    ///     .timer("user");
    /// # users.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn timer(self, label: &str) -> Self {
        self.step(Timer::new(label))
    }

    /// Changes every answer: status, header fields and body. The body is read whole, within [`MAX_BODY`]. A closure that
    /// returns an [`Error`] makes a failed item.
    ///
    /// ```
    /// use crocodile_pear::{Client, Whole};
    ///
    /// let user = Client::new().request(["http://127.0.0.1:9000/users/7"]);
    /// let user = user.transform(|mut answer: Whole| {
    ///     answer.headers.remove("set-cookie");
    ///     Ok(answer)
    /// });
    /// # user.check()?;
    /// # Ok::<(), crocodile_pear::Faults>(())
    /// ```
    #[must_use]
    pub fn transform<F>(self, transform: F) -> Self
    where
        F: Fn(Whole) -> Result<Whole, Error> + Send + Sync + 'static,
    {
        self.step(map::whole(Arc::new(transform)))
    }

    /// Makes a new body of each item's body: the configuration's `transform`. The body is read whole, within [`MAX_BODY`]. An
    /// answer with a status other than 2xx passes unchanged.
    ///
    /// ```
    /// # let client = crocodile_pear::Client::new();
    /// #[derive(serde::Deserialize)]
    /// struct City { name: String, main: Weather }
    /// #[derive(serde::Deserialize)]
    /// struct Weather { temp: f64 }
    ///
    /// let cities = client.request(["http://127.0.0.1:9000/weather"]);
    /// let temperatures = cities.map(|city: City| (city.name, city.main.temp));
    /// # temperatures.check().unwrap();
    /// ```
    #[must_use]
    pub fn map<K>(self, map: impl IntoExpression<K>) -> Self {
        self.step(Transform::of(map.into_expression()))
    }

    /// Makes one item of each item of a list, 1000 at most. With a plain path such as `jq(".orders[]")`, items are handed on
    /// while the list arrives; for a closure, the body is read whole, within [`MAX_BODY`].
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// use crocodile_pear::pipeline::steps::each::{Each, Limit};
    ///
    /// let list = || Client::new().request(["http://127.0.0.1:9000/orders"]);
    /// let orders = list().each(jq(".orders[]")?);
    /// let every = Each { limit: Some(Limit::None), ..Each::of(jq(".orders[]")?) };
    /// let all = list().step(every);
    /// # orders.check()?;
    /// # all.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn each<K>(self, items: impl IntoItems<K>) -> Self {
        self.step(Each::of(items.into_items()))
    }

    /// Makes a call for each item. The answer takes the item's place.
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

    /// Fetches what a link in each item leads to, and puts it into the item under `name`. Links are followed only to servers
    /// that the client knows: those of its requests so far, and its named upstreams. Any other makes a failed item.
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// #[derive(serde::Deserialize)]
    /// struct Order { user: Option<String> }
    ///
    /// let orders = Client::new()
    ///     .request(["http://127.0.0.1:9000/orders"])
    ///     .each(jq(".orders[]")?)
    ///     .follow(|order: Order| order.user, "user");
    /// # orders.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn follow<K>(self, link: impl IntoExpression<K>, name: &str) -> Self {
        let name = Some(Located::new(name.to_owned(), Span::default()));
        self.step(Follow { name, ..Follow::of(link.into_expression()) })
    }

    /// Keeps one of the items with the same key: the first to arrive.
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// let users = Client::new()
    ///     .request([1, 2].map(|page| format!("http://127.0.0.1:9000/orders?page={page}")))
    ///     .each(jq(".orders[].user")?)
    ///     .dedupe(jq(".id")?);
    /// # users.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn dedupe<K>(self, key: impl IntoExpression<K>) -> Self {
        self.step(Dedupe::of(key.into_expression()))
    }

    /// Keeps the fields of this shape: `true` keeps a field, a text is a jq expression for it.
    ///
    /// The shape is compiled each time the pipeline runs: 10 µs for one field, about 300 µs for four. For many requests, keep
    /// a [`select`](crate::select()) and clone it.
    ///
    /// ```
    /// # use crocodile_pear::Client;
    /// use serde_json::json;
    ///
    /// let user = Client::new()
    ///     .request(["http://127.0.0.1:9000/users/7"])
    ///     .select(json!({"id": true, "title": ".name", "address": {"city": true}}));
    /// # user.check()?;
    /// # Ok::<(), crocodile_pear::Faults>(())
    /// ```
    #[must_use]
    pub fn select(mut self, shape: impl IntoSelect) -> Self {
        match shape.into_select(&mut self.problems) {
            Some(select) => self.step(select),
            None => self,
        }
    }

    /// Makes one value of all answers. A closure takes an object with the named answers, or a list if they have no names. In
    /// [`jq`](crate::jq()), a named answer is `$name`, and `.` is the list.
    ///
    /// ```
    /// # let client = crocodile_pear::Client::new();
    /// #[derive(serde::Deserialize)]
    /// struct Parts { user: serde_json::Value, orders: Vec<serde_json::Value> }
    ///
    /// let api = "http://127.0.0.1:9000";
    /// let calls = [("user", format!("{api}/users/7")), ("orders", format!("{api}/orders"))];
    /// let page = client.requests(calls);
    /// let page = page.merge(|parts: Parts| (parts.user, parts.orders.len()));
    /// # page.check().unwrap();
    /// ```
    #[must_use]
    pub fn merge<K>(self, merge: impl IntoExpression<K>) -> Self {
        self.step(Merge::of(merge.into_expression()))
    }

    /// Runs a statement in a [database](crate::Client::database), once or for each item. The values are bound, never put into
    /// the text. The rows are a list. For one row, or a key for the result, use [`step`](Self::step).
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// let client = Client::new();
    /// client.database("shop", "postgres://shop@127.0.0.1/shop")?;
    /// let query = "select id, total from orders where year = $1";
    /// let orders = client.pipeline().sql("shop", query, [jq("2026")?]);
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
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// use crocodile_pear::pipeline::steps::convert::Form;
    ///
    /// let table = Client::new()
    ///     .request(["http://127.0.0.1:9000/orders"])
    ///     .map(jq(".orders")?)
    ///     .convert(Form::Csv);
    /// # table.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn convert(self, form: Form) -> Self {
        self.step(Convert::to(form))
    }

    /// Makes one JSON list of all items, in the order in which they arrive. Each leaves as soon as it is there.
    ///
    /// ```
    /// # use crocodile_pear::{Client, Parts};
    /// let uris = ["http://127.0.0.1:9000/users/7", "http://127.0.0.1:9000/users/8"];
    /// // [{"id":8},{"id":7}]
    /// let users = Client::new().request(uris).concatenate_json(Parts::BodyOnly);
    /// # users.check()?;
    /// # Ok::<(), crocodile_pear::Faults>(())
    /// ```
    #[must_use]
    pub fn concatenate_json(self, parts: Parts) -> Self {
        self.concatenate(As::Json, parts)
    }

    /// Makes NDJSON of all items: a line of JSON each, as it arrives.
    ///
    /// ```
    /// # use crocodile_pear::{Client, Parts, jq};
    /// let orders = Client::new()
    ///     .request(["http://127.0.0.1:9000/orders"])
    ///     .each(jq(".orders[]")?)
    ///     .concatenate_ndjson(Parts::BodyOnly);
    /// # orders.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn concatenate_ndjson(self, parts: Parts) -> Self {
        self.concatenate(As::Ndjson, parts)
    }

    /// Makes a server-sent event of each item, as it arrives.
    ///
    /// ```
    /// # use crocodile_pear::{Client, Parts, jq};
    /// let orders = Client::new()
    ///     .request(["http://127.0.0.1:9000/orders"])
    ///     .each(jq(".orders[]")?)
    ///     .concatenate_events(Parts::BodyOnly);
    /// # orders.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn concatenate_events(self, parts: Parts) -> Self {
        self.concatenate(As::Sse, parts)
    }

    fn concatenate(self, form: As, parts: Parts) -> Self {
        self.step(Concatenate { form, body_only: parts == Parts::BodyOnly, ..Concatenate::default() })
    }

    /// Checks whether the pipeline can run, without a call: names, expressions, the order of its steps. For a test of the
    /// program.
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// let user = || Client::new().request(["http://127.0.0.1:9000/users/7"]);
    /// assert!(user().map(jq("{id, name}")?).check().is_ok());
    /// assert!(user().map(jq("$nobody")?).check().is_err());
    /// # Ok::<(), crocodile_pear::error::Error>(())
    /// ```
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

    /// Runs the pipeline. The response is there as soon as its head is known; the body is fetched while it is read.
    ///
    /// Without a step that makes one answer of many, the bodies follow one another: the first that arrives goes first, and
    /// goes whole before the next. A failure becomes a problem document (RFC 9457). A pipeline that cannot run is logged,
    /// and answered with 500.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use crocodile_pear::Client;
    /// use http_body_util::BodyExt;
    ///
    /// let nobody = "http://127.0.0.1:1/";
    /// let response = Client::new().request([nobody]).into_response().await;
    /// assert_eq!(response.status(), 502);
    /// let problem = response.into_body().collect().await?.to_bytes();
    /// assert!(problem.starts_with(b"{"), "a problem document");
    /// # Ok(())
    /// # }
    /// ```
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
