//! The answer to a request, and how it ended.

use crocodile_pear::error::Error;
use crocodile_pear::flow::Body;
use h2::Reason;
use http::Response;
use tokio::time::Instant;

/// The answer to a request.
pub struct Reply {
    /// Head and body. The server frames it: a length or chunks, whatever the head says.
    pub response: Response<Body>,
    /// Who wants to know how it ended.
    pub observer: Option<Box<dyn Observer>>,
    /// When it was ready, if somebody has looked at the clock.
    pub ready: Option<Instant>,
}

/// Learns how an answer ended.
pub trait Observer: Send {
    /// Called once: at the last byte handed to the socket, at a failure, or when the client is gone, which may be before
    /// the head left.
    fn ended(self: Box<Self>, end: &End);
}

/// The end of an answer.
#[derive(Debug)]
pub struct End {
    /// Bytes of the body that were written, without framing.
    pub bytes: u64,
    /// How it ended.
    pub how: Ending,
}

/// How an answer ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// With its last byte.
    Whole,
    /// Broken off, by an upstream or by us.
    Failed(Error),
    /// The client left.
    ClientGone,
    /// The client gave the request up and stays (HTTP/2), for this reason.
    ClientReset(Reason),
    /// The client did not read its answer, or did not send its body, in time.
    ClientSlow,
}

impl From<Response<Body>> for Reply {
    fn from(response: Response<Body>) -> Self {
        Reply { response, observer: None, ready: None }
    }
}

/// Tells the observer of an answer how it ended, whatever happens to the task.
pub(super) struct Observed {
    pub(super) observer: Option<Box<dyn Observer>>,
    /// Bytes of the body that were written.
    pub(super) bytes: u64,
}

impl Observed {
    pub(super) fn end(&mut self, how: Ending) {
        if let Some(observer) = self.observer.take() {
            observer.ended(&End { bytes: self.bytes, how });
        }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.end(Ending::ClientGone);
    }
}
