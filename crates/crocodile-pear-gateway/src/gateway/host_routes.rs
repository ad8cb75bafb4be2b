//! The endpoints of one host: which of them serves a request, and what is answered where none does.

use std::sync::Arc;

use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::http::loop_detection::{self, Forwards};
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY};
use http::{Method, Response, StatusCode};

use crate::gateway::endpoint::Endpoint;
use crate::http::response;
use crate::http::route::{FoundRoute, METHODS, Routes};
use crate::http::version::{Chooser, Named, VersionChoice, Versioned};
use crate::layer::stack::Stack;

/// The endpoints of one host.
pub(super) struct HostRoutes {
    pub(super) routes: Routes<RouteTarget>,
    /// The choosers of versions for its groups.
    pub(super) apis: Vec<Arc<Chooser>>,
    /// The layers around this host's requests that no endpoint serves.
    pub(super) unserved: Arc<Stack>,
}

/// An entry of the router: an endpoint and its version.
pub(super) struct RouteTarget {
    pub(super) endpoint: Arc<Endpoint>,
    /// Its version, unless the path alone chooses the version.
    pub(super) version: Option<Arc<Versioned>>,
}

impl RouteTarget {
    /// Whether this endpoint belongs to the version that a request asks for.
    pub(super) fn serves(&self, choice: &mut VersionChoice, scope: &Scope) -> bool {
        match &self.version {
            None => true,
            Some(own) => *choice.of(&own.chooser, scope) == Named::Version(own.index),
        }
    }

    /// Whether both belong to the same API, but to different versions of it.
    pub(super) fn apart(&self, other: &RouteTarget) -> bool {
        let versions = self.version.as_ref().zip(other.version.as_ref());
        versions.is_some_and(|(own, other)| Arc::ptr_eq(&own.chooser, &other.chooser) && own.index != other.index)
    }
}

impl HostRoutes {
    /// The endpoint whose layers answer a preflight: the one that would serve the announced request (Fetch, 4.8).
    pub(super) fn asked_about(
        &self,
        scope: &Scope,
        found: &Result<FoundRoute<'_, RouteTarget>, Error>,
    ) -> Option<&Arc<Endpoint>> {
        // A preflight does not say which version the announced request will ask for.
        let (&Method::OPTIONS, Ok(_)) = (scope.method(), found) else { return None };
        self.announced(scope)
    }

    /// Whether an `OPTIONS` is about a path that is open to everybody, so that no credentials are needed to ask about it.
    pub(super) fn is_open(&self, scope: &Scope, found: &Result<FoundRoute<'_, RouteTarget>, Error>) -> bool {
        let (&Method::OPTIONS, Ok(FoundRoute::Methods(methods)), Some(path)) = (scope.method(), found, scope.path())
        else {
            return false;
        };
        methods.iter().any(|method| match self.routes.find(method, path, |_| true) {
            Ok(FoundRoute::Endpoint(slot, _)) => !slot.endpoint.layers.has(AUTHENTICATE),
            _ => false,
        })
    }

    /// The endpoint whose cached answers a `PURGE` is about, if purging is allowed there.
    pub(super) fn purged(&self, scope: &Scope) -> Option<&Arc<Endpoint>> {
        if scope.method().as_str() != "PURGE" {
            return None;
        }
        match self.routes.find(&Method::GET, scope.path()?, |_| true) {
            Ok(FoundRoute::Endpoint(slot, _)) => {
                Some(&slot.endpoint).filter(|endpoint| endpoint.layers.answers_purges || self.unserved.answers_purges)
            }
            _ => None,
        }
    }

    /// The endpoint that would serve the request that a preflight announces.
    fn announced(&self, scope: &Scope) -> Option<&Arc<Endpoint>> {
        let announced = scope.headers().get(ACCESS_CONTROL_REQUEST_METHOD)?;
        let announced = Method::from_bytes(announced.as_bytes()).ok()?;
        // Any version will do: the layers are the same in all.
        match self.routes.find(&announced, scope.path()?, |_| true) {
            Ok(FoundRoute::Endpoint(slot, _)) => Some(&slot.endpoint),
            _ => None,
        }
    }

    /// Finds the endpoint for a request.
    pub(super) fn find(&self, scope: &Scope) -> Result<FoundRoute<'_, RouteTarget>, Error> {
        let mut choice = VersionChoice::default();
        self.routes.find(scope.method(), scope.path().unwrap_or_default(), |slot| slot.serves(&mut choice, scope))
    }

    /// The answer if the requested version does not exist, or does not have this endpoint.
    pub(super) fn other_version(&self, scope: &Scope) -> Option<Response<AnswerBody>> {
        let (method, path) = (scope.method(), scope.path()?);
        let mut choice = VersionChoice::default();
        let _ = self.routes.find(method, path, |slot| slot.serves(&mut choice, scope));
        if let Some((chooser, named)) = choice.made() {
            let all: Vec<&str> = chooser.names.iter().map(|name| &**name).collect();
            let mut response = match named {
                Named::Refused(status, detail) => response::other_version(*status, detail, &all),
                Named::Version(_) => {
                    let has = |index: &usize| {
                        let serves = |slot: &RouteTarget| slot.version.as_ref().is_some_and(|own| own.index == *index);
                        matches!(self.routes.find(method, path, serves), Ok(FoundRoute::Endpoint(..)))
                    };
                    let those: Vec<&str> = (0..all.len()).filter(has).map(|index| all[index]).collect();
                    response::other_version(StatusCode::NOT_FOUND, ELSEWHERE, &those)
                }
            };
            response.headers_mut().extend(chooser.vary().map(|vary| (VARY, vary)));
            return Some(response);
        }
        let chooser = self.apis.iter().find(|chooser| chooser.looks_versioned(path))?;
        let all: Vec<&str> = chooser.names.iter().map(|name| &**name).collect();
        if !chooser.names_one(path) {
            return Some(response::other_version(StatusCode::NOT_FOUND, "there is no such version", &all));
        }
        let has = |name: &&str| {
            let there = chooser.in_version(path, name);
            there.is_some_and(|path| matches!(self.routes.find(method, &path, |_| true), Ok(FoundRoute::Endpoint(..))))
        };
        let those: Vec<&str> = all.into_iter().filter(has).collect();
        (!those.is_empty()).then(|| response::other_version(StatusCode::NOT_FOUND, ELSEWHERE, &those))
    }
}

/// The layer that says who a client is.
pub(super) const AUTHENTICATE: &str = "authenticate";

/// Sent to clients that ask for an endpoint in the wrong version.
const ELSEWHERE: &str = "this version has no such endpoint; others have";

/// Whether this is a preflight for another endpoint than the one that serves `OPTIONS`.
pub(super) fn is_preflight_for_other(site: Option<&HostRoutes>, scope: &Scope, serves: &Arc<Endpoint>) -> bool {
    *scope.method() == Method::OPTIONS
        && scope.headers().contains_key(ORIGIN)
        && site
            .and_then(|site| site.announced(scope))
            .is_some_and(|asked| asked.layers.answers_preflights && !Arc::ptr_eq(asked, serves))
}

/// Answers requests that go no further: those about the server itself (RFC 9110, 9.3.7), those whose `Max-Forwards` has
/// run out, and those that have come back to this gateway in a loop.
pub(super) fn answer_locally(scope: &Scope, site: Option<&HostRoutes>) -> Option<Response<AnswerBody>> {
    let asks = *scope.method() == Method::OPTIONS;
    if asks && scope.path() == Some("*") {
        return Some(response::options(&METHODS));
    }
    if asks && scope.forwarded() && loop_detection::forwards(scope.headers()) == Forwards::AtMost(0) {
        let (site, path) = (site?, scope.path()?);
        let serves = |method: &&str| {
            let method = Method::from_bytes(method.as_bytes());
            method.is_ok_and(|method| matches!(site.routes.find(&method, path, |_| true), Ok(FoundRoute::Endpoint(..))))
        };
        let has: Vec<&str> = METHODS.iter().copied().filter(serves).collect();
        return (!has.is_empty()).then(|| response::options(&has));
    }
    if !scope.forwarded() {
        return None;
    }
    loop_detection::check(scope.headers()).err().map(|error| response::fail(&error))
}
