//! What the access log has lost, as a metric.

use super::exposition::Exposition;

/// Writes it.
pub fn render(dropped: u64, out: &mut Exposition) {
    const NAME: &str = "crocodile_pear_access_log_dropped_total";
    const HELP: &str =
        "Access log lines that were not written: too many at once, or the destination did not accept them.";
    out.counter(NAME, HELP).only(dropped);
}
