//! How long things took, in buckets: four to each doubling, so that a quantile is right to a tenth or so.

use std::time::Duration;

use crocodile_pear::unstable::telemetry::histogram;

/// Doublings from 32 us to 67 s.
const DOUBLINGS: usize = 21;
const PARTS: usize = 4;
/// The power of two of microseconds at which the first bucket ends.
const FIRST: u32 = 5;
const BUCKETS: usize = DOUBLINGS * PARTS + 2;

/// A histogram of times.
#[derive(Clone)]
pub struct Latency(Box<[u32; BUCKETS]>);

impl Default for Latency {
    fn default() -> Self {
        Latency(Box::new([0; BUCKETS]))
    }
}

impl Latency {
    /// The memory that one takes.
    pub const WEIGHT: usize = BUCKETS * size_of::<u32>();

    /// Counts one.
    pub fn count(&mut self, time: Duration) {
        self.0[bucket(time)] += 1;
    }

    /// Adds another.
    pub fn add(&mut self, other: &Latency) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(own, other)| *own = own.saturating_add(*other));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The time within which this share of them were done, in seconds; nothing without any.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let buckets = self.0.iter().enumerate().map(|(index, count)| {
            let (from, to) = bounds(index);
            (u64::from(*count), from / 1e6, to / 1e6)
        });
        histogram::quantile(buckets, share)
    }
}

fn bucket(time: Duration) -> usize {
    let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let Some(power) = microseconds.checked_ilog2().filter(|power| *power >= FIRST) else { return 0 };
    let part = (microseconds >> (power - 2)) as usize & (PARTS - 1);
    (1 + (power - FIRST) as usize * PARTS + part).min(BUCKETS - 1)
}

/// Where a bucket begins and ends, in microseconds.
fn bounds(index: usize) -> (f64, f64) {
    let at = |index: usize| match index {
        0 => 0.0,
        _ => {
            let (doubling, part) = ((index - 1) / PARTS, (index - 1) % PARTS);
            f64::from(1u32 << FIRST) * 2f64.powi(doubling as i32) * (1.0 + part as f64 / PARTS as f64)
        }
    };
    (at(index), at(index + 1))
}

#[cfg(test)]
mod tests {
    use super::super::latency::*;

    #[test]
    fn a_time_lies_between_the_bounds_of_its_bucket() {
        for microseconds in (0..200_000_u64).step_by(7).chain([1 << 25, 1 << 26]) {
            let (from, to) = bounds(bucket(Duration::from_micros(microseconds)));
            assert!(from <= microseconds as f64 && (microseconds as f64) < to, "{microseconds}: {from} to {to}");
        }
        assert_eq!(bucket(Duration::from_secs(9_999)), BUCKETS - 1);
    }

    #[test]
    fn a_quantile_is_right_to_an_eighth() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile(0.5), None);
        (1..=10_000).for_each(|milliseconds| latency.count(Duration::from_micros(milliseconds * 100)));
        for share in [0.5, 0.95, 0.99] {
            let told = latency.quantile(share).expect("some");
            assert!((told / share - 1.0).abs() < 0.125, "{share}: {told}");
        }
    }
}
