//! Where entries are kept: in shards, bounded in bytes over all of them.

#[cfg(feature = "gzip")]
pub mod codec;
pub mod counters;
pub mod encoded_copies;
pub mod entry;
mod ghost;
pub mod purge;
mod queue;
pub mod reuse;
mod shard;
pub mod shared_body;
pub mod shared_tier;
pub mod shelf;
pub mod stored_answer;
pub mod tags;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use self::shard::{HeldEntry, Shard};
use super::rules::key::{Key, PurgeName};
use counters::Traffics;
use encoded_copies::Copy;
use entry::Entry;
use purge::{Admission, Purge, PurgeMark, PurgeMode, PurgeStamp, PurgeVerdict, Purges, Subject};
use shared_tier::Tier;

/// The entries of all caches of a process.
pub struct Store {
    shards: Box<[StoreShard]>,
    /// The bytes of all entries and of what finds them.
    used: AtomicUsize,
    /// Counts insertions.
    clock: AtomicU64,
    bound: AtomicUsize,
    purges: Purges,
    tier: RwLock<Option<Arc<dyn Tier>>>,
    /// How many sources of purges are out of reach, which will tell what was missed.
    suspended: AtomicUsize,
    /// Where the next sweep goes on.
    sweeper: Mutex<Sweeper>,
    insertions: AtomicU64,
    evictions: AtomicU64,
    purged: AtomicU64,
    refused: AtomicU64,
    copies: AtomicU64,
    copied: AtomicU64,
    /// The outcomes of requests, by cache.
    traffics: Traffics,
}

/// Bytes of the bound that are taken for what is still being made. What is not used is given back.
pub(super) struct Reservation {
    store: Arc<Store>,
    bytes: usize,
}

/// A shard on a cache line of its own.
#[repr(align(128))]
struct StoreShard {
    shard: Mutex<Shard>,
    /// When who leaves next came.
    oldest: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct Sweeper {
    shard: usize,
    slot: usize,
}

/// An entry that was found under a key.
pub struct FoundEntry {
    pub entry: Arc<Entry>,
    /// Whether a purge or a lost source of events demands that it is validated first.
    pub stale: bool,
}

/// The size of a store, and its events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Entries now.
    pub entries: u64,
    /// Bytes now, with heads, keys and index.
    pub bytes: u64,
    /// Bytes that there may be.
    pub bound: u64,
    /// Look-ups that found an entry.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Entries that were kept.
    pub insertions: u64,
    /// Entries that made room for others.
    pub evictions: u64,
    pub purges: u64,
    /// Entries that were not kept: purged while they were fetched, or too large.
    pub refused: u64,
    /// Coded copies that were made of bodies that are kept, or found to be of no use.
    pub copies: u64,
    /// Answers that had such a copy.
    pub copied: u64,
}

/// A core rarely meets another one in a shard, and a shard still has thousands of entries.
const SHARDS: usize = 64;

/// An entry may take this part of the bound.
const LARGEST: usize = 4;

/// So many slots are swept for each purge while old notes wait for it.
const STRIDE: usize = 256;

impl Store {
    /// An empty store for so many bytes.
    pub fn new(bytes: usize) -> Self {
        let part = || StoreShard {
            shard: Mutex::default(),
            oldest: AtomicU64::new(u64::MAX),
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
        };
        Store {
            shards: std::iter::repeat_with(part).take(SHARDS).collect(),
            used: AtomicUsize::default(),
            clock: AtomicU64::default(),
            bound: AtomicUsize::new(bytes),
            purges: Purges::default(),
            tier: RwLock::default(),
            suspended: AtomicUsize::default(),
            sweeper: Mutex::default(),
            insertions: AtomicU64::default(),
            evictions: AtomicU64::default(),
            purged: AtomicU64::default(),
            refused: AtomicU64::default(),
            copies: AtomicU64::default(),
            copied: AtomicU64::default(),
            traffics: Traffics::default(),
        }
    }

    /// Sets how many bytes it may have; what is too much is evicted.
    pub fn resize(&self, bytes: usize) {
        self.bound.store(bytes, Ordering::Relaxed);
        while self.used.load(Ordering::Relaxed) > bytes && self.evict() {}
    }

    /// An entry larger than this is not kept.
    pub fn largest(&self) -> usize {
        self.bound.load(Ordering::Relaxed) / LARGEST
    }

    /// The entry of this key that matches; of several, the one that was kept last.
    pub fn find(&self, key: &Key, matches: impl Fn(&Entry) -> bool) -> Option<FoundEntry> {
        let part = self.part(key);
        let found = self.search(part, key, matches);
        let counter = if found.is_some() { &part.hits } else { &part.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    fn search(&self, part: &StoreShard, key: &Key, matches: impl Fn(&Entry) -> bool) -> Option<FoundEntry> {
        let mut shard = part.lock();
        let at = shard.find(key, matches)?;
        let number = self.purges.number();
        let held = shard.held_mut(at)?;
        if held.checked != number {
            let (verdict, number) = self.purges.judge(&held.subject());
            held.checked = number;
            held.stale |= verdict == PurgeVerdict::Stale;
            if verdict == PurgeVerdict::Gone {
                let gone = self.take(part, &mut shard, at);
                // A large body is freed without the lock.
                drop(shard);
                drop(gone);
                return None;
            }
        }
        let suspended = held.subject().tagged() && self.suspended.load(Ordering::Relaxed) > 0;
        let found = FoundEntry { entry: held.entry.clone(), stale: held.stale || suspended };
        shard.touch(at);
        Some(found)
    }

    /// The entry that has the place of this one now, fresh or stale.
    pub(super) fn successor(&self, key: &Key, entry: &Entry) -> Option<Arc<Entry>> {
        let found = self.search(self.part(key), key, |other| other.selector == entry.selector)?;
        Some(found.entry)
    }

    /// When a fetch begins: what is purged from here on is not kept.
    pub fn mark(&self) -> PurgeMark {
        // The stamp first: what is purged in between is newer than both.
        let stamp = self.tier().map(|tier| tier.stamp()).unwrap_or_default();
        PurgeMark { number: self.purges.number(), stamp }
    }

    /// How many purges there were.
    pub(super) fn purges(&self) -> u64 {
        self.purges.number()
    }

    /// Whether an answer whose fetch began after so many purges was purged since, or may have been: while it arrives, not all of
    /// its tags are known.
    pub(super) fn is_outdated(&self, begun: u64, key: &Key, entry: &Arc<Entry>) -> bool {
        if self.purges() == begun {
            return false;
        }
        let mark = PurgeMark { number: begun, stamp: PurgeStamp::default() };
        !entry.body.is_complete() || self.purges.concerns(&HeldEntry::new(mark, key.clone(), entry.clone()).subject())
    }

    /// Keeps an entry whose body is here, in the place of one with the same selector. Says whether it is kept: not if it is too
    /// large, or if it was purged since the mark.
    pub fn insert(&self, mark: PurgeMark, key: &Key, entry: Arc<Entry>) -> bool {
        let kept = entry.body.is_complete() && self.keep(HeldEntry::new(mark, key.clone(), entry.clone()));
        if let Some(tier) = self.tier().filter(|_| kept) {
            tier.keep(mark.stamp, key, &entry);
        }
        let counter = if kept { &self.insertions } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        kept
    }

    fn keep(&self, mut held: Box<HeldEntry>) -> bool {
        let part = self.part(&held.key);
        loop {
            // Before room is made for it: most that are refused are refused here.
            if self.purges.admit(&held.subject()).is_none() {
                return false;
            }
            // The index grows by steps, which are counted before they are taken.
            let step = part.lock().step();
            if !self.reserve(held.cost + step) {
                return false;
            }
            match self.put(part, held, step) {
                Ok(kept) => return kept,
                Err(back) => held = back,
            }
        }
    }

    /// Puts it into its shard, for which there is room; says whether it is kept as new. Gives it back if it was purged meanwhile, or
    /// the room does not do.
    fn put(&self, part: &StoreShard, mut held: Box<HeldEntry>, step: usize) -> Result<bool, Box<HeldEntry>> {
        let cost = held.cost;
        let mut shard = part.lock();
        // In the lock, so that a sweep sees either the entry or its purge.
        let admitted = self.purges.admit(&held.subject()).filter(|_| shard.step() <= step);
        let Some((admission, number)) = admitted else {
            self.release(cost + step);
            return Err(held);
        };
        (held.checked, held.stale) = (number, admission != Admission::Fresh);
        let old = shard.find(&held.key, |entry| entry.selector == held.entry.selector);
        let newer = match old.and_then(|at| shard.held_mut(at)) {
            Some(old) => old.mark <= held.mark,
            None => admission != Admission::Purged,
        };
        if !newer {
            drop(shard);
            self.release(cost + step);
            return Ok(false);
        }
        let surplus = if old.is_none() { shard.surplus(&held.key) } else { None };
        self.evictions.fetch_add(u64::from(surplus.is_some()), Ordering::Relaxed);
        let old = old.or(surplus).and_then(|at| self.take(part, &mut shard, at));
        let before = shard.overhead();
        shard.insert(held, self.clock.fetch_add(1, Ordering::Relaxed));
        part.oldest.store(shard.oldest(), Ordering::Relaxed);
        let grown = shard.overhead() - before;
        drop(shard);
        drop(old);
        self.release(step - grown.min(step));
        Ok(admission != Admission::Purged)
    }

    /// The entry of the second tier of this key that matches; it is kept here from then on.
    pub async fn find_shared(&self, key: &Key, matches: impl Fn(&Entry) -> bool) -> Option<FoundEntry> {
        let tier = self.tier()?;
        // Before it is asked: what is purged meanwhile is not kept here.
        let number = self.purges.number();
        let shared = tier.find(key).await.into_iter().filter(|shared| matches(&shared.entry));
        let newest = shared.max_by_key(|shared| shared.stamp)?;
        let (entry, mark) = (Arc::new(newest.entry), PurgeMark { number, stamp: newest.stamp });
        let held = HeldEntry::new(mark, key.clone(), entry.clone());
        // Purged meanwhile: it is not even given.
        let (admission, _) =
            self.purges.admit(&held.subject()).filter(|(admission, _)| *admission != Admission::Purged)?;
        if !newest.stale {
            self.keep(held);
        }
        Some(FoundEntry { entry, stale: admission == Admission::Stale || newest.stale })
    }

    /// Sets the second tier.
    pub fn set_tier(&self, tier: Option<Arc<dyn Tier>>) {
        *self.tier.write().unwrap_or_else(PoisonError::into_inner) = tier;
    }

    fn tier(&self) -> Option<Arc<dyn Tier>> {
        self.tier.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes all entries of a key.
    pub fn remove(&self, key: &Key) {
        while self.remove_one(key, |_| true) {}
        if let Some(tier) = self.tier() {
            tier.remove(key);
        }
    }

    /// Removes this entry, if it is still there.
    pub fn remove_entry(&self, key: &Key, entry: &Arc<Entry>) {
        self.remove_one(key, |other| std::ptr::eq(other, &raw const **entry));
    }

    fn remove_one(&self, key: &Key, matches: impl Fn(&Entry) -> bool) -> bool {
        let part = self.part(key);
        let mut shard = part.lock();
        let gone = shard.find(key, matches).and_then(|at| self.take(part, &mut shard, at));
        drop(shard);
        gone.is_some()
    }

    /// Keeps a coded copy of the body beside the entry, if the entry is still kept and there is room. `room` has some for it.
    pub(super) fn keep_copy(
        &self,
        key: &Key,
        entry: &Arc<Entry>,
        coding: &'static str,
        copy: Copy,
        mut room: Reservation,
    ) {
        let cost = copy.cost();
        if !room.fit(cost) {
            return;
        }
        let mut shard = self.part(key).lock();
        let at = shard.find(key, |other| std::ptr::eq(other, &raw const **entry));
        if at.is_some_and(|at| shard.grow(at, cost)) {
            entry.copies.set(coding, copy);
            // From here on the entry has it.
            room.bytes = 0;
            self.copies.fetch_add(1, Ordering::Relaxed);
        }
        // What is not kept is freed without the lock.
        drop(shard);
    }

    /// A copy was given.
    pub(super) fn count_copied(&self) {
        self.copied.fetch_add(1, Ordering::Relaxed);
    }

    /// Purges: from here on nobody is given what it is about, nor is what is being fetched kept.
    pub fn purge(&self, purge: &Purge, mode: PurgeMode) {
        // The tier first: who looks there after the purge here finds it purged, or knows that it is to be.
        if let Some(tier) = self.tier() {
            tier.purge(purge, mode);
        }
        self.purge_here(purge, mode);
    }

    /// The same in this store alone: the second tier knows of it.
    pub fn purge_here(&self, purge: &Purge, mode: PurgeMode) {
        self.purged.fetch_add(1, Ordering::Relaxed);
        let sweep = self.purges.note(purge, mode);
        match purge {
            // It is compared with every entry now: notes of prefixes are few.
            Purge::Prefix(_) => self.sweep_all(),
            // Its memory is wanted back.
            Purge::All if mode == PurgeMode::Hard => self.sweep_all(),
            _ if sweep => self.sweep(STRIDE),
            _ => {}
        }
    }

    /// Purges, and says how many entries that was about. It visits all of them: for operators, not for events.
    pub fn purge_counted(&self, purge: &Purge, mode: PurgeMode) -> usize {
        let count = self.count(purge);
        self.purge(purge, mode);
        if mode == PurgeMode::Hard {
            self.sweep_all();
        }
        count
    }

    /// How many entries a purge would be about.
    pub fn count(&self, purge: &Purge) -> usize {
        (0..self.shards.len()).map(|index| self.count_in(index, purge)).sum()
    }

    /// The same, with a turn for others after each part.
    pub async fn count_in_turns(&self, purge: &Purge) -> usize {
        let mut count = 0;
        for index in 0..self.shards.len() {
            count += self.count_in(index, purge);
            tokio::task::yield_now().await;
        }
        count
    }

    fn count_in(&self, shard: usize, purge: &Purge) -> usize {
        let mut count = 0;
        self.visit(shard, 0, usize::MAX, |held| {
            count += usize::from(purge.names(&held.subject()));
            PurgeVerdict::Good
        });
        count
    }

    /// A source of events is lost: what has tags counts as stale, until it is fetched anew after [`Store::trust`].
    pub fn distrust(&self) {
        self.purges.distrust();
    }

    /// A source of events is back. Each call of [`Store::distrust`] has one of this.
    pub fn trust(&self) {
        self.purges.trust();
    }

    /// A source of purges is out of reach, but will tell what was missed: what has tags counts as stale until then.
    pub fn suspend(&self) {
        self.suspended.fetch_add(1, Ordering::SeqCst);
    }

    /// The source of events is connected again and has caught up. Each call of [`Store::suspend`] is followed by one of this.
    pub fn resume(&self) {
        self.suspended.fetch_sub(1, Ordering::SeqCst);
    }

    /// The outcomes of the requests at each cache.
    pub fn traffics(&self) -> &Traffics {
        &self.traffics
    }

    /// The current counters.
    pub fn counters(&self) -> CacheCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sum = |of: fn(&StoreShard) -> &AtomicU64| self.shards.iter().map(|part| load(of(part))).sum();
        CacheCounters {
            entries: self.shards.iter().map(|part| part.lock().len() as u64).sum(),
            bytes: self.used.load(Ordering::Relaxed) as u64,
            bound: self.bound.load(Ordering::Relaxed) as u64,
            hits: sum(|part| &part.hits),
            misses: sum(|part| &part.misses),
            insertions: load(&self.insertions),
            evictions: load(&self.evictions),
            purges: load(&self.purged),
            refused: load(&self.refused),
            copies: load(&self.copies),
            copied: load(&self.copied),
        }
    }

    fn part(&self, key: &Key) -> &StoreShard {
        // The low bits find the slot within the shard.
        &self.shards[(key.hash() >> 48) as usize % self.shards.len()]
    }

    /// Takes so many bytes of the bound; evicts until there are as many.
    fn reserve(&self, bytes: usize) -> bool {
        if bytes > self.largest() {
            return false;
        }
        let fits = |used: usize| Some(used + bytes).filter(|used| *used <= self.bound.load(Ordering::Relaxed));
        while self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            if !self.evict() {
                return false;
            }
        }
        true
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Evicts where who is next has waited longest: what was allocated together is freed together, which an allocator needs to
    /// have whole pages again. False if there is nothing to evict.
    fn evict(&self) -> bool {
        let ages = self.shards.iter().map(|part| part.oldest.load(Ordering::Relaxed));
        let Some((at, _)) = ages.enumerate().min_by_key(|(_, age)| *age) else { return false };
        // Another thread may have emptied it meanwhile.
        (0..self.shards.len()).any(|next| self.evict_from(&self.shards[(at + next) % self.shards.len()]))
    }

    fn evict_from(&self, part: &StoreShard) -> bool {
        let mut shard = part.lock();
        let gone = shard.evict(self.clock.load(Ordering::Relaxed));
        part.oldest.store(shard.oldest(), Ordering::Relaxed);
        drop(shard);
        let Some(gone) = gone else { return false };
        self.release(gone.cost);
        self.evictions.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Takes an entry out; to be dropped without the lock.
    fn take(&self, part: &StoreShard, shard: &mut Shard, at: u32) -> Option<Box<HeldEntry>> {
        let gone = shard.remove(at)?;
        part.oldest.store(shard.oldest(), Ordering::Relaxed);
        self.release(gone.cost);
        Some(gone)
    }

    /// Compares every entry with the notes.
    fn sweep_all(&self) {
        (0..self.shards.len()).for_each(|index| self.sweep_part(index, 0, usize::MAX));
    }

    /// Compares so many entries with the notes, where the last sweep stopped; when all are, old notes are dropped.
    fn sweep(&self, stride: usize) {
        let mut sweeper = self.sweeper.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = stride;
        // Another thread was here first.
        if !self.purges.waits() {
            return;
        }
        // Names come faster than entries are swept: this one pays.
        let all = self.purges.full();
        while left > 0 || all {
            let length = self.shards[sweeper.shard].lock().places();
            let end = if all { length } else { length.min(sweeper.slot + left) };
            self.sweep_part(sweeper.shard, sweeper.slot, end);
            left = left.saturating_sub(end.saturating_sub(sweeper.slot) + 1);
            sweeper.slot = end;
            if end >= length {
                *sweeper = Sweeper { shard: sweeper.shard + 1, slot: 0 };
            }
            if sweeper.shard == self.shards.len() {
                sweeper.shard = 0;
                self.purges.swept();
                return;
            }
        }
    }

    fn sweep_part(&self, index: usize, start: usize, end: usize) {
        self.visit(index, start, end, |held| {
            let (verdict, number) = self.purges.judge(&held.subject());
            held.checked = number;
            held.stale |= verdict == PurgeVerdict::Stale;
            verdict
        });
    }

    /// Visits the entries of a shard, some at a time; those that are gone are removed.
    fn visit(&self, index: usize, start: usize, end: usize, mut judge: impl FnMut(&mut HeldEntry) -> PurgeVerdict) {
        /// So many are visited before others have the lock: some 20 us.
        const AT_ONCE: usize = 256;
        let part = &self.shards[index];
        let mut at = start;
        loop {
            let mut gone = Vec::new();
            let mut shard = part.lock();
            let until = end.min(shard.places());
            if at >= until {
                return;
            }
            let stop = until.min(at + AT_ONCE);
            for slot in at..stop {
                let slot = slot as u32;
                if shard.held_mut(slot).is_some_and(|held| judge(held) == PurgeVerdict::Gone) {
                    gone.extend(self.take(part, &mut shard, slot));
                }
            }
            drop(shard);
            at = stop;
        }
    }
}

impl Reservation {
    /// A list without parts.
    pub fn new(store: Arc<Store>) -> Self {
        Reservation { store, bytes: 0 }
    }

    /// Takes so many bytes more; not, if there are not as many.
    pub fn grow(&mut self, more: usize) -> bool {
        let fits = self.bytes + more <= self.store.largest() && self.store.reserve(more);
        self.bytes += if fits { more } else { 0 };
        fits
    }

    fn fit(&mut self, bytes: usize) -> bool {
        match self.bytes.checked_sub(bytes) {
            None => self.grow(bytes - self.bytes),
            Some(less) => {
                self.store.release(less);
                self.bytes = bytes;
                true
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.store.release(self.bytes);
    }
}

impl StoreShard {
    fn lock(&self) -> MutexGuard<'_, Shard> {
        self.shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldEntry {
    fn new(mark: PurgeMark, key: Key, entry: Arc<Entry>) -> Box<Self> {
        let names: Box<[PurgeName]> = key.names().iter().chain(entry.tags.names()).copied().collect();
        let cost = size_of::<HeldEntry>() + size_of_val(&*names) + key.size() + entry.cost() + shard::ALLOCATIONS;
        Box::new(HeldEntry { key, names, mark: mark.number, checked: 0, stale: false, cost, entry })
    }

    fn subject(&self) -> Subject<'_> {
        Subject { key: &self.key, names: &self.names, mark: self.mark }
    }
}

#[cfg(test)]
mod tests;
