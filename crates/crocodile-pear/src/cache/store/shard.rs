//! A shard: a table of its entries, and the order of eviction (S3-FIFO, Yang et al., SOSP 2023).
//!
//! A new entry waits in a small queue, and leaves from there unless it was used again; most of the web is asked for once, and a
//! scan cannot push out what is used. A look-up counts and moves nothing.

use std::sync::Arc;

use hashbrown::HashTable;

use super::ghost::Ghost;
use super::queue::{Queue, Slots};
use crate::cache::rules::key::{Key, PurgeName};
use crate::cache::store::entry::Entry;

/// An entry with what the store knows about it.
pub struct HeldEntry {
    pub key: Key,
    /// By which a purge finds it.
    pub names: Box<[PurgeName]>,
    pub mark: u64,
    /// The number of the last purge that it was compared with.
    pub checked: u64,
    pub stale: bool,
    pub cost: usize,
    pub entry: Arc<Entry>,
}

/// The allocator's overhead for an entry: up to an eighth of each allocation, and the counters of shared parts.
pub const ALLOCATIONS: usize = 160;

/// The part of a shard that is for what is new, as the paper has it.
const SMALL: usize = 10;

/// The most entries of one key. Each look-up compares all of them, and clients choose the fields that they differ in.
pub const VARIANTS: usize = 256;

/// Uses are counted up to this.
const MOST_USES: u8 = 3;

#[derive(Default)]
pub struct Shard {
    table: HashTable<u32>,
    slots: Slots<HeldEntry>,
    small: Queue,
    main: Queue,
    ghost: Ghost,
}

impl Shard {
    /// The slot of the entry of this key that matches; of several, the one with the last mark.
    pub fn find(&self, key: &Key, matches: impl Fn(&Entry) -> bool) -> Option<u32> {
        let slots = self.table.iter_hash(key.hash()).copied();
        let held = slots.filter_map(|at| Some((at, self.slots.get(at)?.value.as_deref()?)));
        let matching = held.filter(|(_, held)| held.key == *key && matches(&held.entry));
        matching.max_by_key(|(_, held)| held.mark).map(|(at, _)| at)
    }

    /// The slot of the entry that makes room for another one of this key, if there are as many as there may be: of those that are
    /// used least, the oldest.
    pub fn surplus(&self, key: &Key) -> Option<u32> {
        let slots = self.table.iter_hash(key.hash()).copied();
        let held = slots.filter_map(|at| self.slots.get(at).map(|slot| (at, slot)));
        let (mut count, mut least) = (0, None);
        for (at, slot) in held {
            let Some(held) = slot.value.as_deref().filter(|held| held.key == *key) else { continue };
            count += 1;
            least = least.into_iter().chain([(slot.uses, held.mark, at)]).min();
        }
        least.filter(|_| count >= VARIANTS).map(|(_, _, at)| at)
    }

    pub fn held_mut(&mut self, at: u32) -> Option<&mut HeldEntry> {
        self.slots.get_mut(at)?.value.as_deref_mut()
    }

    /// Counts a use.
    pub fn touch(&mut self, at: u32) {
        if let Some(slot) = self.slots.get_mut(at) {
            slot.uses = (slot.uses + 1).min(MOST_USES);
        }
    }

    pub fn insert(&mut self, held: Box<HeldEntry>, now: u64) {
        let (hash, cost) = (held.key.hash(), held.cost);
        let main = self.ghost.recall(hash, self.slots.len());
        let at = self.slots.take(hash, held);
        let slots = &self.slots;
        self.table.insert_unique(hash, at, |at| slots.get(*at).map_or(0, |slot| slot.hash));
        self.ghost.fit(self.slots.len());
        self.push(at, main, cost, now);
    }

    fn push(&mut self, at: u32, main: bool, cost: usize, now: u64) {
        if let Some(slot) = self.slots.get_mut(at) {
            (slot.main, slot.uses, slot.time) = (main, 0, now);
        }
        let queue = if main { &mut self.main } else { &mut self.small };
        queue.push(&mut self.slots, at, cost);
    }

    pub fn remove(&mut self, at: u32) -> Option<Box<HeldEntry>> {
        let slot = self.slots.get(at)?;
        let (hash, main, cost) = (slot.hash, slot.main, slot.value.as_ref()?.cost);
        let queue = if main { &mut self.main } else { &mut self.small };
        queue.remove(&mut self.slots, at, cost);
        if let Ok(found) = self.table.find_entry(hash, |other| *other == at) {
            found.remove();
        }
        self.slots.release(at)
    }

    /// An entry takes more memory, if it is there.
    pub fn grow(&mut self, at: u32, cost: usize) -> bool {
        let Some(slot) = self.slots.get_mut(at) else { return false };
        let main = slot.main;
        let Some(held) = slot.value.as_deref_mut() else { return false };
        held.cost += cost;
        let queue = if main { &mut self.main } else { &mut self.small };
        queue.bytes += cost;
        true
    }

    /// Takes out who is to leave.
    pub fn evict(&mut self, now: u64) -> Option<Box<HeldEntry>> {
        loop {
            let gone = if self.is_small_next() { self.evict_small(now) } else { self.evict_main(now) };
            if gone.is_some() || self.slots.len() == 0 {
                return gone;
            }
        }
    }

    fn is_small_next(&self) -> bool {
        self.small.bytes * SMALL >= self.small.bytes + self.main.bytes
    }

    /// When who is next to leave came into its queue; the end of time where nobody is.
    pub fn oldest(&self) -> u64 {
        let next = if self.is_small_next() { &self.small } else { &self.main };
        next.first().and_then(|at| self.slots.get(at)).map_or(u64::MAX, |slot| slot.time)
    }

    /// The oldest of the small queue leaves, or moves if it was used more than once.
    fn evict_small(&mut self, now: u64) -> Option<Box<HeldEntry>> {
        let at = self.small.first()?;
        let slot = self.slots.get(at)?;
        let (hash, uses, cost) = (slot.hash, slot.uses, slot.value.as_ref()?.cost);
        if uses > 1 {
            self.small.remove(&mut self.slots, at, cost);
            self.push(at, true, cost, now);
            return None;
        }
        self.ghost.note(hash);
        self.remove(at)
    }

    /// The oldest of the main queue leaves, or goes round again if it was used.
    fn evict_main(&mut self, now: u64) -> Option<Box<HeldEntry>> {
        let at = self.main.first()?;
        let slot = self.slots.get(at)?;
        let (uses, cost) = (slot.uses, slot.value.as_ref()?.cost);
        if uses == 0 {
            return self.remove(at);
        }
        self.main.remove(&mut self.slots, at, cost);
        self.push(at, true, cost, now);
        if let Some(slot) = self.slots.get_mut(at) {
            slot.uses = uses - 1;
        }
        None
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The numbers that slots have.
    pub fn places(&self) -> usize {
        self.slots.places()
    }

    /// The bytes that the index grows by with the next insertion, at most.
    pub fn step(&self) -> usize {
        let table = match self.table.len() < self.table.capacity() {
            true => 0,
            false => self.table.allocation_size() + 128,
        };
        table + self.slots.step() + self.ghost.step(self.slots.len() + 1)
    }

    /// The bytes of what finds the entries.
    pub fn overhead(&self) -> usize {
        self.table.allocation_size() + self.slots.memory() + self.ghost.memory()
    }
}
