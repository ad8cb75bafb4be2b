//! The bytes that all long work may have at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes for all long work at once, unless configured.
pub const MEMORY: u64 = 512 << 20;

static CAPACITY: AtomicU64 = AtomicU64::new(MEMORY);
#[cfg(not(test))]
fn account<T>(act: impl FnOnce(&AtomicU64) -> T) -> T {
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    act(&TAKEN)
}

/// Each test has an account of its own, so that several tests may run at the same time.
#[cfg(test)]
fn account<T>(act: impl FnOnce(&AtomicU64) -> T) -> T {
    thread_local!(static TAKEN: AtomicU64 = const { AtomicU64::new(0) });
    TAKEN.with(act)
}

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
    account(|taken| taken.load(Ordering::Relaxed))
}

/// Takes this many bytes, if they are left.
pub fn take(bytes: u64) -> bool {
    let fits = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= capacity());
    account(|taken| taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok())
}

/// Gives them back.
pub fn give(bytes: u64) {
    account(|taken| taken.fetch_sub(bytes, Ordering::Relaxed));
}
