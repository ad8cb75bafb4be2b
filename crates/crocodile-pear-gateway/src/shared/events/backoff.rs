//! How long to wait before the next attempt to connect.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// After the first failure: a server that closed one connection mostly takes the next.
const FIRST: Duration = Duration::from_millis(50);

/// At most: while it is away nothing with tags is fresh.
const MOST: Duration = Duration::from_secs(5);

/// Doubles from one attempt to the next.
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Backoff(FIRST)
    }
}

impl Backoff {
    /// The next time, by chance between its half and the whole: of many gateways not all come at once.
    pub fn next(&mut self) -> Duration {
        let whole = self.0;
        self.0 = (whole * 2).min(MOST);
        let chance = RandomState::new().build_hasher().finish() % 1024;
        whole / 2 + whole.mul_f64(chance as f64 / 2048.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::backoff::*;

    #[test]
    fn it_doubles_up_to_its_bound_and_varies() {
        let mut backoff = Backoff::default();
        for whole in [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000].map(Duration::from_millis) {
            let time = backoff.next();
            assert!(time >= whole / 2 && time <= whole, "{time:?} of {whole:?}");
        }
        let times: Vec<_> = (0..8).map(|_| backoff.next()).collect();
        assert!(times.iter().any(|time| *time != times[0]));
    }
}
