//! Lost log lines, as metrics.

use super::exposition::Exposition;

/// Writes the metrics. `access` are lines of the access log, `log` those of the log itself.
pub fn render(access: u64, log: u64, out: &mut Exposition) {
    const ACCESS: &str =
        "Access log lines that were not written: too many at once, or the destination did not accept them.";
    const LOG: &str = "Log lines that were not written: too many at once, or nobody read the standard error stream.";
    out.counter("crocodile_pear_access_log_dropped_total", ACCESS).only(access);
    out.counter("crocodile_pear_log_dropped_total", LOG).only(log);
}
