//! The file descriptors of the process, and the last of them, which calls do not get.
//!
//! A new descriptor has the lowest number that is free: its number says how many are open, without counting.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

use tokio::sync::Notify;

/// Linux: too many open files, in the process and in the system; the same on macOS and the BSDs.
const EXHAUSTED: [i32; 2] = [24, 23];

/// From this number on, descriptors are for operators, files, logs and names alone.
static LAST: AtomicI32 = AtomicI32::new(i32::MAX);

/// From this number on, they are scarce.
static FEW: AtomicI32 = AtomicI32::new(i32::MAX);

static SCARCE: AtomicBool = AtomicBool::new(false);

static WANTED: Notify = Notify::const_new();

/// Says how many descriptors the process may have; answers how many there are for clients and calls together. Until then, all
/// are given.
pub fn set_limit(limit: u64) -> usize {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let kept = kept(limit);
    LAST.store(limit - kept, Relaxed);
    FEW.store(limit - kept - kept / 2, Relaxed);
    usize::try_from(limit - kept).unwrap_or_default()
}

/// How many are kept from calls; half as many again from clients.
fn kept(limit: i32) -> i32 {
    (limit / 8).clamp(4, 64)
}

/// Notes a descriptor that was just opened: whether they are scarce now.
pub fn note(new: &impl AsRawFd) {
    let scarce = new.as_raw_fd() >= FEW.load(Relaxed);
    if SCARCE.load(Relaxed) != scarce {
        SCARCE.store(scarce, Relaxed);
    }
}

/// Whether few are left: what rests is closed and not kept.
pub fn are_scarce() -> bool {
    SCARCE.load(Relaxed)
}

/// Takes a descriptor that was just opened for a call.
///
/// # Errors
/// Like those of the system where there are none, if it is one of the last.
pub fn claim<T: AsRawFd>(new: T) -> io::Result<T> {
    note(&new);
    if new.as_raw_fd() < LAST.load(Relaxed) { Ok(new) } else { Err(io::Error::from_raw_os_error(EXHAUSTED[0])) }
}

/// Whether an error says that there is none.
pub fn is_exhausted(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| EXHAUSTED.contains(&code))
}

/// Says that a call needs one.
pub fn want() {
    WANTED.notify_one();
}

/// Waits until a call needs one.
pub async fn wanted() {
    WANTED.notified().await;
}

#[cfg(test)]
mod tests {
    use super::super::descriptors::*;

    struct Number(i32);

    impl AsRawFd for Number {
        fn as_raw_fd(&self) -> i32 {
            self.0
        }
    }

    /// The one test that sets the limit: it is of the process.
    #[test]
    fn the_last_descriptors_are_not_for_calls() {
        assert!(claim(Number(1_000_000)).is_ok() && !are_scarce());
        assert_eq!(set_limit(512), 448);
        assert!(claim(Number(447)).is_ok() && are_scarce() && claim(Number(448)).is_err());
        set_limit(1_000_000_000_000);
        assert!(claim(Number(i32::MAX - 65)).is_ok() && are_scarce());
        assert!(claim(Number(i32::MAX - 1)).is_err_and(|error| is_exhausted(&error)));
        note(&Number(7));
        assert!(!are_scarce());
        assert_eq!((kept(512), kept(65_536), kept(32)), (64, 64, 4));
    }
}
