//! Remembers recent results of checking credentials, so that they need not be checked again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ring::digest;

/// The hash of a credential. The credential itself is not stored.
pub type Hash = [u8; 32];

/// The SHA-256 of a credential.
pub fn hash(credential: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, credential).as_ref());
    hash
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Number of parts, each with its own lock, so that cores rarely need the same one.
const PARTS: usize = 16;

/// The most entries in the younger half of each part; the older half has the same limit.
const MOST: usize = 512;

/// Results by the hash of a credential, each with an expiry. At most 16,384 are kept; the oldest are dropped first.
pub struct Remembered<T> {
    parts: [Mutex<Halves<T>>; PARTS],
}

/// When the younger half is full, it becomes the older one.
struct Halves<T> {
    young: HashMap<Hash, (u64, T)>,
    old: HashMap<Hash, (u64, T)>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        let halves = || Mutex::new(Halves { young: HashMap::new(), old: HashMap::new() });
        Remembered { parts: std::array::from_fn(|_| halves()) }
    }
}

impl<T: Clone> Remembered<T> {
    /// The result for this hash, unless it has expired at `now`.
    pub fn find(&self, hash: &Hash, now: u64) -> Option<T> {
        let part = self.part(hash).lock().unwrap_or_else(PoisonError::into_inner);
        let (until, found) = part.young.get(hash).or_else(|| part.old.get(hash))?;
        (now < *until).then(|| found.clone())
    }

    /// Remembers the result until the second `until`.
    pub fn keep(&self, hash: Hash, until: u64, found: T) {
        let mut part = self.part(&hash).lock().unwrap_or_else(PoisonError::into_inner);
        if part.young.len() >= MOST {
            part.old = std::mem::take(&mut part.young);
        }
        part.young.insert(hash, (until, found));
    }

    fn part(&self, hash: &Hash) -> &Mutex<Halves<T>> {
        &self.parts[usize::from(hash[0]) % PARTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_known_until_its_time() {
        let known = Remembered::default();
        known.keep(hash(b"a"), 100, 1);
        assert_eq!((known.find(&hash(b"a"), 99), known.find(&hash(b"a"), 100)), (Some(1), None));
        known.keep(hash(b"a"), 200, 2);
        assert_eq!((known.find(&hash(b"a"), 100), known.find(&hash(b"b"), 0)), (Some(2), None));
    }

    #[test]
    fn the_memory_is_bounded() {
        let known = Remembered::default();
        (0..100_000_u32).for_each(|number| known.keep(hash(&number.to_be_bytes()), 1, number));
        let kept = |part: &Mutex<Halves<u32>>| {
            let part = part.lock().expect("whole");
            part.young.len() + part.old.len()
        };
        let kept: usize = known.parts.iter().map(kept).sum();
        assert!(kept <= 2 * PARTS * MOST, "{kept}");
        assert_eq!(known.find(&hash(&99_999_u32.to_be_bytes()), 0), Some(99_999));
    }
}
