//! A call to an upstream, before it is made.

pub(crate) mod buffer;
#[cfg(feature = "cache")]
pub(crate) mod cache_scope;
#[cfg(not(feature = "cache"))]
#[path = "call/cache_scope_absent.rs"]
pub(crate) mod cache_scope;
pub(crate) mod clock;
pub(crate) mod composed_part;
pub(crate) mod expecting;
pub(crate) mod fields;
pub(crate) mod forward;
pub(crate) mod noting;
pub(crate) mod outcome;
pub(crate) mod public;
pub(crate) mod rewrite;
pub(crate) mod timeouts;
pub(crate) mod timing;
use std::sync::Arc;

use http::{Extensions, HeaderValue, Method, Version};
use tokio::time::Instant;

use crate::error::CallId;
use crate::message::body::AnswerBody;
use crate::message::side_channel::Passage;
use crate::telemetry::request_record::CallNote;
use forward::Trailing;
use noting::ForCaches;
use timeouts::Timeouts;

pub struct UpstreamCall {
    pub method: Method,
    /// Path and query, percent-encoded, without the upstream's own base path; it begins with `/` unless the path is empty.
    pub target: String,
    /// End-to-end header fields to send; hop-by-hop and framing fields are left out.
    pub headers: http::HeaderMap,
    /// The body, if one is sent.
    pub body: Option<AnswerBody>,
    /// Which trailers follow the body.
    pub trailing: Trailing,
    /// Instead of the upstream's own.
    pub timeouts: Option<Arc<Timeouts>>,
    /// When the client's whole request is over.
    pub deadline: Option<Instant>,
    /// Where the target begins.
    pub root: TargetRoot,
    /// The messages that the client can receive besides the answer.
    pub passage: Passage,
    /// How a stream of events is used.
    pub events: EventUse,
    /// The `host`, instead of the upstream's or its server's own.
    pub host: Option<HeaderValue>,
    /// The HTTP version of the client's request, for `via`.
    pub received: Version,
    /// The facts about the call that caches must know.
    pub keeping: ForCaches,
    /// Where it is noted, if it is.
    pub note: Option<CallNote>,
    /// The hash of what its server is chosen by, where that is the client.
    pub affinity: Option<u64>,
    /// Whether it has the gateway's credentials.
    pub presents: Presents,
    /// The facts that a program knows about it.
    pub context: Option<Arc<CallContext>>,
}

/// The credentials that a call presents to its upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presents {
    #[default]
    Credentials,
    /// No credentials: another upstream has written the link that led to it.
    Nothing,
}

/// The use of a stream of events (`text/event-stream`). It may rest and go on as long as it likes: `idle` and `call`
/// do not limit it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventUse {
    /// For an answer of its own, which has the deadline of the client's request.
    #[default]
    Read,
    /// The stream is handed on as it is, and that deadline is for its head only.
    HandedOn,
}

/// Where the target of a call begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetRoot {
    /// Below the upstream's own path.
    #[default]
    Upstream,
    /// At the server's root, as a link has it.
    Server,
}

impl UpstreamCall {
    /// A GET with nothing to add.
    pub fn get(target: String) -> Self {
        UpstreamCall {
            method: Method::GET,
            target,
            headers: http::HeaderMap::new(),
            body: None,
            trailing: Trailing::default(),
            timeouts: None,
            deadline: None,
            root: TargetRoot::Upstream,
            passage: Passage::default(),
            events: EventUse::Read,
            host: None,
            received: Version::HTTP_11,
            keeping: ForCaches::Nothing,
            note: None,
            affinity: None,
            presents: Presents::Credentials,
            context: None,
        }
    }

    /// A copy for another attempt, unless the body is a stream.
    pub(super) fn repeat(&self) -> Option<Self> {
        let body = match &self.body {
            None => None,
            Some(AnswerBody::Bytes(bytes)) => Some(AnswerBody::Bytes(bytes.clone())),
            Some(AnswerBody::Value(value)) => Some(AnswerBody::Value(value.clone())),
            Some(AnswerBody::Json(raw)) => Some(AnswerBody::Json(raw.clone())),
            Some(AnswerBody::Pulled(_) | AnswerBody::Tunnel(_)) => return None,
        };
        Some(self.with(body))
    }

    /// A copy of the head alone, if the body is a stream.
    pub(super) fn repeat_head(&self) -> Option<Self> {
        matches!(&self.body, Some(AnswerBody::Pulled(_))).then(|| self.with(None))
    }

    /// A copy with another body.
    fn with(&self, body: Option<AnswerBody>) -> Self {
        UpstreamCall {
            method: self.method.clone(),
            target: self.target.clone(),
            headers: self.headers.clone(),
            body,
            trailing: self.trailing.clone(),
            timeouts: self.timeouts.clone(),
            deadline: self.deadline,
            root: self.root,
            passage: self.passage.clone(),
            events: self.events,
            host: self.host.clone(),
            received: self.received,
            keeping: self.keeping.clone(),
            note: self.note.clone(),
            affinity: self.affinity,
            presents: self.presents,
            context: self.context.clone(),
        }
    }
}

/// The facts that a program knows about one of its calls.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    pub id: CallId,
    /// The extensions that the program gave along.
    pub extensions: Extensions,
}
