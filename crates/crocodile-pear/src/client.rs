//! The engine for Rust programs: typed calls, and pipelines of steps.
//!
//! - `handle`: the client. `builder`, `upstream`: its settings. `servers`: the origins that it knows.
//! - `call`, `one`, `join`, `items`, `step`: the typed face. `dispatch` makes the calls, `read` makes values of answers.
//! - `pipeline`, `calls`, `prepared`: the steps of a configuration, as methods and from YAML.
//! - `observe`, `transport`: what a program puts around and below its calls. `guard`: its closures, which may panic.
//!
//! Invariants: the flow of the steps carries the typed items too, and each call goes through an upstream. Nothing runs before it is polled.
//! Bounds: 96 origins besides those that are named.

mod answer;
mod body;
mod body_with_call;
mod builder;
mod call;
mod calls;
mod dispatch;
mod expression;
mod faults;
mod foreign;
mod guard;
mod handle;
mod items;
mod join;
mod map;
mod observe;
mod one;
mod pipeline;
mod prepared;
mod read;
mod request;
mod result;
mod servers;
mod shape;
mod step;
pub mod steps;
mod transport;
mod upstream;
mod whole;

use futures_util::stream::{Stream, StreamExt};
use http::{Method, Uri};

pub use body::{Body, MAX_BODY, Pulled};
pub use builder::ClientBuilder;
pub use call::Call;
pub use expression::{Code, Expression, IntoExpression, IntoItems, Jq, jq};
pub use faults::{Faults, Problem};
pub use handle::Client;
pub use items::{ItemStream, Items};
pub use join::Join;
pub use observe::Observe;
pub use one::One;
pub use pipeline::{Parts, Pipeline};
pub use prepared::Prepared;
pub use request::Request;
pub use shape::{IntoSelect, select};
pub use step::{Cx, Source, Step};
pub use upstream::Upstream;
pub use whole::Whole;

use crate::config::carried_state::Carry;
use crate::config::problem::Problems;
use crate::config::spec::{Decode, Node};
use crate::database::DatabaseSpec;
use crate::error::{BoxError, Error, Kind};

impl Client {
    /// A client without settings, and without connections so far.
    ///
    /// ```
    /// let client = crocodile_pear::Client::new();
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A client with settings: upstreams, a transport, what happens before each call.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A GET of this URL.
    ///
    /// ```
    /// # use crocodile_pear::{Client, Error};
    /// async fn names(client: &Client) -> Result<Vec<String>, Error> {
    ///     client.get("http://127.0.0.1:9000/names").as_json().await
    /// }
    /// ```
    pub fn get(&self, url: impl TryInto<Uri, Error: Into<BoxError>>) -> Call {
        self.call(Method::GET, url)
    }

    /// A call with this method.
    ///
    /// ```
    /// # use crocodile_pear::{Client, Error};
    /// # use http::Method;
    /// async fn delete(client: &Client, id: u64) -> Result<(), Error> {
    ///     client.call(Method::DELETE, format!("http://127.0.0.1:9000/orders/{id}")).bytes().await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn call(&self, method: Method, url: impl TryInto<Uri, Error: Into<BoxError>>) -> Call {
        let read = url.try_into().map_err(|error| {
            let error = error.into();
            Error::new(Kind::InvalidCall, format!("the URL of the call is not valid: {error}")).with_source(error)
        });
        Call::new(self.clone(), method, read.and_then(|url: Uri| servers::checked(url)))
    }

    /// A call that another crate has put together. Its extensions are seen by `before`, as those of [`with`](Self::with).
    ///
    /// ```
    /// # use crocodile_pear::{Client, Error};
    /// async fn send(client: &Client, request: http::Request<String>) -> Result<String, Error> {
    ///     client.send(request).text().await
    /// }
    /// ```
    pub fn send<B: Into<Body>>(&self, request: http::Request<B>) -> Call {
        Call::of_request(self.clone(), request.map(Into::into))
    }

    /// All of these at once, each with its own type, timeout and fallback. The first failure is the failure of all, and cancels
    /// the others.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use crocodile_pear::{Client, Error};
    /// # #[derive(serde::Deserialize)] struct User { name: String }
    /// async fn page(client: &Client) -> Result<(String, usize), Error> {
    ///     let user = client.get("http://127.0.0.1:9000/users/7").as_json::<User>();
    ///     let news = client.get("http://127.0.0.1:9000/news").timeout(Duration::from_millis(300));
    ///     let news = news.as_json::<Vec<String>>().otherwise(vec![]);
    ///     client.join((user, news)).map(|(user, news)| (user.name, news.len())).await
    /// }
    /// ```
    pub fn join<J: Join>(&self, calls: J) -> One<J::Out> {
        calls.join().with_client(self.clone())
    }

    /// A pipeline over values that the program has.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), crocodile_pear::Error> {
    /// let squares: Vec<u32> = crocodile_pear::Client::new().items(1..=3).map(|n| n * n).try_collect().await?;
    /// assert_eq!(squares, [1, 4, 9]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn items<I>(&self, items: I) -> Items<I::Item>
    where
        I: IntoIterator<IntoIter: Send + 'static, Item: Send + 'static>,
    {
        Items::of(Some(self.clone()), futures_util::stream::iter(items.into_iter().map(Ok)))
    }

    /// A pipeline over a stream of the program: a queue, rows of a database. It is polled only when there is room for another item.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), crocodile_pear::Error> {
    /// use futures_util::stream;
    ///
    /// let rows = stream::iter([Ok(1), Err(std::io::Error::other("the connection was lost"))]);
    /// let read: Vec<Result<u8, _>> = crocodile_pear::Client::new().stream(rows).collect().await;
    /// assert!(read[0].is_ok() && read[1].is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream<T, E, S>(&self, items: S) -> Items<T>
    where
        T: Send + 'static,
        E: Into<BoxError>,
        S: Stream<Item = Result<T, E>> + Send + 'static,
    {
        Items::of(Some(self.clone()), items.map(|item| item.map_err(Error::of_program)))
    }

    /// A pipeline over a [source](Source) of one's own.
    pub fn source<S: Source>(&self, source: S) -> Items<S::Item> {
        Items::of_source(self.clone(), source)
    }

    /// Adds an upstream by name: pipelines that are read from YAML may call it, and links may lead there.
    ///
    /// ```
    /// let client = crocodile_pear::Client::new();
    /// client.upstream("shop", "http://127.0.0.1:9000/shop")?;
    /// let orders = client.read("[{ request: shop /orders }]")?;
    /// assert!(client.upstream("shop", "not a URL").is_err());
    /// # Ok::<(), crocodile_pear::Faults>(())
    /// ```
    ///
    /// # Errors
    /// If `url` is not a URL, or if there is an upstream of this name.
    pub fn upstream(&self, name: &str, url: &str) -> Result<(), Faults> {
        let mut problems = Problems::default();
        builder::add(&self.servers, name, &Upstream::at(url), &mut problems);
        if problems.fatal() { Err(Faults::from_problems(problems)) } else { Ok(()) }
    }

    /// Adds a PostgreSQL database by name, for [`Pipeline::sql`]. Its connections are opened as they are needed.
    ///
    /// ```
    /// let client = crocodile_pear::Client::new();
    /// client.database("shop", "postgres://shop@127.0.0.1/shop")?;
    /// assert!(client.database("shop", "mysql://127.0.0.1/shop").is_err());
    /// # Ok::<(), crocodile_pear::Faults>(())
    /// ```
    ///
    /// # Errors
    /// If `url` is not the URL of a PostgreSQL database, or if there is a database of this name.
    pub fn database(&self, name: &str, url: &str) -> Result<(), Faults> {
        let mut problems = Problems::default();
        let spec = DatabaseSpec::decode(&Node::from_json(&url.into()), &mut problems);
        match spec.and_then(|spec| spec.compile(name, &prepared::file, &Carry::default(), &mut problems)) {
            Some(database) => self.servers.add_database(name, database).map_err(Faults::one),
            None => Err(Faults::from_problems(problems)),
        }
    }

    /// Begins a pipeline with calls. All start at the same time, when the pipeline runs.
    ///
    /// ```
    /// use crocodile_pear::{Client, Request};
    /// use http::Method;
    ///
    /// let client = Client::new();
    /// let api = "http://127.0.0.1:9000";
    /// let pages = client.request((1..=3).map(|page| format!("{api}/orders?page={page}")));
    /// let order = Request::from(format!("{api}/orders/7"));
    /// let deleted = client.request([Request { method: Method::DELETE, ..order }]);
    /// # pages.check()?;
    /// # deleted.check()?;
    /// # Ok::<(), crocodile_pear::Faults>(())
    /// ```
    pub fn request<R: Into<Request>>(&self, requests: impl IntoIterator<Item = R>) -> Pipeline {
        let starts = requests.into_iter().map(|request| (None, request.into()));
        Pipeline::begin(self.clone(), starts.collect())
    }

    /// Begins a pipeline with calls whose answers have names, for [`Pipeline::merge`].
    ///
    /// ```
    /// use crocodile_pear::{Client, jq};
    ///
    /// let api = "http://127.0.0.1:9000";
    /// let page = Client::new()
    ///     .requests([("user", format!("{api}/user")), ("news", format!("{api}/news"))])
    ///     .merge(jq("{name: $user.name, news: $news[:3]}")?);
    /// # page.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn requests<'a, R: Into<Request>>(&self, requests: impl IntoIterator<Item = (&'a str, R)>) -> Pipeline {
        let starts = requests.into_iter().map(|(name, request)| (Some(name.into()), request.into()));
        Pipeline::begin(self.clone(), starts.collect())
    }

    /// Begins a pipeline without calls, for one whose first step is [`Pipeline::sql`].
    ///
    /// ```
    /// use crocodile_pear::{Client, jq};
    ///
    /// let client = Client::new();
    /// client.database("shop", "postgres://shop@127.0.0.1/shop")?;
    /// let latest = "select id, total from orders limit $1";
    /// let orders = client.pipeline().sql("shop", latest, [jq("10")?]);
    /// # orders.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pipeline(&self) -> Pipeline {
        Pipeline::new(self.clone())
    }

    /// Reads a pipeline as a configuration has it, from YAML. It is compiled once, and runs for any number of requests with
    /// [`Prepared::answer`]. The text is a list of steps, or a map with `pipeline` and what it needs: `upstreams`,
    /// `databases`, and `params`, the names of the path's parameters.
    ///
    /// ```
    /// let client = crocodile_pear::Client::new();
    /// let prepared = client.read("
    ///   upstreams: { streamflow: 'http://127.0.0.1:9000/streamflow/api' }
    ///   params: [user]
    ///   pipeline:
    ///     - request: streamflow /cases/{user}
    ///     - each: .cases[]
    ///     - concatenate: { as: ndjson, body_only: true }
    /// ")?;
    /// let wrong = client.read("[{ request: nowhere / }]").err().unwrap();
    /// assert_eq!(
    ///     wrong.to_string(),
    ///     "line 1, column 13: no upstream is named `nowhere`; add it under `upstreams`"
    /// );
    /// # drop(prepared);
    /// # Ok::<(), crocodile_pear::Faults>(())
    /// ```
    ///
    /// Variables (`${NAME}`) have no values here; [`read_with`](Self::read_with) gives them some.
    ///
    /// # Errors
    /// Everything that is wrong in it, each with its place.
    pub fn read(&self, yaml: &str) -> Result<Prepared, Faults> {
        Prepared::read(yaml, &|_| None, self)
    }

    /// The same with values for the variables (`${NAME}`) in the text: `|name| std::env::var(name).ok()` takes those of the
    /// environment.
    ///
    /// ```
    /// let client = crocodile_pear::Client::new();
    /// client.upstream("shop", "http://127.0.0.1:9000")?;
    /// let variable = |name: &str| (name == "PAGE").then(|| "orders".to_owned());
    /// let orders = client.read_with("[{ request: 'shop /${PAGE}' }]", variable)?;
    /// assert!(client.read("[{ request: 'shop /${PAGE}' }]").is_err());
    /// # drop(orders);
    /// # Ok::<(), crocodile_pear::Faults>(())
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong in it, each with its place.
    pub fn read_with(&self, yaml: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Prepared, Faults> {
        Prepared::read(yaml, &variable, self)
    }
}
