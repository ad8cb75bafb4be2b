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

use crate::database::DatabaseSpec;
use crate::problem::{Problems, Span};
use crate::spec::{Decode, Node};
use crate::upstream::{Settings, Upstream};
use servers::Servers;

/// Calls HTTP servers. Cheap to clone; connections are kept and shared by the clones.
#[derive(Clone, Default)]
pub struct Client {
    servers: Arc<Servers>,
}

impl Client {
    /// A client without connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an upstream by name: links may lead there, and pipelines that are read from text may call it.
    ///
    /// # Errors
    /// If the URL is none.
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

    /// Adds a PostgreSQL database by name, for `sql`. Its connections are opened as they are needed.
    ///
    /// # Errors
    /// If the URL is none.
    pub fn database(&self, name: &str, url: &str) -> Result<(), Faults> {
        let mut problems = Problems::default();
        let spec = DatabaseSpec::decode(&Node::from_json(&url.into()), &mut problems);
        match spec.and_then(|spec| spec.compile(name, &prepared::file, &mut problems)) {
            Some(database) => self.servers.add_database(name, database),
            None => return Err(Faults::of(problems)),
        }
        Ok(())
    }

    /// One producer for each request. All start when the pipeline is first asked for an answer.
    pub fn request<R: Into<Request>>(&self, requests: impl IntoIterator<Item = R>) -> Pipeline {
        let starts = requests.into_iter().map(|request| (None, request.into()));
        Pipeline::begin(self.servers.clone(), starts.collect())
    }

    /// The same with a name for each, which [`Pipeline::merge`] knows.
    pub fn requests<'a, R: Into<Request>>(&self, requests: impl IntoIterator<Item = (&'a str, R)>) -> Pipeline {
        let starts = requests.into_iter().map(|(name, request)| (Some(name.into()), request.into()));
        Pipeline::begin(self.servers.clone(), starts.collect())
    }

    /// A pipeline without calls so far, for one that begins with [`Pipeline::sql`].
    pub fn pipeline(&self) -> Pipeline {
        Pipeline::new(self.servers.clone())
    }

    /// A pipeline as a configuration has it, read from YAML once and run for any number of requests: a list of steps, or
    /// a map with `pipeline` and what it needs.
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
    /// let wrong = client.read("[{ request: nowhere / }]").err().map(|faults| faults.to_string());
    /// assert_eq!(wrong.as_deref(), Some("line 1, column 13: no upstream is named `nowhere`; add it under `upstreams`"));
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
