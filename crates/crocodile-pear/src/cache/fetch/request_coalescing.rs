//! Request coalescing: requests for an answer that is being fetched wait for that fetch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::cache::rules::key::Key;
use crate::cache::rules::policy::UncachedReason;
use crate::cache::rules::vary::Selector;
use crate::cache::store::entry::Entry;
use crate::error::Error;
use crate::message::answer::Answer;

/// The subject of a fetch: a key, and the request's values of the fields that answers of this key depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FetchSubject {
    pub key: Key,
    pub selector: Selector,
    pub range: Option<HeaderValue>,
}

/// The result of a shared fetch, for a request that waits for it.
pub(crate) enum CoalescedOutcome {
    /// There is an answer that several may have.
    Shared(CoalescedResult),
    /// There is one for this request only.
    Own(Box<Answer>, UncachedReason),
    /// There is one, for another request only.
    Alone,
    /// There is no answer.
    Failed(Error),
}

/// An answer that several may have.
#[derive(Clone)]
pub(crate) struct CoalescedResult {
    pub entry: Arc<Entry>,
    /// Held until its body is read: until then, the beginning of a body that is not kept is not dropped.
    pub ticket: Arc<()>,
    /// Whether it is kept, or why not.
    pub stored: Result<(), Option<UncachedReason>>,
    /// The status of the upstream, if the client gets another.
    pub status: Option<StatusCode>,
    /// Fields that are not kept, for the request that fetched it.
    pub own: HeaderMap,
    /// Where it comes from.
    pub origin: FetchOrigin,
}

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchOrigin {
    /// The answer was fetched.
    Fetched,
    /// Another gateway had kept it.
    Shared,
}

impl CoalescedResult {
    /// An answer that was fetched, with this status if that is not what is given.
    pub fn new(entry: Arc<Entry>, stored: Result<(), Option<UncachedReason>>, status: Option<StatusCode>) -> Self {
        CoalescedResult {
            entry,
            ticket: Arc::default(),
            stored,
            status,
            own: HeaderMap::new(),
            origin: FetchOrigin::Fetched,
        }
    }
}

enum CoalescedState {
    Waiting(Vec<oneshot::Sender<CoalescedOutcome>>),
    /// Its body may still arrive.
    Ready(CoalescedResult),
    /// No request can join any more.
    Over,
}

/// A fetch that others may join.
pub(crate) struct CoalescedFetch {
    /// How many purges there were when it began.
    begun: u64,
    since: Instant,
    state: Mutex<CoalescedState>,
}

impl CoalescedFetch {
    fn state(&self) -> MutexGuard<'_, CoalescedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands it to all waiting requests, and to those that come while the body arrives.
    pub fn publish(&self, result: &CoalescedResult) {
        let result = &CoalescedResult { own: HeaderMap::new(), ..result.clone() };
        let waiting = std::mem::replace(&mut *self.state(), CoalescedState::Ready(result.clone()));
        send_to_all(waiting, || CoalescedOutcome::Shared(result.clone()));
    }

    /// Hands the result to all waiting requests; no other can join.
    pub fn end(&self, outcome: impl Fn() -> CoalescedOutcome) {
        send_to_all(std::mem::replace(&mut *self.state(), CoalescedState::Over), outcome);
    }

    /// Ends it, if no request waits.
    fn abandon(&self) -> bool {
        let mut state = self.state();
        match &*state {
            CoalescedState::Waiting(waiting) if waiting.iter().any(|waiter| !waiter.is_closed()) => false,
            _ => {
                *state = CoalescedState::Over;
                true
            }
        }
    }
}

fn send_to_all(state: CoalescedState, outcome: impl Fn() -> CoalescedOutcome) {
    if let CoalescedState::Waiting(waiting) = state {
        waiting.into_iter().for_each(|waiter| drop(waiter.send(outcome())));
    }
}

/// The fetches of one place that others may join.
pub(crate) struct CoalescedFetches(Box<[Mutex<FetchTable>]>);

type FetchTable = HashMap<FetchSubject, Arc<CoalescedFetch>>;

/// Cores rarely meet in one.
const SHARDS: usize = 16;

/// How a request takes part in a fetch.
pub(crate) enum Joined {
    /// The request starts a fetch.
    Leads(CoalesceLeader),
    /// The request waits for a fetch that began after this number of purges, at this time.
    Waits(oneshot::Receiver<CoalescedOutcome>, u64, Instant),
    /// The head is there.
    Ready(CoalescedResult),
}

impl CoalescedFetches {
    pub fn new() -> Arc<Self> {
        Arc::new(CoalescedFetches((0..SHARDS).map(|_| Mutex::default()).collect()))
    }

    fn table(&self, subject: &FetchSubject) -> MutexGuard<'_, FetchTable> {
        // The low bits find the place within the table.
        let shard = (subject.key.hash() >> 40) as usize % self.0.len();
        self.0[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the fetch of this, or begins one, after this number of purges. An answer that is already there is
    /// joined if it is `good`, which knows the purges before that fetch.
    pub fn join(
        self: &Arc<Self>,
        subject: FetchSubject,
        purges: u64,
        good: impl Fn(&CoalescedResult, u64) -> bool,
    ) -> Joined {
        let mut table = self.table(&subject);
        if let Some(fetch) = table.get(&subject) {
            match &mut *fetch.state() {
                CoalescedState::Waiting(waiting) => {
                    let (sender, receiver) = oneshot::channel();
                    // Before it grows: requests that wait are bounded, those that have left are not.
                    if waiting.len() == waiting.capacity() {
                        waiting.retain(|waiter| !waiter.is_closed());
                    }
                    waiting.push(sender);
                    return Joined::Waits(receiver, fetch.begun, fetch.since);
                }
                CoalescedState::Ready(result) if good(result, fetch.begun) => return Joined::Ready(result.clone()),
                CoalescedState::Ready(_) | CoalescedState::Over => {}
            }
        }
        let state = Mutex::new(CoalescedState::Waiting(Vec::new()));
        let fetch = Arc::new(CoalescedFetch { begun: purges, since: Instant::now(), state });
        table.insert(subject.clone(), fetch.clone());
        drop(table);
        Joined::Leads(CoalesceLeader { fetches: self.clone(), subject, fetch })
    }
}

/// The leader of a fetch. If it is dropped, the fetch ends, and waiting requests fetch on their own.
pub(crate) struct CoalesceLeader {
    fetches: Arc<CoalescedFetches>,
    subject: FetchSubject,
    pub fetch: Arc<CoalescedFetch>,
}

impl CoalesceLeader {
    /// Cancels it, if no request waits for it.
    pub fn abandon(&self) -> bool {
        // Under the lock of the table, so that no request joins in between.
        let mut table = self.fetches.table(&self.subject);
        let gone = self.fetch.abandon();
        if gone {
            remove(&mut table, self);
        }
        gone
    }
}

impl Drop for CoalesceLeader {
    fn drop(&mut self) {
        remove(&mut self.fetches.table(&self.subject), self);
        self.fetch.end(|| CoalescedOutcome::Alone);
    }
}

fn remove(table: &mut FetchTable, leading: &CoalesceLeader) {
    if table.get(&leading.subject).is_some_and(|fetch| Arc::ptr_eq(fetch, &leading.fetch)) {
        table.remove(&leading.subject);
    }
}

#[cfg(test)]
mod tests {
    use super::super::request_coalescing::*;

    fn join(fetches: &Arc<CoalescedFetches>, url: &str) -> Joined {
        let subject = FetchSubject { key: Key::new(url, b""), selector: Selector::default(), range: None };
        fetches.join(subject, 0, |_, _| true)
    }

    /// How many fetches there are, and how many wait for one.
    fn counts(fetches: &CoalescedFetches) -> (usize, usize) {
        let tables = fetches.0.iter().map(|table| table.lock().expect("whole"));
        let tables: Vec<_> = tables.collect();
        let fetches = tables.iter().flat_map(|table| table.values());
        let waiting = fetches.map(|fetch| match &*fetch.state() {
            CoalescedState::Waiting(waiting) => waiting.len(),
            _ => 0,
        });
        (tables.iter().map(|table| table.len()).sum(), waiting.sum())
    }

    #[test]
    fn requests_that_leave_leave_nothing() {
        let fetches = CoalescedFetches::new();
        let Joined::Leads(leading) = join(&fetches, "http://a/b") else { panic!("it is the first") };
        let Joined::Waits(stays, ..) = join(&fetches, "http://a/b") else { panic!("it waits") };
        for _ in 0..100_000 {
            assert!(matches!(join(&fetches, "http://a/b"), Joined::Waits(..)));
        }
        let (known, waiting) = counts(&fetches);
        assert!(known == 1 && waiting <= 8, "{known} {waiting}");
        // Those that lead leave nothing either.
        for number in 0..1000 {
            drop(join(&fetches, &format!("http://a/{number}")));
        }
        assert_eq!(counts(&fetches).0, 1);
        assert!(!leading.abandon());
        drop(stays);
        assert!(leading.abandon());
        assert_eq!(counts(&fetches).0, 0);
    }
}
