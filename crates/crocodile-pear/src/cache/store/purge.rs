//! Purges, each with its moment. A purge is a note, not a search: each reader of an entry compares the entry's mark with
//! the notes. So a purge of a tag with a million entries costs the same as one with a single entry, and also applies
//! to answers that are being fetched.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::cache::rules::key::{Key, PurgeName, path};

/// The entries of a purge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Purge {
    /// All answers of this URL, with its query; a URL that begins with `/` means all hosts.
    Url(String),
    /// All answers whose URL begins like this; a prefix that begins with `/` means all hosts.
    Prefix(String),
    /// All answers with this tag.
    Tag(String),
    /// Everything.
    All,
}

/// The effect of a purge on an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PurgeMode {
    /// The entry becomes stale: it must be validated before it is used, and can be.
    #[default]
    Soft,
    /// The entry is removed.
    Hard,
}

/// When a fetch began, among the purges. An answer that was purged later is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PurgeMark {
    pub(crate) number: u64,
    /// The same in the second tier.
    pub(crate) stamp: PurgeStamp,
}

/// The state of an entry after the purges since its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PurgeVerdict {
    /// No purge was about it.
    Good,
    /// The entry must be validated.
    Stale,
    /// The entry is removed.
    Gone,
}

/// How what was fetched may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Fresh,
    /// The entry must be validated.
    Stale,
    /// The entry was purged softly since its mark. It may replace an older one, because a client may have seen it.
    Purged,
}

/// The notes of all purges that may still be about something.
#[derive(Default)]
pub(crate) struct Purges {
    /// How many purges there were. Written after the note, so that a reader that sees the number finds the note.
    number: AtomicU64,
    notes: RwLock<Notes>,
}

#[derive(Default)]
struct Notes {
    /// Names that were purged since the last turn.
    young: HashMap<PurgeName, Note>,
    /// Names that were purged before. Dropped when every entry has been compared with them.
    old: HashMap<PurgeName, Note>,
    prefixes: VecDeque<(Box<str>, PurgeMode, u64)>,
    all: Note,
    /// Older entries with tags are stale: events may have been missed.
    doubted: u64,
    /// How many sources of events are lost.
    lost: usize,
    /// Notes up to this number may have been dropped: what is being fetched since then is not kept.
    floor: u64,
    /// When the young became old.
    turned: u64,
}

/// The numbers of the last purges of a name, by their mode.
#[derive(Clone, Copy, Default)]
struct Note {
    soft: u64,
    hard: u64,
}

/// Names that are noted before the young become the old: 2 MiB for both.
const MOST_NAMES: usize = 32 << 10;

/// Prefixes that are noted. Every entry was compared with each when it was purged; the note is for what was being fetched.
const MOST_PREFIXES: usize = 64;

/// The names that an entry is compared by.
pub(crate) struct Subject<'a> {
    pub key: &'a Key,
    /// Its URL with and without the host, and its tags.
    pub names: &'a [PurgeName],
    pub mark: u64,
}

impl Subject<'_> {
    /// Whether it has tags, besides the two names of its URL.
    pub fn tagged(&self) -> bool {
        self.names.len() > 2
    }
}

impl Note {
    fn add(&mut self, mode: PurgeMode, number: u64) {
        match mode {
            PurgeMode::Soft => self.soft = number,
            PurgeMode::Hard => self.hard = number,
        }
    }

    fn verdict(&self, mark: u64) -> PurgeVerdict {
        if self.hard > mark {
            return PurgeVerdict::Gone;
        }
        if self.soft > mark { PurgeVerdict::Stale } else { PurgeVerdict::Good }
    }
}

impl Purges {
    /// The number of the last purge.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Notes a purge. Says whether the old notes wait for a sweep, so that there is room for new ones.
    pub fn note(&self, purge: &Purge, mode: PurgeMode) -> bool {
        let mut notes = self.write();
        let number = self.number() + 1;
        match purge {
            Purge::Url(url) => notes.young.entry(PurgeName::of_url(url)).or_default().add(mode, number),
            Purge::Tag(tag) => notes.young.entry(PurgeName::of_tag(tag)).or_default().add(mode, number),
            Purge::Prefix(prefix) => notes.add_prefix(prefix, mode, number),
            Purge::All => notes.all.add(mode, number),
        }
        if notes.young.len() >= MOST_NAMES && notes.old.is_empty() {
            notes.old = std::mem::take(&mut notes.young);
            notes.turned = number;
        }
        let waits = !notes.old.is_empty();
        self.number.store(number, Ordering::Release);
        waits
    }

    /// Whether the young have no room until the old are dropped.
    pub fn full(&self) -> bool {
        let notes = self.read();
        notes.young.len() >= MOST_NAMES && !notes.old.is_empty()
    }

    /// Whether old notes wait for a sweep.
    pub fn waits(&self) -> bool {
        !self.read().old.is_empty()
    }

    /// Every entry has been compared with the old notes.
    pub fn swept(&self) {
        let mut notes = self.write();
        notes.floor = notes.turned;
        notes.old = HashMap::new();
    }

    /// A source of events is lost: what has tags is stale from here on.
    pub fn distrust(&self) {
        self.doubt(|lost| lost + 1);
    }

    /// A source of events is back: what was fetched before stays stale.
    pub fn trust(&self) {
        self.doubt(|lost| lost.saturating_sub(1));
    }

    fn doubt(&self, change: impl FnOnce(usize) -> usize) {
        let mut notes = self.write();
        let number = self.number() + 1;
        notes.lost = change(notes.lost);
        notes.doubted = number;
        self.number.store(number, Ordering::Release);
    }

    /// The state of an entry, and the purge number up to which it holds.
    pub fn judge(&self, subject: &Subject<'_>) -> (PurgeVerdict, u64) {
        let notes = self.read();
        (notes.judge(subject).max(notes.doubt(subject)), self.number())
    }

    /// Whether what was fetched may be kept, and the number up to which this holds. Doubt does not forbid it: it can be validated.
    pub fn admit(&self, subject: &Subject<'_>) -> Option<(Admission, u64)> {
        let notes = self.read();
        let admission = match notes.judge(subject) {
            _ if subject.mark < notes.floor => return None,
            PurgeVerdict::Gone => return None,
            PurgeVerdict::Stale => Admission::Purged,
            PurgeVerdict::Good if notes.doubt(subject) == PurgeVerdict::Stale => Admission::Stale,
            PurgeVerdict::Good => Admission::Fresh,
        };
        Some((admission, self.number()))
    }

    /// Whether a purge since its mark was about it, or a source of events was lost or back.
    pub fn concerns(&self, subject: &Subject<'_>) -> bool {
        let notes = self.read();
        let doubted = subject.tagged() && notes.doubted > subject.mark;
        doubted || subject.mark < notes.floor || notes.judge(subject) != PurgeVerdict::Good
    }

    fn read(&self) -> RwLockReadGuard<'_, Notes> {
        self.notes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Notes> {
        self.notes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes {
    fn add_prefix(&mut self, prefix: &str, mode: PurgeMode, number: u64) {
        if self.prefixes.len() == MOST_PREFIXES
            && let Some((_, _, dropped)) = self.prefixes.pop_front()
        {
            self.floor = self.floor.max(dropped);
        }
        self.prefixes.push_back((prefix.into(), mode, number));
    }

    fn judge(&self, subject: &Subject<'_>) -> PurgeVerdict {
        let mark = subject.mark;
        let named = |name| {
            let verdict = |notes: &HashMap<PurgeName, Note>| {
                notes.get(name).map_or(PurgeVerdict::Good, |note| note.verdict(mark))
            };
            verdict(&self.young).max(verdict(&self.old))
        };
        let names = subject.names.iter().map(named).max().unwrap_or(PurgeVerdict::Good);
        let prefixes = self.prefixes.iter().filter(|(prefix, _, number)| *number > mark && begins(subject.key, prefix));
        let prefixes = prefixes.map(|(_, mode, _)| mode.verdict()).max().unwrap_or(PurgeVerdict::Good);
        names.max(prefixes).max(self.all.verdict(mark))
    }

    fn doubt(&self, subject: &Subject<'_>) -> PurgeVerdict {
        let doubted = subject.tagged() && (self.lost > 0 || self.doubted > subject.mark);
        if doubted { PurgeVerdict::Stale } else { PurgeVerdict::Good }
    }
}

impl PurgeMode {
    fn verdict(self) -> PurgeVerdict {
        match self {
            PurgeMode::Soft => PurgeVerdict::Stale,
            PurgeMode::Hard => PurgeVerdict::Gone,
        }
    }
}

impl Purge {
    /// The name that it is about, if it is about one.
    pub fn name(&self) -> Option<PurgeName> {
        match self {
            Purge::Url(url) => Some(PurgeName::of_url(url)),
            Purge::Tag(tag) => Some(PurgeName::of_tag(tag)),
            Purge::Prefix(_) | Purge::All => None,
        }
    }

    /// Whether it is about an entry of this key with these tags.
    pub fn is_about(&self, key: &Key, tags: &[PurgeName]) -> bool {
        match self.name() {
            Some(name) => tags.contains(&name) || key.names().contains(&name),
            None => self.names(&Subject { key, names: &[], mark: 0 }),
        }
    }

    /// Whether it is about this entry.
    pub(crate) fn names(&self, subject: &Subject<'_>) -> bool {
        match self {
            Purge::Url(url) => subject.names.contains(&PurgeName::of_url(url)),
            Purge::Tag(tag) => subject.names.contains(&PurgeName::of_tag(tag)),
            Purge::Prefix(prefix) => begins(subject.key, prefix),
            Purge::All => true,
        }
    }
}

fn begins(key: &Key, prefix: &str) -> bool {
    let url = key.url();
    if prefix.starts_with('/') { path(url).starts_with(prefix) } else { url.starts_with(prefix) }
}

/// A number among the purges of a tier, and the life of the tier in which it counts. 0 and 0 before the tier was heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PurgeStamp {
    /// Another one after the tier has lost what it knew.
    pub life: u64,
    /// How many purges there were.
    pub number: u64,
}
