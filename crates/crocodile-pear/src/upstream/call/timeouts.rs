//! How long a call may wait for its upstream, phase by phase.

use std::time::Duration;

use crate::config::problem::Problems;
use crate::config::spec::{Located, Timeout, only};
use crate::spec;

spec! {
    /// Timeouts for the phases of a call. Time in which the client does not read its answer does not count. For
    /// `call`, time in which the client does not send its body counts, except 2 ms for each byte that it sends. Short
    /// form: one time for the whole call.
    pub struct TimeoutSpec {
        /// To get a connection. If a new one takes more than 100 ms, the call also takes one that becomes free. Default: 3s.
        pub connect: Option<Timeout>,
        /// From the request to the head of the answer. Default: 30s.
        pub first_byte: Option<Timeout>,
        /// Between two parts of the body. Default: 30s. It does not apply to server-sent events, nor to an endpoint
        /// with `stream: on`.
        pub idle: Option<Timeout>,
        /// For the whole call. Default: 5m.
        pub call: Option<Timeout>,
    }
    short(whole)
}

fn whole(call: Located<String>, problems: &mut Problems) -> Option<TimeoutSpec> {
    only([("call", call)], problems)
}

/// How long an upstream may let a call wait. Only time spent waiting for the upstream counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until there is a connection, and until fewer than `in_flight` calls are in flight.
    pub connect: Timeout,
    /// From the last byte sent to the head of the answer.
    pub first_byte: Timeout,
    /// Between two reads of a body.
    pub idle: Timeout,
    /// The whole call.
    pub call: Timeout,
}

impl Default for Timeouts {
    fn default() -> Self {
        let after = |seconds| Timeout::After(Duration::from_secs(seconds));
        Timeouts { connect: after(3), first_byte: after(30), idle: after(30), call: after(300) }
    }
}

impl TimeoutSpec {
    /// These timeouts; `others` where none is written.
    pub fn over(&self, others: &Timeouts) -> Timeouts {
        Timeouts {
            connect: self.connect.unwrap_or(others.connect),
            first_byte: self.first_byte.unwrap_or(others.first_byte),
            idle: self.idle.unwrap_or(others.idle),
            call: self.call.unwrap_or(others.call),
        }
    }
}
