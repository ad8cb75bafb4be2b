//! Metrics of calls that went on without their client.

use crocodile_pear::unstable::runtime::detached;

use super::exposition::Exposition;

/// Writes it.
pub fn render(out: &mut Exposition) {
    let help = "Detached calls and pipelines that have ended, by result; `refused`: too many at once, `lost`: the process ended.";
    let mut family = out.counter("crocodile_pear_detached_total", help);
    for (result, count) in detached::counts() {
        family.add(format_args!("result=\"{result}\""), count);
    }
    out.gauge("crocodile_pear_detached_running", "Detached calls and pipelines that are running.")
        .only(detached::running());
}
