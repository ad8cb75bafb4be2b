//! What the access log has lost, as a metric.

use super::exposition::Exposition;

/// Writes it.
pub fn render(dropped: u64, out: &mut Exposition) {
    const NAME: &str = "crocodile_pear_access_log_dropped_total";
    const HELP: &str =
        "Lines of the access log that were not written: too many at once, or their destination took none.";
    out.counter(NAME, HELP).only(dropped);
}
