//! Sent and lost spans, as metrics.

use super::exposition::Exposition;
use crate::telemetry::traces::SpanCounters;

/// Writes them.
pub fn render(counters: &SpanCounters, out: &mut Exposition) {
    const SENT: &str = "Spans that the collector of `traces` has accepted.";
    const DROPPED: &str = "Spans that were not sent: too many at once, or the collector was unavailable for too long.";
    out.counter("crocodile_pear_trace_spans_sent_total", SENT).only(counters.sent());
    out.counter("crocodile_pear_trace_spans_dropped_total", DROPPED).only(counters.dropped());
}
