//! Which connections of clients are idle, and since when. Where descriptors run out, those are closed that have been idle
//! for longest: calls and new clients get theirs. Where a listener has few places, the one that has been idle for longest
//! leaves for another one.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use crocodile_pear::unstable::runtime::descriptors;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;
use futures_util::task::AtomicWaker;
use tokio::time::{Instant, sleep};

/// The share of the idle connections that is closed at a time is one in so many: to find the oldest, all are looked at.
const PART: usize = 32;

/// The most that are closed at a time.
const MOST: usize = 256;

/// How long a client that is new has for the first bytes of its request: it has no reason to send that again.
const GRACE: Duration = Duration::from_secs(1);

/// How long accepting pauses while the connections that were told to leave do so, or while none is idle.
const PAUSE: Duration = Duration::from_millis(1);
const LONGER: Duration = Duration::from_millis(20);

/// The connections of all cores.
pub struct IdleConnections {
    base: Instant,
    /// The most connections; `None` for operators, who have the last descriptors too.
    most: Option<usize>,
    open: AtomicUsize,
    /// A shard for each core.
    shards: Box<[Mutex<Vec<Arc<IdleMark>>>]>,
    /// The limiters of lines about connections that are closed, and of those about clients that wait.
    limiters: [LogLimiter; 2],
}

/// The state of a connection that other cores can see.
struct IdleMark {
    /// Nanoseconds since the base; `BUSY` while a request is served. Later than now for a client that is new.
    since: AtomicU64,
    /// Whether it has to leave.
    told: AtomicBool,
    /// Its place in the shard.
    place: AtomicUsize,
    waker: AtomicWaker,
}

const BUSY: u64 = u64::MAX;

/// The place of a connection among them, until it is dropped. Without a request, it counts as idle after a moment.
pub struct IdleGuard {
    all: Arc<IdleConnections>,
    shard: usize,
    mark: Arc<IdleMark>,
}

impl IdleConnections {
    /// An empty registry for so many cores. `descriptors`: the number for the connections and for their calls.
    pub fn new(cores: usize, descriptors: Option<usize>) -> Arc<Self> {
        let shards = (0..cores.max(1)).map(|_| Mutex::default()).collect();
        // Each client may have a call.
        let most = descriptors.map(|all| (all / 2).max(1));
        let (base, open) = (Instant::now(), AtomicUsize::new(0));
        Arc::new(IdleConnections { base, most, open, shards, limiters: Default::default() })
    }

    /// A connection of this core that begins now.
    pub fn begin(self: &Arc<Self>, core: usize) -> IdleGuard {
        let shard = core % self.shards.len();
        self.open.fetch_add(1, Relaxed);
        let mut marks = self.lock(shard);
        let mark = Arc::new(IdleMark {
            since: AtomicU64::new(self.nanoseconds(Instant::now() + GRACE)),
            told: AtomicBool::new(false),
            place: AtomicUsize::new(marks.len()),
            waker: AtomicWaker::new(),
        });
        marks.push(mark.clone());
        drop(marks);
        IdleGuard { all: self.clone(), shard, mark }
    }

    /// Waits until there is a descriptor for another connection. `listener` shows how many are left; `closed` learns how
    /// many connections were told to leave.
    pub async fn room(&self, listener: &impl AsFd, closed: impl Fn(usize)) {
        let Some(most) = self.most else { return };
        while !self.has_room(most, listener) {
            let count = self.make_room();
            closed(count);
            sleep(if count > 0 { PAUSE } else { LONGER }).await;
        }
    }

    fn has_room(&self, most: usize, listener: &impl AsFd) -> bool {
        if self.open.load(Relaxed) >= most {
            return false;
        }
        if descriptors::are_scarce() {
            // Its number says how many are open by now.
            let probe: io::Result<_> = listener.as_fd().try_clone_to_owned();
            probe.iter().for_each(descriptors::note);
        }
        !descriptors::are_scarce()
    }

    /// Tells those to leave that have been idle for longest; answers how many.
    pub fn make_room(&self) -> usize {
        let now = self.nanoseconds(Instant::now());
        let mut idle = Vec::new();
        for shard in 0..self.shards.len() {
            let waits = |mark: &&Arc<IdleMark>| mark.since.load(Relaxed) <= now && !mark.told.load(Relaxed);
            let marks = self.lock(shard);
            idle.extend(marks.iter().filter(waits).map(|mark| (mark.since.load(Relaxed), mark.clone())));
        }
        let count = idle.len().min((idle.len() / PART).clamp(1, MOST));
        if count > 0 {
            idle.select_nth_unstable_by_key(count - 1, |(since, _)| *since);
        }
        for (_, mark) in &idle[..count] {
            mark.tell();
        }
        if self.limiters[usize::from(count == 0)].allows() {
            let open = self.open.load(Relaxed);
            match count {
                0 => tracing::warn!(open, "file descriptors run out, and no connection is idle; new clients wait"),
                _ => tracing::warn!(
                    open,
                    "file descriptors run out; closing the connections that have been idle longest"
                ),
            }
        }
        count
    }

    /// Tells one to leave if there are so many: the one that has been idle for longest; if none is idle, one that is served.
    pub fn evict(&self, most: usize) -> bool {
        if self.open.load(Relaxed) < most {
            return false;
        }
        let staying = |mark: &&Arc<IdleMark>| !mark.told.load(Relaxed);
        let first = |shard| {
            let marks = self.lock(shard);
            marks.iter().filter(staying).min_by_key(|mark| mark.since.load(Relaxed)).cloned()
        };
        let longest = (0..self.shards.len()).filter_map(first).min_by_key(|mark| mark.since.load(Relaxed));
        longest.inspect(|mark| mark.tell()).is_some()
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Vec<Arc<IdleMark>>> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nanoseconds(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.base).as_nanos()).unwrap_or(BUSY - 1)
    }
}

impl IdleGuard {
    /// Has this task woken when it has to leave.
    pub fn register(&self, cx: &Context<'_>) {
        self.mark.waker.register(cx.waker());
    }

    /// Does something at the beginning of the connection; `None` if it has to leave meanwhile.
    pub async fn until_told<T>(&self, beginning: impl Future<Output = T>) -> Option<T> {
        until_told(&self.mark, beginning).await
    }

    /// Ends what serves the connection when it has to leave.
    pub fn leaving(&self) -> Eviction {
        Eviction(self.mark.clone())
    }

    /// Marks the connection as busy: it serves a request and need not make room.
    pub fn end(&self) {
        self.mark.since.store(BUSY, Relaxed);
        self.mark.told.store(false, Relaxed);
    }

    /// Marks the connection as idle since then.
    pub fn rest(&self, since: Instant) {
        self.mark.since.store(self.all.nanoseconds(since), Relaxed);
    }

    pub fn must_leave(&self) -> bool {
        self.mark.told.load(Relaxed)
    }
}

impl IdleMark {
    fn tell(&self) {
        self.told.store(true, Relaxed);
        self.waker.wake();
    }
}

/// The end of a connection that has to leave, even while a request is served.
pub struct Eviction(Arc<IdleMark>);

impl Eviction {
    /// Serves the connection until it has to leave.
    pub async fn until_told(self, serving: impl Future<Output = ()>) {
        until_told(&self.0, serving).await;
    }
}

async fn until_told<T>(mark: &IdleMark, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        mark.waker.register(cx.waker());
        if mark.told.load(Relaxed) { Poll::Ready(None) } else { work.as_mut().poll(cx).map(Some) }
    })
    .await
}

impl Drop for IdleGuard {
    fn drop(&mut self) {
        let mut marks = self.all.lock(self.shard);
        let place = self.mark.place.load(Relaxed);
        marks.swap_remove(place);
        marks.get(place).inspect(|moved| moved.place.store(place, Relaxed));
        drop(marks);
        self.all.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_that_are_idle_for_longest_leave_first() {
        let all = IdleConnections::new(2, Some(128));
        let mut open = Vec::new();
        for number in 0..64 {
            open.push(all.begin(number));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(all.make_room(), 0, "new clients are about to send their requests");
        tokio::time::advance(GRACE).await;
        // The oldest one is busy, the next one was until now.
        open[0].end();
        open[1].end();
        open[1].rest(Instant::now());
        assert_eq!(all.make_room(), 1);
        let told = |open: &[IdleGuard]| open.iter().map(IdleGuard::must_leave).collect::<Vec<_>>();
        assert_eq!(told(&open).iter().position(|told| *told), Some(2));
        // Those that leave are forgotten, and the others keep their places.
        open.remove(2);
        open.remove(40);
        assert_eq!((all.make_room(), told(&open)[2]), (1, true));
        open[2].end();
        assert!(!open[2].must_leave());
        drop(open);
        assert!(all.shards.iter().all(|shard| shard.lock().expect("whole").is_empty()));
        assert_eq!((all.open.load(Relaxed), all.make_room()), (0, 0));
    }
    #[tokio::test(start_paused = true)]
    async fn where_places_are_few_the_one_that_is_idle_for_longest_leaves() {
        let all = IdleConnections::new(1, None);
        let mut open = Vec::new();
        for _ in 0..3 {
            assert!(!all.evict(3));
            open.push(all.begin(0));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        // The first one has just been served, the second one is being served.
        open[0].end();
        open[0].rest(Instant::now());
        open[1].end();
        let told = |open: &[IdleGuard]| open.iter().map(IdleGuard::must_leave).collect::<Vec<_>>();
        assert!(all.evict(3));
        assert_eq!(told(&open), [false, false, true]);
        assert!(all.evict(3));
        assert_eq!(told(&open), [true, false, true]);
        // Those that are served leave if no other one does.
        let serving = tokio::spawn(open[1].leaving().until_told(std::future::pending()));
        tokio::task::yield_now().await;
        assert!(all.evict(3));
        serving.await.expect("it ends");
        assert!(!all.evict(3), "all are leaving");
        open.clear();
        assert!(!all.evict(3));
    }
}
