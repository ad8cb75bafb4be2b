//! The answer to a request, and how it ended.

use crocodile_pear::error::Error;
use crocodile_pear::flow::Body;
use http::Response;

/// The answer to a request.
pub struct Reply {
    /// Head and body. The server frames it: a length or chunks, whatever the head says.
    pub response: Response<Body>,
    /// Who wants to know how it ended.
    pub observer: Option<Box<dyn Observer>>,
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
    /// The client did not read its answer, or did not send its body, in time.
    ClientSlow,
}

impl From<Response<Body>> for Reply {
    fn from(response: Response<Body>) -> Self {
        Reply { response, observer: None }
    }
}
