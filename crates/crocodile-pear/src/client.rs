//! The pipeline for Rust programs: `client.request(uris).timer(…).transform(…).concatenate_json(…).into_response()`.

mod answer;
mod calls;
mod expression;
mod faults;
mod map;
mod pipeline;
mod prepared;
mod request;
mod servers;
mod shape;
mod whole;

use std::sync::Arc;

use http::Uri;

pub use expression::{Code, IntoExpression, IntoItems, Jq, jq};
pub use faults::Faults;
pub use pipeline::{MAX_BODY, Parts, Pipeline};
pub use prepared::Prepared;
pub use request::Request;
pub use shape::{IntoSelect, select};
pub use whole::Whole;

use crate::config::carried_state::Carry;
use crate::config::problem::{Problems, Span};
use crate::config::spec::{Decode, Node};
use crate::database::DatabaseSpec;
use crate::upstream::{Settings, Upstream};
use servers::Servers;

/// Calls HTTP servers, and begins [pipelines](Pipeline).
///
/// Keep one for as long as the program runs, and clone it where it is needed: a clone is cheap, and all of them share
/// their connections.
///
/// ```
/// use crocodile_pear::{Client, Pipeline};
///
/// fn users(client: &Client) -> Pipeline {
///     client.request(["http://127.0.0.1:9000/users"])
/// }
///
/// let client = Client::new();
/// let for_a_task = client.clone();
/// users(&client).check()?;
/// users(&for_a_task).check()?;
/// # Ok::<(), crocodile_pear::Faults>(())
/// ```
#[derive(Clone, Default)]
pub struct Client {
    servers: Arc<Servers>,
}

impl Client {
    /// A client without connections.
    ///
    /// ```
    /// let client = crocodile_pear::Client::new();
    /// ```
    pub fn new() -> Self {
        Self::default()
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
    /// If `url` is not a URL.
    pub fn upstream(&self, name: &str, url: &str) -> Result<(), Faults> {
        let unfit = |message: String| {
            let mut problems = Problems::default();
            problems.error::<()>(Span::default(), message, "");
            Faults::of(problems)
        };
        let url: Uri = url.parse().map_err(|_| unfit(format!("the upstream `{name}` has no URL")))?;
        let upstream = Upstream::new(Settings::new(name, url)).map_err(|error| unfit(error.detail().to_owned()))?;
        self.servers.add_upstream(name, upstream);
        Ok(())
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
    /// If `url` is not the URL of a PostgreSQL database.
    pub fn database(&self, name: &str, url: &str) -> Result<(), Faults> {
        let mut problems = Problems::default();
        let spec = DatabaseSpec::decode(&Node::from_json(&url.into()), &mut problems);
        match spec.and_then(|spec| spec.compile(name, &prepared::file, &Carry::default(), &mut problems)) {
            Some(database) => self.servers.add_database(name, database),
            None => return Err(Faults::of(problems)),
        }
        Ok(())
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
        Pipeline::begin(self.servers.clone(), starts.collect())
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
        Pipeline::begin(self.servers.clone(), starts.collect())
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
        Pipeline::new(self.servers.clone())
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
    /// # Errors
    /// Everything that is wrong in it, each with its place.
    pub fn read(&self, yaml: &str) -> Result<Prepared, Faults> {
        Prepared::read(yaml, self.servers.named())
    }
}
