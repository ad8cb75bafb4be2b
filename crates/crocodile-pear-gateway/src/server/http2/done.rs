//! How far a stream has come when its work is done.

use bytes::Bytes;
use h2::{Reason, SendStream};
use tokio::time::Instant;

use super::super::reply::{Ending, Observed};

/// How far a stream has come when its work is done.
pub enum Done {
    /// The client gave it up before it was answered; when it came.
    GivenUp(Instant),
    /// There is nothing left to do.
    Over,
    /// Its answer is on its way.
    Leaving(Leaving),
}

/// An answer that `h2` has whole, and the socket not yet.
pub struct Leaving {
    pub stream: SendStream<Bytes>,
    pub observed: Observed,
    /// How it ends when all of it has left.
    pub how: Ending,
    /// Bytes of its body.
    pub total: u64,
    /// What breaks it off then.
    pub reset: Option<Reason>,
}
