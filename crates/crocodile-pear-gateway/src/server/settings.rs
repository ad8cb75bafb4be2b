//! Limits and timeouts for clients.

use std::num::NonZeroU32;
use std::time::Duration;

use super::pace::MinRate;
use crate::net::cidr::Ipv6Prefix;

/// Limits and timeouts for clients.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From accept, or from the first byte of a later head, until the head is complete; then 408.
    pub header: Duration,
    /// How long an idle connection is kept between requests.
    pub keep_alive: Duration,
    /// How long a client may read nothing while an answer is ready for it; then it is reset.
    pub write: Duration,
    /// How long the handler waits for the next bytes of a request's body; then 408.
    pub body: Duration,
    /// The minimum rate of bodies and answers while the server waits for the client; `None` for no minimum.
    pub min_rate: Option<MinRate>,
    /// Whether clients of HTTP/1.1 get trailers that they do not ask for with `te`.
    pub trailers: bool,
    /// How long requests in flight may continue once the shutdown has begun.
    pub drain: Duration,
    /// The largest head in bytes; then 431.
    pub max_head: usize,
    /// The longest target in bytes; then 414.
    pub max_target: usize,
    /// The most header fields, at most 100; then 431.
    pub max_headers: usize,
    /// Connections per core; further ones wait in the accept queue.
    pub max_connections: u32,
    /// Connections per client address, over all cores; further ones are reset.
    pub per_address: Option<NonZeroU32>,
    /// How many bits of an IPv6 address count as one client.
    pub ipv6_prefix: Ipv6Prefix,
    /// How many file descriptors there are for connections and for their calls; `None` if they may have all.
    pub descriptors: Option<usize>,
    /// So many connections, of which one leaves where another one begins; `None` where further ones wait.
    pub evicts: Option<usize>,
    /// The stack of a core's thread. It is virtual memory, used only as deep as expressions recurse.
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
            trailers: false,
            drain: Duration::from_secs(30),
            max_head: 16 * 1024,
            max_target: 8 * 1024,
            max_headers: 100,
            max_connections: 64 * 1024,
            per_address: None,
            ipv6_prefix: Ipv6Prefix::default(),
            descriptors: None,
            evicts: None,
            stack: 256 * 1024 * 1024,
        }
    }
}
