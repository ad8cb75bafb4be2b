//! What the access log has lost, as a metric.

use std::fmt::Write;

/// Writes it.
pub fn render(dropped: u64, out: &mut String) {
    const NAME: &str = "crocodile_pear_access_log_dropped_total";
    const HELP: &str =
        "Lines of the access log that were not written: too many at once, or their destination took none.";
    let _ = writeln!(out, "# HELP {NAME} {HELP}\n# TYPE {NAME} counter\n{NAME} {dropped}");
}
