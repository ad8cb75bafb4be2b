//! The servers that a program calls: found by the URIs of its requests, or named before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::Uri;
use indexmap::IndexMap;

use super::request::Request;
use crate::database::Database;
use crate::error::{Error, Kind};
use crate::message::answer::Answer;
use crate::pipeline::step::{ByName, Known, KnownRoute};
use crate::upstream::{Call, Settings, Trailing, Upstream};

/// What the clones of a client share.
#[derive(Default)]
pub struct Servers(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    /// By scheme and authority.
    origins: HashMap<String, Arc<Upstream>>,
    named: Named,
}

/// What steps may name.
#[derive(Clone, Default)]
pub struct Named {
    /// Upstreams; those that nobody named are known by their origin.
    pub upstreams: IndexMap<String, Arc<Upstream>>,
    /// Databases.
    pub databases: IndexMap<String, Arc<Database>>,
}

impl Named {
    /// The same for a pipeline whose path has these parameters.
    pub fn known<'a>(&'a self, params: &'a [String]) -> Known<'a> {
        Known {
            upstreams: ByName::new(&self.upstreams, &[]),
            databases: ByName::new(&self.databases, &[]),
            route: KnownRoute { params, ..KnownRoute::default() },
            table: None,
        }
    }
}

/// An upstream, and a request's target there.
pub type Aim = (Arc<Upstream>, String);

impl Servers {
    /// What steps may name.
    pub fn named(&self) -> Named {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).named.clone()
    }

    /// Adds an upstream.
    pub fn add_upstream(&self, name: &str, upstream: Arc<Upstream>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).named.upstreams.insert(name.to_owned(), upstream);
    }

    /// Adds a database.
    pub fn add_database(&self, name: &str, database: Arc<Database>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).named.databases.insert(name.to_owned(), database);
    }

    /// Where a request goes.
    ///
    /// # Errors
    /// `BadRequest` if its URI leads nowhere.
    pub fn aim(&self, uri: &str) -> Result<Aim, Error> {
        let uri: Uri = uri.parse().map_err(|_| unfit())?;
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok((self.upstream(&uri)?, target))
    }

    /// The upstream of the URI's scheme and authority; its name in errors is the host.
    fn upstream(&self, uri: &Uri) -> Result<Arc<Upstream>, Error> {
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(unfit());
        };
        let root = format!("{scheme}://{authority}/");
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(upstream) = known.origins.get(&root) {
            return Ok(upstream.clone());
        }
        let url = root.parse().map_err(|_| unfit())?;
        let upstream = Upstream::new(Settings::new(authority.host(), url))?;
        known.named.upstreams.insert(root.clone(), upstream.clone());
        known.origins.insert(root, upstream.clone());
        Ok(upstream)
    }
}

/// Makes the call.
pub async fn call((upstream, target): Aim, request: Request) -> Result<Answer, Error> {
    let (method, headers, body) = (request.method, request.headers, request.body);
    upstream.call(Call { method, headers, body, trailing: Trailing::own(), ..Call::get(target) }).await
}

fn unfit() -> Error {
    Error::new(Kind::BadRequest, "this is not an absolute http URI")
}
