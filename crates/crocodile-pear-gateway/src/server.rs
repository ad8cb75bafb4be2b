//! The inbound side: one runtime and one listener per core, HTTP/1.1 by hyper behind a gate of our own.

mod admit;
mod body;
mod chunks;
mod connection;
mod cores;
mod gate;
mod listen;
mod shutdown;
mod watch;

use std::time::Duration;

use crocodile_pear::flow::Pulled;
use http::{Request, Response};

pub use body::RequestBody;
pub use cores::serve;
pub use listen::{Listeners, Unbound};
pub use shutdown::Shutdown;

/// Answers requests. One per core; each of its futures runs on that core, and is dropped when the client leaves.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. The answer's body is pulled as fast as the client reads.
    fn handle(&self, request: Request<RequestBody>) -> impl Future<Output = Response<Pulled>> + Send;
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
    /// How long requests in flight may go on once the shutdown has begun.
    pub drain: Duration,
    /// Bytes of a head, at most `buffer`; then 431.
    pub max_head: usize,
    /// Bytes of a request's target; then 414.
    pub max_target: usize,
    /// Header fields, at most 100; then 431.
    pub max_headers: usize,
    /// Bytes hyper may hold of one request, and of one answer on top of one chunk; 8 KiB at least.
    pub buffer: usize,
    /// Connections per core; further ones wait in the listener's queue.
    pub max_connections: u32,
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
            drain: Duration::from_secs(30),
            max_head: 16 * 1024,
            max_target: 8 * 1024,
            max_headers: 100,
            buffer: 16 * 1024,
            max_connections: 64 * 1024,
            stack: 256 * 1024 * 1024,
        }
    }
}
