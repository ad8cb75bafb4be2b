//! Connections to the probed server: their settings, and the time that opening them took.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::HeaderMap;

use crate::target::Target;
use crate::trust::ProbeTls;

/// All that a connection needs to know.
pub struct Dial {
    pub target: Target,
    pub address: SocketAddr,
    /// The trusted certificates; `None` for http.
    pub trust: Option<ProbeTls>,
    /// The header fields of each request.
    pub headers: HeaderMap,
    /// How long a step may take.
    pub patience: Duration,
    /// When everything ends.
    pub deadline: Instant,
}

/// The times of opening a connection.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    pub connect: Duration,
    pub tls: Option<Duration>,
    /// Whether a session of TLS was taken up again.
    pub resumed: bool,
}

impl Dial {
    /// How long the next step may take.
    pub fn limit(&self) -> Duration {
        self.patience.min(self.deadline.saturating_duration_since(Instant::now()))
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}
