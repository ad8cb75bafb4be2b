//! Links that are called by another method than GET, with fields and a body of their own.

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};

use super::leads::{Act, Lead};
use crate::error::{Error, Kind};
use crate::format::{form, typed};
use crate::hypermedia::Action;
use crate::jq::{self, Data, Filter, Value};
use crate::json::value::{Fields, as_object, fields_of};
use crate::message::names::Names;
use crate::pipeline::step::FaultSource;
use crate::pipeline::step::view::View;
use crate::request::context::Scope;
use crate::template::{Template, TemplateSource};

/// How links are called.
pub(super) struct Acting {
    /// `None` for that of the action, or GET.
    pub(super) method: Option<Method>,
    pub(super) headers: Vec<(HeaderName, Template)>,
    pub(super) body: Option<Filter>,
}

impl Acting {
    pub(super) fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.headers.iter().flat_map(|(_, template)| template.filters()).chain(&self.body)
    }

    /// The same leads, as calls.
    pub(super) fn prepare(
        &self,
        leads: Vec<Lead>,
        (item, names, scope): (&Data, &Names, &Scope),
    ) -> Result<Vec<Lead>, Error> {
        let fault_source = |filter| FaultSource::from_filter(filter, false);
        let view =
            View { item, names, scope, fault_source: self.body.as_ref().map_or(FaultSource::Upstream, fault_source) };
        let one = |lead| match lead {
            Lead::Link(link) if !link.is_null() => self.act(link, None, &view).map(Lead::Act),
            Lead::Action(link, action) => self.act(link, Some(&action), &view).map(Lead::Act),
            other => Ok(other),
        };
        leads.into_iter().map(one).collect()
    }

    fn act(&self, mut link: Data, action: Option<&Action>, view: &View<'_>) -> Result<Arc<Act>, Error> {
        let method = match (&self.method, action) {
            (Some(method), _) => method.clone(),
            (None, Some(action)) => allowed(&action.method)?,
            (None, None) if self.body.is_some() => Method::POST,
            (None, None) => Method::GET,
        };
        let mut headers = HeaderMap::new();
        for (name, template) in &self.headers {
            if let Some(value) = view.field(name, template)? {
                headers.insert(name, value);
            }
        }
        let given = self.body.as_ref().map(|filter| view.evaluate(filter)).transpose()?.map(Data::into_value);
        let value = match action {
            Some(action) => filled(action, given),
            None => given,
        };
        let Some(value) = value else { return Ok(Arc::new(Act { link, method, headers, body: None })) };
        if action.is_some() && (method == Method::GET || method == Method::HEAD) {
            let query = form::write(&value).map_err(|error| blamed(action, error, form::write))?;
            link = with_query(link, &query)?;
            return Ok(Arc::new(Act { link, method, headers, body: None }));
        }
        if let (Some(action), false) = (action, headers.contains_key(CONTENT_TYPE)) {
            let wrong =
                |_| Error::new(Kind::Unusable, "an action in the answer has a content type that no field can have");
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(&action.content_type).map_err(wrong)?);
        }
        let written = headers.get(CONTENT_TYPE).map_or(&b"application/json"[..], HeaderValue::as_bytes);
        let write = |value: &Value| typed::write(value, Some(written));
        let made = write(&value).map_err(|error| match action {
            Some(_) => blamed(action, error, write),
            None => error,
        })?;
        if let Some(content_type) = made.content_type {
            headers.insert(CONTENT_TYPE, content_type);
        }
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        Ok(Arc::new(Act { link, method, headers, body: Some(made.bytes) }))
    }
}

/// The error of fields that cannot be written: the upstream's, if those of its action alone cannot.
fn blamed<T>(action: Option<&Action>, error: Error, write: impl Fn(&Value) -> Result<T, Error>) -> Error {
    let own = action.and_then(|action| filled(action, None));
    match own.is_some_and(|fields| write(&fields).is_err()) {
        true => Error::new(Kind::Unusable, "an action in the answer has a field that its content type cannot have"),
        false => error,
    }
}

/// The method of an action: one that a call may have.
fn allowed(written: &str) -> Result<Method, Error> {
    let known = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let wrong = || Error::new(Kind::Unusable, "an action in the answer has a method that cannot be called");
    known.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(written)).ok_or_else(wrong)
}

/// The fields of an action, with what is given for them; another value is the body as it is.
fn filled(action: &Action, given: Option<Value>) -> Option<Value> {
    let more = match &given {
        Some(given) if as_object(given).is_none() => return Some(given.clone()),
        None if action.fields.is_empty() => return None,
        given => given.as_ref().and_then(as_object),
    };
    let mut fields: Fields = action.fields.iter().map(|(name, value)| (jq::string(name), value.value())).collect();
    for (name, value) in more.into_iter().flatten() {
        fields.insert(name.clone(), value.clone());
    }
    Some(fields_of(fields))
}

/// The link with more of a query.
fn with_query(link: Data, query: &str) -> Result<Data, Error> {
    let link = link.into_value();
    let wrong = || Error::new(Kind::Unusable, "an action in the answer has an address that is not a text");
    let link = jq::as_str(&link).ok_or_else(wrong)?;
    let link = link.split('#').next().unwrap_or_default();
    if query.is_empty() {
        return Ok(jq::string(link).into());
    }
    let sign = if link.contains('?') { '&' } else { '?' };
    Ok(jq::string(&format!("{link}{sign}{query}")).into())
}
