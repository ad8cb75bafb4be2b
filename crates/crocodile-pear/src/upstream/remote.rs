//! A URL that is called for the gateway's own sake: a key set, an introspection endpoint, a token endpoint.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::attempt::retry_loop::ReadyCall;
use super::call::UpstreamCall;
use super::call::timeouts::Timeouts;
use super::environment::UpstreamEnvironment;
use super::servers::Servers;
use super::servers::settings::UpstreamSettings;
use crate::config::problem::Problems;
use crate::config::spec::{Located, Timeout};
use crate::error::Error;
use crate::message::body::AnswerBody;
use crate::net::tls::{TlsSettings, TlsSpec};
use crate::net::url::url;
use crate::resilience::breaker::BreakerSpec;

/// The largest answer: a key set with hundreds of keys fits well.
const LARGEST: usize = 1 << 20;

/// A URL, ready to be called from any core.
pub struct Remote {
    servers: Arc<Servers>,
    target: String,
}

/// The limits of calls of a URL.
pub struct RemoteLimits {
    /// The time of one call.
    pub timeout: Duration,
    /// Calls at once; further ones wait, within `timeout`. `None` for any number.
    pub in_flight: Option<usize>,
    /// When the URL is not called for a while. Never if `None`.
    pub breaker: Option<BreakerSpec>,
}

impl From<Duration> for RemoteLimits {
    fn from(timeout: Duration) -> Self {
        RemoteLimits { timeout, in_flight: None, breaker: None }
    }
}

impl Remote {
    /// Compiles the settings. Every problem is noted. `name` is used in errors.
    pub fn compile(
        name: &str,
        written: &Located<String>,
        tls: Option<&TlsSpec>,
        limits: impl Into<RemoteLimits>,
        given: &UpstreamEnvironment<'_>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let (base, query) = match written.value.split_once('?') {
            Some((base, query)) => (base, Some(query)),
            None => (written.as_str(), None),
        };
        let bare = Located { value: base.to_owned(), span: written.span, runs: written.runs.clone() };
        let authority = base.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
        if authority.contains('@') {
            return problems.error(written.span, "a URL must not contain credentials", "leave them out");
        }
        let uri = url(&bare, problems)?;
        if let (Some(_), Some("http")) = (tls, uri.scheme_str()) {
            let remedy = format!("write `https{}`, or leave out `tls`", written.value.trim_start_matches("http"));
            return problems.error(written.span, "`tls` needs an `https` URL", remedy);
        }
        let host = uri.host().unwrap_or("localhost");
        let tls = tls.map_or(Some(TlsSettings::default()), |tls| tls.compile(host, given.files, problems))?;
        let path = uri.path().to_owned();
        let origin =
            format!("{}://{}", uri.scheme_str().unwrap_or("http"), uri.authority().map_or("", |at| at.as_str()));
        let Ok(origin) = origin.parse::<http::Uri>() else {
            return problems.error(written.span, "this is not a URL", "");
        };
        let RemoteLimits { timeout, in_flight, breaker } = limits.into();
        let timeouts = Timeouts { call: Timeout::After(timeout), ..Timeouts::default() };
        let resolver = given.resolver.clone();
        let carry = given.carry.part((name, &origin));
        let settings = UpstreamSettings {
            tls,
            timeouts,
            resolver,
            in_flight,
            breaker,
            carry,
            ..UpstreamSettings::new(name, origin)
        };
        match Servers::new(&settings) {
            Ok(servers) => {
                let target = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
                Some(Remote { servers: Arc::new(servers), target })
            }
            Err(error) => problems.error(written.span, error.detail().to_owned(), ""),
        }
    }

    /// Gets a JSON document.
    ///
    /// # Errors
    /// The errors of [`ReadyUpstream::call`](super::ReadyUpstream::call), and `Oversized`.
    pub async fn get(&self) -> Result<(StatusCode, Bytes), Error> {
        self.call(UpstreamCall::get(self.target.clone())).await
    }

    /// Posts a form, which is answered with JSON. `authorization` is sent as it is.
    ///
    /// # Errors
    /// The errors of [`ReadyUpstream::call`](super::ReadyUpstream::call), and `Oversized`.
    pub async fn post(&self, form: String, authorization: Option<HeaderValue>) -> Result<(StatusCode, Bytes), Error> {
        let mut call = UpstreamCall::get(self.target.clone());
        call.method = Method::POST;
        call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        call.headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
        call.body = Some(AnswerBody::Bytes(form.into()));
        self.call(call).await
    }

    /// Posts bytes of this media type, with these header fields; only the status of the answer counts.
    ///
    /// # Errors
    /// The errors of [`ReadyUpstream::call`](super::ReadyUpstream::call), and `Oversized`.
    pub async fn send(&self, media: &'static str, headers: &HeaderMap, body: Bytes) -> Result<StatusCode, Error> {
        let mut call = UpstreamCall::get(self.target.clone());
        call.method = Method::POST;
        call.headers = headers.clone();
        call.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        call.body = Some(AnswerBody::Bytes(body));
        let answer = ReadyCall::new(&self.servers, Box::new(call))?.send().await?;
        // Read, so that the connection is kept.
        answer.body.collect(LARGEST).await.map_err(|error| error.of_upstream(&self.servers.name))?;
        Ok(answer.status)
    }

    async fn call(&self, mut call: UpstreamCall) -> Result<(StatusCode, Bytes), Error> {
        let accept: &mut HeaderMap = &mut call.headers;
        accept.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let answer = ReadyCall::new(&self.servers, Box::new(call))?.send().await?;
        let body = answer.body.collect(LARGEST).await.map_err(|error| error.of_upstream(&self.servers.name))?;
        Ok((answer.status, body))
    }
}
