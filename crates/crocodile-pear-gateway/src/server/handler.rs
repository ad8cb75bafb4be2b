//! What answers requests.

use std::sync::Arc;

use crocodile_pear::http1::request::Refusal;

use super::reply::Reply;
use super::request::{ClientRequest, Connection};

/// Answers requests. One per core; each of its futures runs on that core, and is dropped when the client leaves.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. The answer's body is pulled as fast as the client reads.
    fn handle(&self, request: ClientRequest) -> impl Future<Output = Reply> + Send;

    /// The answer to a request that was refused before it could be read (400, 408, 414, 431 …), so that it is logged,
    /// counted and dressed like any other.
    fn refuse(&self, refusal: Refusal, connection: &Arc<Connection>) -> Reply;

    /// A connection was refused because its address has as many as it may.
    fn connection_refused(&self) {}

    /// A connection is open.
    fn connection_opened(&self) {}

    /// A connection that was open has ended.
    fn connection_closed(&self) {}
}
