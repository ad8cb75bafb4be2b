//! The operating system's figures of the process; none without `/proc`.

use std::fs;
use std::sync::OnceLock;

use super::exposition::Exposition;

/// The unit of the times in `/proc` that programs see: a hundredth of a second on every Linux.
const TICKS: f64 = 100.0;

/// Writes the metrics of the process.
pub fn render(out: &mut Exposition) {
    let Some(stat) = fs::read_to_string("/proc/self/stat").ok() else { return };
    // The name may have spaces and parentheses.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // The first field here is the third of proc_pid_stat(5).
    let number = |field: usize| fields.get(field - 3).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    out.counter("process_cpu_seconds_total", "User and system CPU time.").only((number(14) + number(15)) / TICKS);
    if let Some(booted) = booted() {
        let started = booted + number(22) / TICKS;
        out.gauge("process_start_time_seconds", "When the process started, in seconds since 1970.").only(started);
    }
    out.gauge("process_threads", "Threads of the process.").only(number(20));
    out.gauge("process_virtual_memory_bytes", "Virtual memory.").only(number(23));
    if let Some(resident) = resident() {
        out.gauge("process_resident_memory_bytes", "Resident memory.").only(resident);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them reads the folder.
        out.gauge("process_open_fds", "Open file descriptors.").only(open.count().saturating_sub(1));
    }
    if let Some(most) = max_fds() {
        out.gauge("process_max_fds", "The most file descriptors that may be open.").only(most);
    }
}

/// When the machine started, in seconds since 1970.
fn booted() -> Option<f64> {
    static BOOTED: OnceLock<Option<f64>> = OnceLock::new();
    *BOOTED.get_or_init(|| line("/proc/stat", "btime"))
}

fn resident() -> Option<f64> {
    line("/proc/self/status", "VmRSS:").map(|kib: f64| kib * 1024.0)
}

fn max_fds() -> Option<f64> {
    line("/proc/self/limits", "Max open files")
}

/// The number behind a name at the beginning of a line.
fn line(file: &str, name: &str) -> Option<f64> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}
