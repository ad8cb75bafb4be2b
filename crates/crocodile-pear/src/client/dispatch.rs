//! A call of a program, made by the engine: the upstream of its URL, with all that is set for it.

use std::sync::Arc;

use http::{HeaderMap, Method, Uri};

use super::handle::Client;
use super::servers::Aim;
use crate::error::{CallId, Error};
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::request::context::Scope;
use crate::upstream::{ForCaches, Likeness, TargetRoot, Timeouts, Trailing, UpstreamCall};

/// A request that is ready to be sent.
pub struct PreparedRequest {
    pub method: Method,
    pub url: Uri,
    pub headers: HeaderMap,
    pub body: Option<AnswerBody>,
    pub timeouts: Option<TimeoutChange>,
}

/// A change of the upstream's timeouts for one call.
pub type TimeoutChange = Box<dyn FnOnce(&Timeouts) -> Timeouts + Send>;

/// Makes a call.
///
/// # Errors
/// The errors of the call, with its URL and its place.
pub async fn send(client: &Client, ready: PreparedRequest, id: &CallId) -> Result<Answer, Error> {
    let told = ready.url.clone();
    match client.servers.aim(&ready.url) {
        Ok(aim) => send_to(client, aim, ready, id).await,
        Err(error) => Err(error.at_url(told).at_call(id.clone())),
    }
}

/// The same where the upstream is known.
///
/// # Errors
/// The errors of the call, with its URL and its place.
pub async fn send_to(client: &Client, aim: Aim, ready: PreparedRequest, id: &CallId) -> Result<Answer, Error> {
    let url = ready.url.clone();
    let answer = match call(client, &aim, ready, id) {
        Ok(call) => aim.upstream.call(call).await,
        Err(error) => Err(error),
    };
    answer.map_err(|error| error.at_url(url).at_call(id.clone()))
}

fn call(client: &Client, aim: &Aim, ready: PreparedRequest, id: &CallId) -> Result<UpstreamCall, Error> {
    let PreparedRequest { method, headers, body, timeouts, .. } = ready;
    let timeouts = timeouts.map(|change| Arc::new(change(aim.upstream.timeouts())));
    let (mut headers, mut host, mut keeping) = (headers, None, ForCaches::Nothing);
    if aim.named {
        // The settings of the upstream: fields, host, cache.
        let scope = Scope::new(method.clone(), None, HeaderMap::new(), AnswerBody::empty());
        let mut fields = aim.upstream.fields(&scope, Likeness::Other)?;
        for (name, value) in &headers {
            fields.write(name, Some(value.clone()));
        }
        host = aim.upstream.host(&scope);
        keeping = aim.upstream.keep(&scope, &mut fields)?;
        headers = fields.into_map();
    }
    if let Some(own) = headers.remove(http::header::HOST) {
        host = Some(own);
    }
    Ok(UpstreamCall {
        method,
        headers,
        body,
        timeouts,
        host,
        keeping,
        root: TargetRoot::Server,
        trailing: Trailing::own(),
        context: client.context(id),
        ..UpstreamCall::get(aim.target.clone())
    })
}
