//! Times in buckets: each thread counts for itself, a snapshot adds up.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::runtime::thread_id::{self, THREADS};

/// The bounds of the buckets, in nanoseconds; at most [`MOST`].
pub type BucketBounds = &'static [u64];

/// The most bounds.
pub const MOST: usize = 15;

const MS: u64 = 1_000_000;

/// The bounds that OpenTelemetry advises for HTTP: 5 ms to 10 s.
pub const HTTP: BucketBounds = &[
    5 * MS,
    10 * MS,
    25 * MS,
    50 * MS,
    75 * MS,
    100 * MS,
    250 * MS,
    500 * MS,
    750 * MS,
    1_000 * MS,
    2_500 * MS,
    5_000 * MS,
    7_500 * MS,
    10_000 * MS,
];

/// The bounds that OpenTelemetry advises for databases: 1 ms to 10 s.
pub const DATABASE: BucketBounds =
    &[MS, 5 * MS, 10 * MS, 50 * MS, 100 * MS, 500 * MS, 1_000 * MS, 5_000 * MS, 10_000 * MS];

/// Which bucket a time falls into; the one behind the last bound has no end.
pub fn bucket(bounds: BucketBounds, time: Duration) -> usize {
    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    bounds.iter().position(|bound| time <= *bound).unwrap_or(bounds.len())
}

/// The value that this share of what was counted does not exceed, from buckets: how many, from where, to where. Within a bucket all
/// values are taken to be equally likely. Nothing, where nothing was counted.
pub fn quantile(buckets: impl Iterator<Item = (u64, f64, f64)> + Clone, share: f64) -> Option<f64> {
    let all: u64 = buckets.clone().map(|(count, ..)| count).sum();
    let wanted = share * all as f64;
    let mut before = 0.0;
    for (count, from, to) in buckets.filter(|(count, ..)| *count > 0) {
        let count = count as f64;
        if before + count >= wanted {
            return Some(from + (to - from) * ((wanted - before) / count).clamp(0.0, 1.0));
        }
        before += count;
    }
    None
}

/// The same in seconds, from what was counted between these bounds, and behind the last one, which is all that is known of that.
pub fn time_quantile(bounds: BucketBounds, counts: &[u64], share: f64) -> Option<f64> {
    let end = |at: usize| bounds.get(at).or(bounds.last()).map_or(0.0, |bound| *bound as f64 / 1e9);
    let begin = |at: usize| at.checked_sub(1).map_or(0.0, end);
    quantile(counts.iter().enumerate().map(|(at, count)| (*count, begin(at), end(at))), share)
}

/// How many times fell into which bucket.
pub struct Histogram {
    bounds: BucketBounds,
    threads: Box<[ThreadHistogram]>,
}

/// The counts of a thread, on cache lines that no other thread writes.
#[derive(Default)]
#[repr(align(64))]
struct ThreadHistogram {
    /// By bucket; behind the last bound is one more.
    buckets: [AtomicU64; MOST + 1],
    nanoseconds: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The bounds of the buckets, in nanoseconds.
    pub bounds: BucketBounds,
    /// How many times were at most the bound of the same index; the last counts all.
    pub buckets: Vec<u64>,
    /// All times together.
    pub sum: Duration,
}

impl Histogram {
    pub fn new(bounds: BucketBounds) -> Self {
        debug_assert!(bounds.len() <= MOST && bounds.is_sorted());
        Histogram { bounds, threads: (0..threads()).map(|_| ThreadHistogram::default()).collect() }
    }

    pub fn count(&self, time: Duration) {
        let at = bucket(self.bounds, time);
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let thread = &self.threads[thread_id::slot(self.threads.len())];
        thread.buckets[at.min(MOST)].fetch_add(1, Ordering::Relaxed);
        thread.nanoseconds.fetch_add(time, Ordering::Relaxed);
    }

    /// Adds up. Counting goes on meanwhile: each sum is right, but they are not all of the same moment.
    pub fn snapshot(&self) -> Snapshot {
        let mut all = 0;
        let mut below = |at: usize| {
            all += self.threads.iter().map(|thread| thread.buckets[at].load(Ordering::Relaxed)).sum::<u64>();
            all
        };
        let buckets = (0..=self.bounds.len()).map(&mut below).collect();
        let sum = self.threads.iter().map(|thread| thread.nanoseconds.load(Ordering::Relaxed)).sum();
        Snapshot { bounds: self.bounds, buckets, sum: Duration::from_nanos(sum) }
    }
}

impl Snapshot {
    /// How many times fell into each bucket alone.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        let before = std::iter::once(0).chain(self.buckets.iter().copied());
        self.buckets.iter().zip(before).map(|(all, before)| all.saturating_sub(before))
    }

    /// How many times were counted.
    pub fn number(&self) -> u64 {
        self.buckets.last().copied().unwrap_or_default()
    }
}

/// So many histograms as there are threads that count at the same time.
fn threads() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from).min(THREADS))
}

/// The most kinds of which times are counted apart.
const KINDS: usize = 32;

/// Histograms by kind: a status, a method. Kinds beyond the 32nd are counted together.
pub struct Histograms<K> {
    bounds: BucketBounds,
    known: Box<[OnceLock<(K, Histogram)>]>,
    others: OnceLock<Histogram>,
}

impl<K: Copy + PartialEq> Histograms<K> {
    /// Histograms with these bounds; there is none before something is counted.
    pub fn new(bounds: BucketBounds) -> Self {
        Histograms { bounds, known: (0..KINDS).map(|_| OnceLock::new()).collect(), others: OnceLock::new() }
    }

    pub fn count(&self, kind: K, time: Duration) {
        let make = || (kind, Histogram::new(self.bounds));
        let own = self.known.iter().map(|place| place.get_or_init(make)).find(|(known, _)| *known == kind);
        own.map_or_else(|| self.others.get_or_init(|| Histogram::new(self.bounds)), |(_, own)| own).count(time);
    }

    /// The counts by kind; `None` for the kinds that are counted together.
    pub fn snapshots(&self) -> impl Iterator<Item = (Option<K>, Snapshot)> {
        let known = self.known.iter().map_while(OnceLock::get).map(|(kind, own)| (Some(*kind), own.snapshot()));
        known.chain(self.others.get().map(|others| (None, others.snapshot())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::histogram::*;

    #[test]
    fn what_threads_count_adds_up() {
        let times = Histograms::new(HTTP);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..1_000).for_each(|at| times.count(at % 2, Duration::from_millis(at % 4 * 5))));
            }
        });
        let all: Vec<_> = times.snapshots().collect();
        assert_eq!(all.iter().map(|(_, own)| own.number()).collect::<Vec<_>>(), [1_500, 1_500]);
        let of = |kind| &all.iter().find(|(known, _)| *known == Some(kind)).expect("it was counted").1;
        // 0 and 10 ms, 5 and 15 ms.
        assert_eq!(of(0).buckets[..3], [750, 1_500, 1_500]);
        assert_eq!(of(1).buckets[..3], [750, 750, 1_500]);
        assert_eq!(of(0).sum, Duration::from_millis(750 * 10));
    }

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let quantile = |counts: &[u64], share| time_quantile(&[5_000_000, 10_000_000], counts, share);
        assert_eq!(quantile(&[0, 0, 0], 0.5), None);
        assert_eq!((quantile(&[0, 4, 0], 0.5), quantile(&[0, 4, 0], 1.0)), (Some(0.0075), Some(0.01)));
        assert_eq!((quantile(&[1, 1, 2], 0.25), quantile(&[1, 1, 2], 0.9)), (Some(0.005), Some(0.01)));
    }

    #[test]
    fn kinds_beyond_the_bound_are_counted_together() {
        let times = Histograms::new(HTTP);
        (0..40).for_each(|kind| times.count(kind, Duration::from_secs(60)));
        let all: Vec<_> = times.snapshots().collect();
        assert_eq!(all.len(), 33);
        let (kind, others) = all.last().expect("there are others");
        assert_eq!((*kind, others.number(), others.buckets[13]), (None, 8, 0));
    }
}
