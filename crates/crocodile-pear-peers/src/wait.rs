//! Waiting for what nobody tells, such as another process, and pauses that are a part of a scene.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::PATIENCE;

/// So often it is looked.
const OFTEN: Duration = Duration::from_millis(2);

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    found(|| holds().then_some(()), || what.to_owned());
}

/// Waits until something is found. `missing` says what it is, if it never is.
pub fn found<T>(mut look: impl FnMut() -> Option<T>, missing: impl Fn() -> String) -> T {
    let found = within(PATIENCE, &mut look);
    found.unwrap_or_else(|| panic!("not after {PATIENCE:?}: {}", missing()))
}

/// The finding of `look` within this time.
pub fn within<T>(time: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + time;
    loop {
        match look() {
            None if Instant::now() < end => sleep(OFTEN),
            found => return found,
        }
    }
}

/// A pause that belongs to the scene: a peer that is slow, a load that has a rate. It waits for nothing.
pub fn pause(time: Duration) {
    sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_at_last_is_found() {
        let mut looks = 0;
        let found = within(PATIENCE, || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, Some(3));
        assert_eq!(within(Duration::ZERO, || None::<()>), None);
    }
}
