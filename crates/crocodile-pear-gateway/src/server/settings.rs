//! The bounds within which clients are served.

use std::num::NonZeroU32;
use std::time::Duration;

use super::pace::MinRate;

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
