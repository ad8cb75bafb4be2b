//! The interface between the server and the code that answers requests.

use std::sync::Arc;

use crocodile_pear::unstable::http::http1::request::Refusal;
use http::HeaderValue;

use super::reply::Reply;
use super::request::{ClientRequest, Connection};

/// Answers requests. There is one for each core; its futures run on that core and are dropped when the client leaves.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. The answer's body is read as fast as the client takes it.
    fn handle(&self, request: ClientRequest) -> impl Future<Output = Reply> + Send;

    /// Makes the answer to a request that could not be read (400, 408, 414, 431 …), so that it is logged, counted and
    /// gets its headers like any other. `origin` is that of the page that sent it, as far as it could be read.
    fn refuse(&self, refusal: Refusal, origin: Option<HeaderValue>, connection: &Arc<Connection>) -> Reply;

    /// A connection was refused because its address has too many.
    fn connection_refused(&self) {}

    /// So many idle connections have to leave, because descriptors are scarce.
    fn connections_closed_for_room(&self, _: usize) {}

    fn connection_opened(&self) {}

    /// An open connection has ended.
    fn connection_closed(&self) {}

    /// The core ends; requests that are in flight are cut off.
    fn cuts_off(&self) {}
}
