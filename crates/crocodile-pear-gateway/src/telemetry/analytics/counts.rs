//! Counts of requests: how many, how they went, what they cost, and what they spared.

use crocodile_pear::unstable::telemetry::histogram::{self, BucketBounds};
use crocodile_pear::unstable::telemetry::request_record::Totals;

use crate::telemetry::request_end::RequestEnd;

/// The upper bounds of the counted durations: those of the metrics. What takes longer is counted behind the last.
pub const BOUNDS: BucketBounds = histogram::HTTP;

/// A bound as it is written, in milliseconds.
pub fn milliseconds(bound: u64) -> u64 {
    bound / 1_000_000
}

/// Requests of one kind, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub requests: u64,
    /// The number of requests that failed: a status of 5xx, or an answer that was broken off.
    pub errors: u64,
    /// The number of requests that were refused: a status of 4xx.
    pub refused: u64,
    /// All durations, in microseconds.
    pub duration: u64,
    /// Bytes that were sent to clients.
    pub sent: u64,
    /// Calls that were made to upstreams.
    pub upstream_calls: u64,
    /// Bytes that upstreams sent.
    pub received: u64,
    /// Requests that clients did not have to send, since one answer stood for several.
    pub saved_requests: u64,
    /// Bytes that clients did not have to receive.
    pub saved_bytes: u64,
    /// How many took how long, by [`BOUNDS`]; the last one is for what took longer.
    pub durations: [u64; BOUNDS.len() + 1],
}

impl Counts {
    /// Counts a request that was served with these calls. Its client would have asked for each of their answers itself.
    pub fn count(&mut self, ended: &RequestEnd<'_>, calls: &Totals) {
        let (failed, sent) = (ended.failed(), ended.end.bytes);
        self.requests += 1;
        self.errors += u64::from(failed);
        self.refused += u64::from((400..500).contains(&ended.code()) && !failed);
        self.duration += u64::try_from(ended.total.as_micros()).unwrap_or(u64::MAX);
        self.sent += sent;
        self.upstream_calls += calls.calls;
        self.received += calls.bytes;
        self.saved_requests += calls.answers.saturating_sub(1);
        self.saved_bytes += calls.bytes.saturating_sub(sent);
        self.durations[histogram::bucket(BOUNDS, ended.total)] += 1;
    }

    /// Adds others.
    pub fn add(&mut self, other: &Counts) {
        for (own, more) in self.numbers_mut().into_iter().zip(other.numbers()) {
            *own += more;
        }
        for (own, more) in self.durations.iter_mut().zip(other.durations) {
            *own += more;
        }
    }

    /// The numbers before the durations, in the order of [`COLUMNS`].
    pub fn numbers(&self) -> [u64; COLUMNS.len()] {
        let Counts { requests, errors, refused, duration, sent, .. } = *self;
        let Counts { upstream_calls, received, saved_requests, saved_bytes, .. } = *self;
        [requests, errors, refused, duration, sent, upstream_calls, received, saved_requests, saved_bytes]
    }

    /// The same, to be changed.
    pub fn numbers_mut(&mut self) -> [&mut u64; COLUMNS.len()] {
        let Counts { requests, errors, refused, duration, sent, .. } = self;
        let Counts { upstream_calls, received, saved_requests, saved_bytes, .. } = self;
        [requests, errors, refused, duration, sent, upstream_calls, received, saved_requests, saved_bytes]
    }

    /// The duration that so many of a hundred requests did not exceed, in milliseconds; 10 s stands for all that is longer. Nothing where
    /// there are no requests.
    pub fn percentile(&self, percent: u8) -> Option<f64> {
        let seconds = histogram::time_quantile(BOUNDS, &self.durations, f64::from(percent) / 100.0)?;
        Some((seconds * 1e4).round() / 10.0)
    }
}

/// The names of the numbers in files and reports.
pub const COLUMNS: [&str; 9] = [
    "requests",
    "errors",
    "refused",
    "duration_us",
    "sent_bytes",
    "upstream_calls",
    "received_bytes",
    "saved_requests",
    "saved_bytes",
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::counts::*;
    use crate::telemetry::request_end::ended;

    #[test]
    fn a_percentile_lies_within_its_bucket() {
        let mut counts = Counts::default();
        assert_eq!(counts.percentile(50), None);
        for milliseconds in [1, 5, 6, 20_000] {
            let duration = Duration::from_millis(milliseconds);
            ended(200, duration, 0, |ended| counts.count(ended, &Totals::default()));
        }
        let told = [25, 50, 75, 99].map(|percent| counts.percentile(percent));
        assert_eq!(told, [Some(2.5), Some(5.0), Some(10.0), Some(10_000.0)]);
    }

    #[test]
    fn retries_cost_calls_and_save_nothing() {
        let mut counts = Counts::default();
        let calls = Totals { answers: 1, calls: 3, bytes: 100 };
        ended(200, Duration::ZERO, 100, |ended| counts.count(ended, &calls));
        assert_eq!((counts.upstream_calls, counts.saved_requests, counts.saved_bytes), (3, 0, 0));
    }
}
