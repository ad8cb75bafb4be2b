//! How authorities are called: over the gateway's own client, within its bounds.

use std::cell::Cell;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use crocodile_pear::unstable::config::spec::Timeout;
use crocodile_pear::unstable::error::Error as CallError;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::net::tls::TlsSettings;
use crocodile_pear::unstable::upstream::{ReadyUpstream, Resolver, Timeouts, UpstreamCall, UpstreamSettings};
use http::header::{HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

use crate::listeners::spec::CALL;

/// The largest answer: a chain of certificates is a hundredth of it.
const LARGEST: usize = 1 << 20;

tokio::task_local! {
    /// When the authority wants to be asked again, as its last answer to this task has it.
    static AFTER: Cell<Option<Duration>>;
}

/// The `Retry-After` of the last answer to this task.
pub fn retry_after() -> Option<Duration> {
    AFTER.try_with(Cell::get).ok().flatten()
}

/// Notes what answers say of when to ask again.
pub async fn noting<T>(work: impl Future<Output = T>) -> T {
    AFTER.scope(Cell::new(None), work).await
}

/// Calls to an authority.
pub struct Transport {
    ca: Option<Vec<u8>>,
    resolver: Option<Resolver>,
    /// By origin: an authority may have its resources at several.
    origins: Mutex<HashMap<String, Arc<ReadyUpstream>>>,
}

impl Transport {
    pub fn new(ca: Option<Vec<u8>>, resolver: Option<Resolver>) -> Self {
        Transport { ca, resolver, origins: Mutex::default() }
    }

    fn upstream(&self, uri: &Uri) -> Result<Arc<ReadyUpstream>, Error> {
        let (Some("https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(other(format!("the authority names `{uri}`, which is not an `https` URL")));
        };
        let origin = format!("https://{authority}");
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = origins.get(&origin) {
            return Ok(known.clone());
        }
        let tls = TlsSettings { ca: self.ca.clone(), ..TlsSettings::default() };
        let timeouts = Timeouts { call: Timeout::After(CALL), ..Timeouts::default() };
        let url: Uri = origin.parse()?;
        let settings =
            UpstreamSettings { tls, timeouts, resolver: self.resolver.clone(), ..UpstreamSettings::new("acme", url) };
        let upstream = ReadyUpstream::new(settings).map_err(|error| other(error.detail().to_owned()))?;
        origins.insert(origin, upstream.clone());
        Ok(upstream)
    }
}

impl HttpClient for Transport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let upstream = self.upstream(request.uri());
        Box::pin(async move { send(upstream?, request).await })
    }
}

async fn send(upstream: Arc<ReadyUpstream>, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
    let (head, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    };
    let mut call = UpstreamCall::get(head.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned());
    call.method = head.method;
    call.headers = head.headers;
    // RFC 8555, 6.1: the client's own name.
    call.headers.insert(USER_AGENT, HeaderValue::from_static(concat!("crocodile-pear/", env!("CARGO_PKG_VERSION"))));
    call.body = (!body.is_empty()).then_some(AnswerBody::Bytes(body));
    let failed = |error: CallError| other(format!("the authority cannot be called: {}", error.detail()));
    let answer = upstream.call(call).await.map_err(failed)?;
    let _ = AFTER.try_with(|after| after.set(wait(&answer.headers, SystemTime::now())));
    let (status, headers) = (answer.status, answer.headers.into_map());
    let body = answer.body.collect(LARGEST).await.map_err(failed)?;
    if !status.is_success() && serde_json::from_slice::<serde_json::Map<_, _>>(&body).is_err() {
        return Err(other(format!("the authority answered {status}")));
    }
    let mut response = Response::new(Full::new(body));
    (*response.status_mut(), *response.headers_mut()) = (status_of(status), headers);
    Ok(response.into())
}

/// A redirect has no account and no order in it: it is an error that the caller notices.
fn status_of(status: StatusCode) -> StatusCode {
    if status.is_redirection() { StatusCode::BAD_GATEWAY } else { status }
}

/// `Retry-After`: seconds, or a date.
fn wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()),
    }
}

fn other(text: String) -> Error {
    Error::Other(text.into())
}
