//! Hashes of the entries that were evicted lately. An entry whose hash comes back was evicted too early.

/// A table of places of four, in which the oldest is overwritten.
#[derive(Default)]
pub struct Ghost {
    places: Vec<EvictedHash>,
    clock: u32,
}

/// A part of a hash, and when it was evicted; 0 where nothing was.
#[derive(Clone, Copy, Default)]
struct EvictedHash {
    part: u32,
    time: u32,
}

/// Traces that are compared for a hash.
const WAYS: usize = 4;

/// The least places.
const LEAST: usize = 64;

impl Ghost {
    /// Notes an eviction.
    pub fn note(&mut self, hash: u64) {
        if self.places.is_empty() {
            return;
        }
        self.clock = self.clock.wrapping_add(1).max(1);
        self.put(EvictedHash { part: hash as u32, time: self.clock });
    }

    /// Whether it was among the evicted of late, as many as there are entries; it is forgotten then.
    pub fn recall(&mut self, hash: u64, entries: usize) -> bool {
        if self.places.is_empty() {
            return false;
        }
        let (clock, part) = (self.clock, hash as u32);
        let recent = |time: u32| time != 0 && clock.wrapping_sub(time) as usize <= entries;
        let mut ways = self.ways(part).iter_mut();
        ways.find(|trace| trace.part == part && recent(trace.time)).map(std::mem::take).is_some()
    }

    /// Grows, so that it remembers as many as there are entries.
    pub fn fit(&mut self, entries: usize) {
        let wanted = places(entries);
        if self.places.len() < wanted {
            let old = std::mem::replace(&mut self.places, vec![EvictedHash::default(); wanted]);
            old.into_iter().filter(|trace| trace.time != 0).for_each(|trace| self.put(trace));
        }
    }

    /// The bytes that it grows by to fit so many.
    pub fn step(&self, entries: usize) -> usize {
        places(entries).saturating_sub(self.places.len()) * size_of::<EvictedHash>()
    }

    /// The bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        self.places.len() * size_of::<EvictedHash>()
    }

    fn put(&mut self, trace: EvictedHash) {
        let clock = self.clock;
        let age = |other: &EvictedHash| if other.time == 0 { u32::MAX } else { clock.wrapping_sub(other.time) };
        if let Some(oldest) = self.ways(trace.part).iter_mut().max_by_key(|other| age(other)) {
            *oldest = trace;
        }
    }

    fn ways(&mut self, part: u32) -> &mut [EvictedHash] {
        let start = (part as usize & (self.places.len() - 1)) & !(WAYS - 1);
        &mut self.places[start..start + WAYS]
    }
}

fn places(entries: usize) -> usize {
    entries.next_power_of_two().max(LEAST)
}
