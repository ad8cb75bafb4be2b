//! The bytes that all long work may have at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes for all long work at once, unless configured.
pub const MEMORY: u64 = 512 << 20;

static CAPACITY: AtomicU64 = AtomicU64::new(MEMORY);
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Sets how many bytes there are.
pub fn set_capacity(bytes: u64) {
    CAPACITY.store(bytes, Ordering::Relaxed);
}

/// The bytes that there are.
pub fn capacity() -> u64 {
    CAPACITY.load(Ordering::Relaxed)
}

/// The bytes that are taken.
pub fn taken() -> u64 {
    TAKEN.load(Ordering::Relaxed)
}

/// Takes this many bytes, if they are left.
pub fn take(bytes: u64) -> bool {
    let fits = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= capacity());
    TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
}

/// Gives them back.
pub fn give(bytes: u64) {
    TAKEN.fetch_sub(bytes, Ordering::Relaxed);
}
