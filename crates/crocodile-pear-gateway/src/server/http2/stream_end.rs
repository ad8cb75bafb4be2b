//! The state of a stream when its handler is done.

use bytes::Bytes;
use h2::{Reason, SendStream};
use tokio::time::Instant;

use super::super::reply::{Ending, Observed};

/// The state of a stream when its handler is done.
pub enum StreamOutcome {
    /// The client gave it up before it was answered. The time is when the request came.
    GivenUp(Instant),
    /// There is nothing left to do.
    Over,
    /// `h2` has the answer and is sending it.
    Leaving(UnsentAnswer),
}

/// An answer that `h2` has completely, but that has not all left through the socket.
pub struct UnsentAnswer {
    pub stream: SendStream<Bytes>,
    pub observed: Observed,
    /// How the answer ends once all of it has left.
    pub how: Ending,
    /// The length of its body in bytes.
    pub total: u64,
    /// The reason of the reset that ends it, if any.
    pub reset: Option<Reason>,
}
