//! Exponential backoff: waits that grow.

use std::time::Duration;

/// `first`, doubled so many times, at most `most`.
pub fn grown(first: Duration, times: u32, most: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(most)
}

#[cfg(test)]
mod tests {
    use super::super::backoff::*;

    #[test]
    fn the_wait_grows_to_its_bound() {
        let (first, most) = (Duration::from_millis(25), Duration::from_secs(1));
        assert_eq!([0, 1, 5, 6, 60].map(|times| grown(first, times, most).as_millis()), [25, 50, 800, 1_000, 1_000]);
    }
}
