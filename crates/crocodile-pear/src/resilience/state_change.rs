//! A change of a server's state, and its log line.

/// A change of a server's state, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Opened,
    Closed,
    Ejected,
    Readmitted,
    Down,
    Up,
}

impl Change {
    /// Writes it to the log.
    pub(crate) fn log(self, upstream: &str, server: &str) {
        let good = |text| tracing::info!(target: "crocodile_pear::upstream", upstream, server, "{text}");
        let bad = |text| tracing::warn!(target: "crocodile_pear::upstream", upstream, server, "{text}");
        match self {
            Change::Opened => bad("circuit breaker opened"),
            Change::Closed => good("circuit breaker closed"),
            Change::Ejected => bad("server ejected: calls to it fail"),
            Change::Readmitted => good("server readmitted after ejection"),
            Change::Down => bad("server down: health checks fail"),
            Change::Up => good("server up: health checks succeed"),
        }
    }
}
