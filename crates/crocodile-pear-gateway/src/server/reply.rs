//! The answer to a request, and how it ended.

use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::message::body::AnswerBody;
use h2::Reason;
use http::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, HeaderName, VARY,
};
use tokio::time::Instant;

/// The answer to a request.
pub struct Reply {
    /// The head and the body. The server chooses the framing, length or chunks, whatever the head says.
    pub response: Response<AnswerBody>,
    /// Learns how the answer ended.
    pub observer: Option<Box<dyn Observer>>,
    /// When the answer was ready, if the time was taken.
    pub ready: Option<Instant>,
}

/// Learns how an answer ended.
pub trait Observer: Send {
    /// Called once: when the last byte was passed to the socket, after a failure, or when the client is gone, possibly
    /// before the head left.
    fn ended(self: Box<Self>, end: &ResponseEnd);
}

/// The end of an answer.
#[derive(Debug)]
pub struct ResponseEnd {
    /// The bytes of the body that were written, without framing.
    pub bytes: u64,
    pub how: Ending,
}

/// How an answer ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// Completely.
    Whole,
    /// Cut off by an upstream or by the gateway.
    Failed(Error),
    /// The client left.
    ClientGone,
    /// The client reset the stream (HTTP/2) with this reason, and keeps the connection.
    ClientReset(Reason),
    /// The client did not read its answer or send its body in time.
    ClientSlow,
}

/// Why an answer did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// An upstream or the gateway failed.
    Failed,
    /// The client left or reset the stream.
    ClientGone,
    /// The client was too slow.
    ClientSlow,
}

impl Unfinished {
    /// All reasons.
    pub const ALL: [Unfinished; 3] = [Unfinished::Failed, Unfinished::ClientGone, Unfinished::ClientSlow];

    /// The name in logs, spans and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Unfinished::Failed => "failed",
            Unfinished::ClientGone => "client-gone",
            Unfinished::ClientSlow => "client-slow",
        }
    }
}

impl Ending {
    /// Why the answer did not end well; `None` if it is whole.
    pub fn unfinished(&self) -> Option<Unfinished> {
        match self {
            Ending::Whole => None,
            Ending::Failed(_) => Some(Unfinished::Failed),
            Ending::ClientGone | Ending::ClientReset(_) => Some(Unfinished::ClientGone),
            Ending::ClientSlow => Some(Unfinished::ClientSlow),
        }
    }
}

/// The fields that let a page of another origin read an answer.
const READABLE: [HeaderName; 4] =
    [ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_EXPOSE_HEADERS, VARY];

impl Reply {
    /// The same for the page that could read the reply which this one replaces.
    pub(super) fn readable_as(mut self, replaced: &Reply) -> Self {
        for name in READABLE {
            if let Some(value) = replaced.response.headers().get(&name) {
                self.response.headers_mut().insert(name, value.clone());
            }
        }
        self
    }
}

impl From<Response<AnswerBody>> for Reply {
    fn from(response: Response<AnswerBody>) -> Self {
        Reply { response, observer: None, ready: None }
    }
}

/// Tells the observer of an answer how it ended, even if the task is dropped.
pub(super) struct Observed {
    pub(super) observer: Option<Box<dyn Observer>>,
    /// The bytes of the body that were written.
    pub(super) bytes: u64,
}

impl Observed {
    pub(super) fn end(&mut self, how: Ending) {
        if let Some(observer) = self.observer.take() {
            observer.ended(&ResponseEnd { bytes: self.bytes, how });
        }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.end(Ending::ClientGone);
    }
}
