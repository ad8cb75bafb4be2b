//! Requests of an older version, translated to the newer one.

use std::sync::Arc;

use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::format::form;
use crocodile_pear::unstable::jq::{Filter, Value};
use crocodile_pear::unstable::json;
use crocodile_pear::unstable::pipeline::step::FaultSource;
use crocodile_pear::unstable::request::context::Scope;

/// The changes of a request, from the oldest version to the newest.
pub struct Adapting {
    pub changes: Vec<VersionChange>,
    /// The most bytes of a client's body.
    pub max_body: usize,
}

/// From one version to the next.
pub struct VersionChange {
    pub body: Option<Filter>,
    pub query: Option<Filter>,
}

impl Adapting {
    pub fn reads_body(&self) -> bool {
        self.changes.iter().any(|change| change.body.is_some())
    }

    /// Changes a request.
    ///
    /// # Errors
    /// `BadRequest` where an expression fails on what the client sent, and what reading its body ends with.
    pub async fn apply(self: Arc<Self>, scope: &mut Scope) -> Result<(), Error> {
        if !self.reads_body() {
            return self.change_query(scope);
        }
        scope.read_body(self.max_body).await?;
        scope.need_value()?;
        self.change_query(scope)?;
        let mut body = scope.variable("body", &None);
        for filter in self.changes.iter().filter_map(|change| change.body.as_ref()) {
            body = run(filter, body, scope)?;
        }
        scope.replace_body(json::to_bytes(&body)?);
        Ok(())
    }

    /// The same where no body is read.
    ///
    /// # Errors
    /// The errors of `apply`.
    pub fn change_query(&self, scope: &mut Scope) -> Result<(), Error> {
        for filter in self.changes.iter().filter_map(|change| change.query.as_ref()) {
            let query = run(filter, scope.variable("query", &None), scope)?;
            let query = form::write(&query).map_err(|error| FaultSource::Client.attribute(error))?;
            scope.replace_query(Some(query.as_str()).filter(|query| !query.is_empty()));
        }
        Ok(())
    }
}

fn run(filter: &Filter, item: Value, scope: &Scope) -> Result<Value, Error> {
    let body = item.clone();
    let mut variable = |name: &str| if name == "body" { body.clone() } else { scope.variable(name, &None) };
    let value = filter.run_one(item, &mut variable).map_err(|error| FaultSource::Client.attribute(error.into()))?;
    value.ok_or_else(|| Error::new(Kind::BadRequest, "the request has nothing that the newer version can be asked for"))
}
