//! Counts of consumers since the gateway began, where `analytics.by` names them.

use std::time::Duration;

use super::exposition::{Exposition, label};
use crate::telemetry::analytics::Counts;

/// Writes it.
pub fn render(consumers: &[(String, Counts)], out: &mut Exposition) {
    let consumers: Vec<_> = consumers.iter().map(|(name, counts)| (label(name), counts)).collect();
    const REQUESTS: &str = "Requests of the consumers that have the most of them, and of `other` consumers together.";
    let mut family = out.counter("crocodile_pear_consumer_requests_total", REQUESTS);
    for (name, counts) in &consumers {
        let Counts { requests, errors, refused, .. } = **counts;
        let results = [("ok", requests.saturating_sub(errors + refused)), ("refused", refused), ("failed", errors)];
        for (result, count) in results {
            family.add(format_args!("consumer=\"{name}\",result=\"{result}\""), count);
        }
    }
    const DURATION: &str = "Duration of consumers' requests.";
    let mut family = out.summary("crocodile_pear_consumer_request_duration_seconds", DURATION);
    for (name, counts) in &consumers {
        let seconds = Duration::from_micros(counts.duration).as_secs_f64();
        family.sum(format_args!("consumer=\"{name}\""), counts.requests, seconds);
    }
    const SENT: &str = "Size of response bodies to consumers in bytes.";
    let mut family = out.counter("crocodile_pear_consumer_response_body_bytes_total", SENT);
    for (name, counts) in &consumers {
        family.add(format_args!("consumer=\"{name}\""), counts.sent);
    }
}
