//! How many connections a server has, and for how long.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::spec;

spec! {
    /// Limits of the connection pool. Each number is per server and core.
    pub struct ConnectionsSpec {
        /// The maximum number of open connections. A further call waits up to `timeout.connect`, then it fails with
        /// 503.
        pub open: Option<NonZeroUsize>,
        /// The maximum number of calls that wait for a connection. A further call fails with 503 at once.
        pub waiting: usize = 1024,
        /// The maximum number of idle connections.
        pub idle: usize = 1024,
        /// The maximum age of a connection. Calls in flight still complete on it.
        pub lifetime: Duration = Duration::from_secs(3600),
    }
}

impl ConnectionsSpec {
    /// The limits, with the time that an idle connection is kept.
    pub(crate) fn bounds(&self, keep: Duration) -> Connections {
        let open = self.open.map(NonZeroUsize::get);
        Connections { open, waiting: self.waiting, idle: self.idle, lifetime: self.lifetime, keep }
    }
}

/// Limits of the pool; each number is per server and core.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Connections {
    pub open: Option<usize>,
    pub idle: usize,
    /// The most calls that wait for a connection.
    pub waiting: usize,
    /// How long an idle connection is kept.
    pub keep: Duration,
    /// How long a connection is used in all; calls in flight are finished.
    pub lifetime: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Connections {
            open: None,
            // Enough to keep every connection of a fan-out of ten for a hundred clients at once.
            idle: 1024,
            waiting: 1024,
            // nginx as a server closes after 75 s: the side that closes first loses no request.
            keep: Duration::from_secs(60),
            // Long enough to cost nothing, short enough that connections follow an upstream that has moved.
            lifetime: Duration::from_secs(3600),
        }
    }
}
