//! Memory by owner, as far as it is counted where it is taken; and long work, which waits for memory and threads.

use crocodile_pear::unstable::offload;

use super::exposition::Exposition;

/// Writes it.
pub fn render(owners: &[(&'static str, u64)], out: &mut Exposition) {
    const HELP: &str = "Memory in use, by purpose. Buffers of current requests are not counted.";
    let mut family = out.gauge("crocodile_pear_memory_bytes", HELP);
    for (owner, bytes) in owners {
        family.add(format_args!("owner=\"{owner}\""), bytes);
    }
    const WAITING: &str = "Large documents that wait for a helper thread.";
    out.gauge("crocodile_pear_thread_pool_waiting", WAITING).only(offload::waiting());
    const WAITED: &str = "Time that large documents waited for a helper thread.";
    out.histogram("crocodile_pear_thread_pool_wait_duration_seconds", WAITED).all(&offload::waits());
}
