//! A pipeline that a Rust program puts together step by step.

use std::error::Error as _;
use std::sync::Arc;

use http::header::HeaderMap;
use http::{Method, Response, Uri};
use serde::de::DeserializeOwned;

use super::body::Pulled;
use super::calls;
use super::expression::{IntoExpression, IntoItems, read};
use super::faults::Faults;
use super::handle::Client;
use super::request::Request;
use super::servers::{self, NamedServers};
use super::shape::IntoSelect;
use super::steps::AnyStep;
use super::whole::Whole;
use super::{answer, map};
use crate::config::problem::{Problems, Span};
use crate::config::spec::Located;
use crate::error::Error;
use crate::message::body::AnswerBody;
use crate::pipeline::plan::Plan;
use crate::pipeline::steps::Written;
use crate::pipeline::steps::concatenate::{As, Concatenate};
use crate::pipeline::steps::convert::{Convert, Form};
use crate::pipeline::steps::dedupe::Dedupe;
use crate::pipeline::steps::each::Each;
use crate::pipeline::steps::follow::Follow;
use crate::pipeline::steps::merge::Merge;
use crate::pipeline::steps::plain::{Plain, PlainFormat};
use crate::pipeline::steps::sql::Sql;
use crate::pipeline::steps::timer::Timer;
use crate::pipeline::steps::transform::Transform;
use crate::request::context::Scope;

/// The content of an item of a concatenated answer.
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
/// use crocodile_pear::{Client, Parts, jq, steps::Each};
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
///     .step(Each::of(jq(".cases[]")?).limit(10))
///     .concatenate_ndjson(Parts::BodyOnly);
/// short.check()?;
/// with_settings.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is called before the response is awaited"]
pub struct Pipeline {
    client: Client,
    /// The URLs of its own first calls: links may lead there.
    origins: Vec<Uri>,
    /// The errors in the others of them.
    wrong: Vec<Error>,
    steps: Vec<Written>,
    problems: Problems,
}

impl Pipeline {
    pub(super) fn new(client: Client) -> Self {
        Pipeline { client, origins: Vec::new(), wrong: Vec::new(), steps: Vec::new(), problems: Problems::default() }
    }

    pub(super) fn begin(client: Client, starts: Vec<calls::Start>) -> Self {
        let (mut origins, mut wrong): (Vec<Uri>, Vec<Error>) = Default::default();
        for (_, request) in &starts {
            let url = match servers::url(&request.uri) {
                Ok(url) => url,
                Err(error) => {
                    wrong.push(error);
                    continue;
                }
            };
            if !origins.iter().any(|known| (known.scheme(), known.authority()) == (url.scheme(), url.authority())) {
                origins.push(url);
            }
        }
        let begin = calls::begin(client.clone(), starts);
        Pipeline { origins, wrong, ..Pipeline::new(client) }.push(begin)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Adds a step with all its settings: a value from [`steps`](crate::steps).
    ///
    /// ```
    /// use crocodile_pear::steps::{Concatenate, Follow, ItemOrder};
    /// use crocodile_pear::{Client, jq};
    ///
    /// let orders = Client::new()
    ///     .request(["http://127.0.0.1:9000/orders"])
    ///     .each(jq(".orders[]")?)
    ///     .step(Follow::of(jq(".user")?).limit(50))
    ///     .step(Concatenate::json().order(ItemOrder::Request));
    /// # orders.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn step(self, step: impl Into<AnyStep>) -> Self {
        self.push(step.into().0)
    }

    /// Adds a step of the engine.
    pub(super) fn push(mut self, step: impl Into<Written>) -> Self {
        self.steps.push(step.into());
        self
    }

    /// Logs one line for each item that passes, when its body has ended, by [`tracing`](https://docs.rs/tracing) with the target `crocodile_pear::timer`.
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
    pub fn timer(self, label: &str) -> Self {
        self.push(Timer::new(label))
    }

    /// Changes every answer: status, header fields and body. The body is read whole, within [`MAX_BODY`](crate::MAX_BODY). A closure that
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
    pub fn transform<F>(self, transform: F) -> Self
    where
        F: Fn(Whole) -> Result<Whole, Error> + Send + Sync + 'static,
    {
        self.push(map::whole(Arc::new(transform)))
    }

    /// Makes a new body of each item's body: the configuration's `transform`. The body is read whole, within [`MAX_BODY`](crate::MAX_BODY). An
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
    pub fn map<K>(self, map: impl IntoExpression<K>) -> Self {
        self.push(Transform::of(map.into_expression().0))
    }

    /// Makes one item of each item of a list, 1000 at most. With a plain path such as `jq(".orders[]")`, items are handed on
    /// while the list arrives; for a closure, the body is read whole, within [`MAX_BODY`](crate::MAX_BODY).
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// use crocodile_pear::steps::Each;
    ///
    /// let list = || Client::new().request(["http://127.0.0.1:9000/orders"]);
    /// let orders = list().each(jq(".orders[]")?);
    /// let all = list().step(Each::of(jq(".orders[]")?).unlimited());
    /// # orders.check()?;
    /// # all.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn each<K>(self, items: impl IntoItems<K>) -> Self {
        self.push(Each::of(items.into_items().0))
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
    pub fn request_each<In: DeserializeOwned, R: Into<Request>>(
        self,
        request: impl Fn(In) -> R + Send + Sync + 'static,
    ) -> Self {
        let make = move |item: &[u8]| read(item).map(|item| request(item).into());
        let calls = calls::each(self.client.clone(), Arc::new(make));
        self.push(calls)
    }

    /// Fetches what a link in each item leads to, and puts it into the item under `name`. Links are followed only to servers
    /// that the pipeline knows: those of its own first requests, and the named upstreams of the client. Any other makes a failed
    /// item.
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
    pub fn follow<K>(self, link: impl IntoExpression<K>, name: &str) -> Self {
        let name = Some(name.to_owned().into());
        self.push(Follow { name, ..Follow::of(link.into_expression().0) })
    }

    /// Makes plain JSON of documents of HAL, JSON:API, Siren and others: the fields of each resource, and its related parts
    /// under their names. For levels, links and bounds, use [`step`](Self::step).
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// use crocodile_pear::steps::PlainFormat;
    ///
    /// let articles = Client::new()
    ///     .request(["http://127.0.0.1:9000/articles?include=author"])
    ///     .plain(PlainFormat::JsonApi)
    ///     .each(jq(".[]")?);
    /// # articles.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn plain(self, format: PlainFormat) -> Self {
        self.push(Plain::of(format))
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
    pub fn dedupe<K>(self, key: impl IntoExpression<K>) -> Self {
        self.push(Dedupe::of(key.into_expression().0))
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
    pub fn select(mut self, shape: impl IntoSelect) -> Self {
        match shape.into_select() {
            Ok(select) => self.push(select),
            Err(faults) => {
                faults.note(&mut self.problems);
                self
            }
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
    pub fn merge<K>(self, merge: impl IntoExpression<K>) -> Self {
        self.push(Merge::of(merge.into_expression().0))
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
    pub fn sql<K, E: IntoExpression<K>>(
        self,
        database: &str,
        query: &str,
        values: impl IntoIterator<Item = E>,
    ) -> Self {
        let values = values.into_iter().map(|value| value.into_expression().0).collect();
        self.push(Sql { values, ..Sql::of(database, query) })
    }

    /// Makes another format of the answer.
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// use crocodile_pear::steps::Form;
    ///
    /// let table = Client::new()
    ///     .request(["http://127.0.0.1:9000/orders"])
    ///     .map(jq(".orders")?)
    ///     .convert(Form::Csv);
    /// # table.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn convert(self, form: Form) -> Self {
        self.push(Convert::to(form))
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
    pub fn concatenate_events(self, parts: Parts) -> Self {
        self.concatenate(As::Sse, parts)
    }

    fn concatenate(self, form: As, parts: Parts) -> Self {
        self.push(Concatenate { form, body_only: parts == Parts::BodyOnly, ..Concatenate::default() })
    }

    /// Checks whether the pipeline can run, without a call: URLs, names, expressions, the order of its steps. For a test of the
    /// program.
    ///
    /// ```
    /// # use crocodile_pear::{Client, jq};
    /// let user = || Client::new().request(["http://127.0.0.1:9000/users/7"]);
    /// assert!(user().map(jq("{id, name}")?).check().is_ok());
    /// assert!(user().map(jq("$nobody")?).check().is_err());
    /// # Ok::<(), crocodile_pear::Error>(())
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong in it.
    pub fn check(mut self) -> Result<(), Faults> {
        for error in &self.wrong {
            self.problems.error::<()>(Span::default(), error.detail().to_owned(), "");
        }
        self.compile().map(drop)
    }

    pub(super) fn compile(mut self) -> Result<Plan, Faults> {
        let mut named = self.client.servers.named();
        // Only a step that follows links asks for them.
        if self.steps.iter().any(|step| step.about().follows) {
            let named = Arc::make_mut(&mut named);
            for url in &self.origins {
                if let Ok(aim) = self.client.servers.aim(url) {
                    let known = named.upstreams.values().any(|upstream| Arc::ptr_eq(upstream, &aim.upstream));
                    if !known {
                        let root = format!(
                            "{}://{}/",
                            url.scheme_str().unwrap_or("http"),
                            url.authority().map_or("", |a| a.as_str())
                        );
                        named.upstreams.insert(root, aim.upstream);
                    }
                }
            }
        }
        let plan = plan(self.steps, &named, &mut self.problems);
        plan.filter(|_| !self.problems.fatal()).ok_or_else(|| Faults::from_problems(self.problems))
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
        self.try_into_response().await.unwrap_or_else(|error| {
            if let Some(faults) = error.source().and_then(|source| source.downcast_ref::<Faults>()) {
                tracing::error!(target: "crocodile_pear::client", %faults, "the pipeline cannot run");
                // Clients do not see how the program is written.
                let told = Error::new(error.kind(), "the pipeline cannot run").caused_by(faults.clone());
                return answer::failure(&told);
            }
            answer::failure(&error)
        })
    }

    /// The same, but a failure of the whole answer before its head is an [`Error`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use crocodile_pear::{Client, Kind};
    ///
    /// let error = Client::new().request(["http://127.0.0.1:1/"]).try_into_response().await.unwrap_err();
    /// assert_eq!(error.kind(), Kind::Unreachable);
    /// # }
    /// ```
    ///
    /// # Errors
    /// Why there is no answer; [`Kind::InvalidCall`](crate::Kind::InvalidCall) if the pipeline cannot run.
    pub async fn try_into_response(self) -> Result<Response<Pulled>, Error> {
        let plan = self.compile()?;
        let mut scope = Scope::new(Method::GET, None, HeaderMap::new(), AnswerBody::empty());
        scope.time_briefly();
        answer::response(plan.answer(&Arc::new(scope)).await)
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").field("steps", &self.steps.len()).finish_non_exhaustive()
    }
}

fn plan(steps: Vec<Written>, named: &NamedServers, problems: &mut Problems) -> Option<Plan> {
    let steps = steps.into_iter().map(|step| Located::new(step, Span::default())).collect();
    Plan::compile(steps, named.known(&[]), Span::default(), problems)
}
