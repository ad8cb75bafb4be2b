//! How much of its limit each key has used. This is the generic cell rate algorithm (GCRA, ITU-T I.371), which stores
//! one time per key.
//!
//! The time of a key is when its quota will be full again. A request adds one interval of the rate to it. The request
//! is refused if the time would then be further ahead than the burst allows. A time in the past need not be stored, so
//! idle keys are dropped.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Many, so that cores rarely need the same one. Each is locked for less than a microsecond.
const SHARDS: usize = 1024;

/// Keys per shard, which makes 1.8 million in all. They fit into a map of 4,096 slots of 17 bytes that never has to
/// grow: at most 72 MB.
const KEYS: usize = 1792;

/// The rate and the burst, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The time between two requests at the rate.
    pub interval: u64,
    /// How far ahead of now a key's time may be.
    pub room: u64,
}

impl Pace {
    /// `burst` requests at once, then one more after each interval; `None` if that exceeds the range of the clock.
    pub fn new(interval: u64, burst: u64) -> Option<Self> {
        let room = interval.checked_mul(burst)?;
        (interval > 0 && room > 0 && room < u64::MAX / 4).then_some(Pace { interval, room })
    }

    /// The part of this limit for one of `replicas` gateways.
    pub fn share(self, replicas: u64) -> Self {
        let interval = self.interval.saturating_mul(replicas);
        let burst = (self.room / self.interval).div_ceil(replicas);
        Pace { interval, room: interval.saturating_mul(burst) }
    }

    /// The rest for a key whose time is `ahead` of now.
    pub fn left(&self, ahead: u64) -> Left {
        let remaining = self.room.saturating_sub(ahead) / self.interval;
        let next = ahead.saturating_add(self.interval).saturating_sub(self.room);
        Left { remaining, next, whole: ahead }
    }

    /// The units in such a time, to the nearest: while an answer was made, a little came back.
    pub fn units(&self, time: u64) -> u64 {
        time.saturating_add(self.interval / 2) / self.interval
    }

    fn time(&self, units: u64) -> u64 {
        self.interval.saturating_mul(units).min(FURTHEST)
    }
}

/// How far ahead of now a key's time can be. A debt is not larger.
const FURTHEST: u64 = u64::MAX / 4;

/// The rest of a key's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// How many requests it may make now.
    pub remaining: u64,
    /// Nanoseconds until it may make the next one.
    pub next: u64,
    /// Nanoseconds until its quota is full again.
    pub whole: u64,
}

/// The times of keys, by a hash that clients cannot predict.
pub struct Table {
    key: RandomState,
    began: Instant,
    shards: Box<[KeyShard]>,
}

/// Has a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct KeyShard(Mutex<KeyTimes>);

type KeyTimes = HashMap<u64, u64, BuildHasherDefault<Hashed>>;

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Default for Table {
    fn default() -> Self {
        Table::with(SHARDS)
    }
}

impl Table {
    fn with(shards: usize) -> Self {
        let shards = (0..shards).map(|_| KeyShard::default()).collect();
        Table { key: RandomState::new(), began: Instant::now(), shards }
    }

    pub fn hash(&self, key: impl std::hash::Hash) -> u64 {
        self.key.hash_one(key)
    }

    /// Now, in nanoseconds.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes so many units for this key. `Err` if that exceeds the limit; nothing is taken then. To take nothing needs room
    /// for one unit.
    pub fn take(&self, key: u64, now: u64, pace: Pace, units: u64) -> Result<Left, Left> {
        let mut times = self.shard(key);
        let ahead = times.get(&key).map_or(0, |time| time.saturating_sub(now));
        if ahead + pace.time(units.max(1)) > pace.room {
            return Err(pace.left(ahead));
        }
        if units == 0 {
            return Ok(pace.left(ahead));
        }
        let ahead = ahead + pace.time(units);
        put(&mut times, key, now, ahead);
        Ok(pace.left(ahead))
    }

    /// Takes so many units, also beyond the limit. Gives the number of those beyond.
    pub fn charge(&self, key: u64, now: u64, pace: Pace, units: u64) -> u64 {
        let mut times = self.shard(key);
        let before = times.get(&key).map_or(0, |time| time.saturating_sub(now));
        let after = before.saturating_add(pace.time(units)).min(FURTHEST);
        put(&mut times, key, now, after);
        pace.units(after.saturating_sub(pace.room.max(before)))
    }

    /// Undoes what was taken for a request that another limit refused.
    pub fn give_back(&self, key: u64, pace: Pace, units: u64) {
        if let Some(time) = self.shard(key).get_mut(&key) {
            *time = time.saturating_sub(pace.time(units));
        }
    }

    fn shard(&self, key: u64) -> std::sync::MutexGuard<'_, KeyTimes> {
        // Uses the middle bits: the map itself uses the lowest and highest bits.
        self.shards[(key >> 32) as usize % self.shards.len()].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many keys are stored.
    #[cfg(test)]
    fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().expect("whole").len()).sum()
    }
}

fn put(times: &mut KeyTimes, key: u64, now: u64, ahead: u64) {
    let full = times.len() >= KEYS || times.len() == times.capacity();
    if full && !times.contains_key(&key) {
        make_room(times, now);
    }
    times.insert(key, now.saturating_add(ahead));
}

/// Makes room for one key: drops idle keys, then lets the map grow, and at the limit drops the key that has used least.
fn make_room(times: &mut KeyTimes, now: u64) {
    times.retain(|_, time| *time > now);
    if times.len() >= KEYS
        && let Some(key) = times.iter().min_by_key(|(_, time)| **time).map(|(key, _)| *key)
    {
        times.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::super::table::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_key_has_its_burst_at_once_and_its_rate_from_then_on() {
        let (table, pace) = (Table::default(), Pace::new(SECOND / 10, 3).expect("a pace"));
        let take = |now| table.take(1, now, pace, 1);
        assert_eq!(take(0), Ok(Left { remaining: 2, next: 0, whole: SECOND / 10 }));
        assert_eq!(take(0).map(|left| left.remaining), Ok(1));
        assert_eq!(take(0), Ok(Left { remaining: 0, next: SECOND / 10, whole: 3 * SECOND / 10 }));
        assert_eq!(take(0), Err(Left { remaining: 0, next: SECOND / 10, whole: 3 * SECOND / 10 }));
        assert_eq!(take(SECOND / 10 - 1).map_err(|left| left.next), Err(1));
        assert!(take(SECOND / 10).is_ok() && take(SECOND / 10).is_err());
        table.give_back(1, pace, 1);
        assert!(take(SECOND / 10).is_ok());
    }

    #[test]
    fn an_amount_is_taken_whole_or_not_at_all_and_a_charge_may_go_beyond() {
        let (table, pace) = (Table::default(), Pace::new(SECOND, 10).expect("a pace"));
        assert_eq!(table.take(1, 0, pace, 7).map(|left| left.remaining), Ok(3));
        assert_eq!(table.take(1, 0, pace, 4).map_err(|left| left.remaining), Err(3));
        assert_eq!(table.take(1, 0, pace, 0).map(|left| left.remaining), Ok(3));
        assert_eq!((table.charge(1, 0, pace, 3), table.charge(1, 0, pace, 5)), (0, 5));
        // The debt is paid before anything else.
        assert_eq!(table.take(1, 0, pace, 0).map_err(|left| left.next), Err(6 * SECOND));
        assert!(table.take(1, 6 * SECOND - 1, pace, 0).is_err() && table.take(1, 6 * SECOND, pace, 0).is_ok());
        assert_eq!(table.charge(1, 0, pace, u64::MAX), FURTHEST / SECOND - 15);
        assert!(table.take(1, 0, pace, 1).is_err());
    }

    #[test]
    fn a_million_requests_of_a_thousand_keys_on_all_cores_are_counted_exactly() {
        const KEYS: u64 = 1000;
        const REQUESTS: u64 = 1_000_000;
        let (table, pace) = (Table::default(), Pace::new(SECOND / 100, 20).expect("a pace"));
        // The requests are spread over two seconds: 1,000 for each key, of which 220 may pass.
        let clock = AtomicU64::new(0);
        let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        let work = || {
            loop {
                let request = clock.fetch_add(1, Ordering::Relaxed);
                if request >= REQUESTS {
                    return;
                }
                let (key, now) = (request % KEYS, request * 2 * SECOND / REQUESTS);
                if table.take(table.hash(key), now, pace, 1).is_ok() {
                    admitted[key as usize].fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(work))));
        let sum: u64 = admitted.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        // 20 at once, then 100 per second for the 1.998 s between a key's first and last request.
        for count in &admitted {
            let count = count.load(Ordering::Relaxed);
            assert!((219..=220).contains(&count), "{count}");
        }
        assert!((219_000..=220_000).contains(&sum), "{sum}");
    }

    #[test]
    fn a_table_is_bounded_and_forgets_keys_that_rest() {
        const SHARDS: usize = 4;
        let (table, pace) = (Table::with(SHARDS), Pace::new(SECOND, 2).expect("a pace"));
        let capacity = || -> usize { table.shards.iter().map(|shard| shard.0.lock().expect("whole").capacity()).sum() };
        for key in 0..30_000_u64 {
            assert!(table.take(table.hash(key), 0, pace, 1).is_ok());
        }
        assert_eq!(table.keys(), SHARDS * KEYS);
        assert!(capacity() <= SHARDS * 4096, "{}", capacity());
        for key in 0..30_000_u64 {
            assert!(table.take(table.hash(key + 30_000), (2 + key) * SECOND, pace, 1).is_ok());
        }
        // Only keys used in the last second are active; the others are dropped when room is needed.
        assert!(table.keys() <= SHARDS * KEYS && capacity() <= SHARDS * 4096);
    }

    #[test]
    fn of_too_many_keys_those_go_that_have_used_least() {
        let (table, pace) = (Table::with(1), Pace::new(SECOND, 2).expect("a pace"));
        assert!(table.take(7, 0, pace, 1).is_ok() && table.take(7, 0, pace, 1).is_ok());
        assert!((0..10_000_u64).all(|key| table.take(table.hash(key), 0, pace, 1).is_ok()));
        assert!(table.take(7, 0, pace, 1).is_err());
    }

    #[test]
    fn a_share_is_a_part_of_rate_and_burst() {
        let pace = Pace::new(SECOND / 100, 20).expect("a pace").share(2);
        assert_eq!(pace, Pace { interval: SECOND / 50, room: SECOND / 5 });
        assert_eq!(Pace::new(SECOND, 1).expect("a pace").share(3), Pace { interval: 3 * SECOND, room: 3 * SECOND });
    }
}
