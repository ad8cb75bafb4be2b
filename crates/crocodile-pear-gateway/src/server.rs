//! The inbound side: one runtime and one listener per core, and the protocols behind one handler.
//!
//! `listen` binds the addresses, `cores` accepts, `tls` makes handshakes, `io` carries a connection's bytes, `http1` and
//! `http2` speak the protocols. What they hand over are a [`ClientRequest`] and a [`Reply`].

mod challenge;
mod copy;
mod cores;
pub mod grpc;
mod http1;
mod http2;
mod io;
mod listen;
mod occupancy;
mod pace;
mod provider;
mod relay;
mod reply;
mod request;
mod shutdown;
mod tls;
mod unix;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

pub use challenge::{Challenges, http_file, tls_file};
pub use cores::serve;
pub use crocodile_pear::http1::request::Refusal;
pub use listen::{Entry, Listeners, Redirect, Unbound};
pub use pace::MinRate;
pub use reply::{End, Ending, Observer, Reply};
pub use request::{ClientRequest, Connection, Patience, Unhurried};
pub use shutdown::Shutdown;
pub use tls::{Acquired, Day, Demand, Distrust, Identity, Overdue, Secured, Setup, Tls, Trust, Unfit};
pub use unix::Mode;

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

/// The bounds within which clients are served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From accept, or the first byte of a later head, to the whole head; then 408.
    pub header: Duration,
    /// How long a connection is kept between requests.
    pub keep_alive: Duration,
    /// How long a client may read nothing of what is ready for it; then it is reset.
    pub write: Duration,
    /// How long the handler waits for the next bytes of a request's body; then 408.
    pub body: Duration,
    /// The least rate at which bodies come and answers are taken while a client is waited for; none, for no such bound.
    pub min_rate: Option<MinRate>,
    /// How long requests in flight may go on once the shutdown has begun.
    pub drain: Duration,
    /// Bytes of a head; then 431.
    pub max_head: usize,
    /// Bytes of a request's target; then 414.
    pub max_target: usize,
    /// Header fields, at most 100; then 431.
    pub max_headers: usize,
    /// Connections per core; further ones wait in the listener's queue.
    pub max_connections: u32,
    /// Connections of one client address, over all cores; further ones are reset.
    pub per_address: Option<NonZeroU32>,
    /// The stack of a core's thread: virtual, touched only as far as expressions recurse.
    pub stack: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            header: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            write: Duration::from_secs(30),
            body: Duration::from_secs(30),
            min_rate: Some(MinRate::default()),
            drain: Duration::from_secs(30),
            max_head: 16 * 1024,
            max_target: 8 * 1024,
            max_headers: 100,
            max_connections: 64 * 1024,
            per_address: None,
            stack: 256 * 1024 * 1024,
        }
    }
}
