//! Lines that are written beside the requests: a bounded buffer for each core, and one thread for each destination.

mod sink;
mod syslog;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crocodile_pear::unstable::runtime::thread_id::{self, THREADS};
pub use sink::Destination;
use sink::Sink;

use crate::runtime::threads::start;

/// The buffer of a core. At 500 bytes a line and 50,000 requests a second that is 40 ms in which nothing is written.
const CAPACITY: usize = 1 << 20;

/// After a batch the next one gathers for so long: a core that adds a line then need not wake the thread.
const PAUSE: Duration = Duration::from_millis(10);

/// A flush ends early if one write takes so long: the destination takes no lines.
const STUCK: Duration = Duration::from_millis(250);

/// The number of users of what has ended.
const OVER: usize = usize::MAX;

/// All that lines are written to. It outlives a reload, so that no line is lost by one.
#[derive(Default)]
pub struct Journals {
    open: Mutex<Vec<(Destination, Weak<JournalState>)>>,
    dropped: Arc<AtomicU64>,
}

impl Journals {
    /// The journal with this destination: the one that is there, or a new one, which writes nothing until it begins.
    pub fn journal(&self, to: &Destination) -> Arc<Journal> {
        let mut open = self.open();
        open.retain(|(_, shared)| shared.strong_count() > 0);
        let mut known = open.iter().filter(|(known, _)| known == to).filter_map(|(_, shared)| shared.upgrade());
        let shared = known.find(|shared| shared.take_up()).unwrap_or_else(|| {
            let shared = Arc::new(JournalState::new(to.clone(), self.dropped.clone()));
            open.push((to.clone(), Arc::downgrade(&shared)));
            shared
        });
        Arc::new(Journal(shared))
    }

    /// Begins to write to all that are open.
    pub fn begin(&self) {
        self.each(JournalState::begin);
    }

    /// Opens files again: somebody has moved them.
    pub fn reopen(&self) {
        self.each(|shared| {
            shared.reopen.store(true, Ordering::Release);
            shared.wake();
        });
    }

    /// Waits until what has been said is written, for at most so long, and no longer than lines are taken.
    pub fn flush(&self, most: Duration) {
        self.each(|shared| shared.flush(most));
    }

    /// Lines that were not written: too many at once, or the destination took none.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The memory of lines that are not written yet.
    pub fn weight(&self) -> usize {
        let mut weight = 0;
        self.each(|shared| weight += shared.buffers.iter().map(|buffer| buffer.lock().capacity()).sum::<usize>());
        weight
    }

    fn each(&self, mut act: impl FnMut(&Arc<JournalState>)) {
        // Copied, so that nobody waits for the lock while one is flushed.
        let open: Vec<_> = self.open().iter().filter_map(|(_, shared)| shared.upgrade()).collect();
        open.iter().for_each(&mut act);
    }

    fn open(&self) -> MutexGuard<'_, Vec<(Destination, Weak<JournalState>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the lines of one configuration go. When the last one for a destination is dropped, what is left is written and its thread ends.
pub struct Journal(Arc<JournalState>);

impl Journal {
    /// Adds a line, which ends with a line feed. It never waits: a line that does not fit is dropped, and counted.
    pub fn add(&self, line: &[u8]) {
        let mut waiting = self.0.buffers[thread_id::index()].lock();
        if waiting.len() + line.len() > CAPACITY {
            drop(waiting);
            self.0.lose(1);
            return;
        }
        waiting.extend_from_slice(line);
        drop(waiting);
        // The thread says that it rests before it looks at the buffers for the last time.
        if self.0.rests.load(Ordering::Acquire) && self.0.rests.swap(false, Ordering::AcqRel) {
            self.0.wake();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.0.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.wake();
        }
    }
}

/// The waiting lines of a core: its own, so that cores do not meet. The thread holds the lock only to swap it for an empty one.
#[derive(Default)]
#[repr(align(64))]
struct Buffer(Mutex<Vec<u8>>);

impl Buffer {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state that a writer and its thread share.
struct JournalState {
    to: Destination,
    buffers: Vec<Buffer>,
    thread: OnceLock<Thread>,
    /// How many journals go here; `OVER` once the thread has ended.
    users: AtomicUsize,
    rests: AtomicBool,
    reopen: AtomicBool,
    /// Lines that were not written, of all destinations.
    dropped: Arc<AtomicU64>,
    /// Dropped lines of this writer that the log does not know of yet.
    unreported: AtomicU64,
    /// Whether a batch is being written, and how many were.
    writing: AtomicBool,
    written: AtomicU64,
    /// How many flushes were wanted, and how many are done.
    flushes: Mutex<(u64, u64)>,
    flushed: Condvar,
}

impl JournalState {
    fn new(to: Destination, dropped: Arc<AtomicU64>) -> Self {
        JournalState {
            to,
            buffers: (0..THREADS).map(|_| Buffer::default()).collect(),
            thread: OnceLock::new(),
            users: AtomicUsize::new(1),
            rests: AtomicBool::new(false),
            reopen: AtomicBool::new(false),
            dropped,
            unreported: AtomicU64::new(0),
            writing: AtomicBool::new(false),
            written: AtomicU64::new(0),
            flushes: Mutex::default(),
            flushed: Condvar::new(),
        }
    }

    fn begin(self: &Arc<Self>) {
        self.thread.get_or_init(|| {
            let own = self.clone();
            match start("journal", move || own.follow()) {
                Ok(begun) => begun.thread().clone(),
                Err(error) => {
                    tracing::warn!(%error, "the lines of a log are dropped");
                    thread::current()
                }
            }
        });
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// The thread: what has gathered, in one write a core; then a pause, or rest.
    fn follow(&self) {
        let mut sink = Sink::new(&self.to);
        let mut batch = Vec::new();
        loop {
            let wanted = self.flushes().0;
            let ends = self.users.load(Ordering::Acquire) == 0;
            let reopens = self.reopen.swap(false, Ordering::AcqRel);
            let wrote = self.write(&mut sink, &mut batch);
            if reopens {
                sink = Sink::new(&self.to);
            }
            self.done(wanted);
            // A reload may have taken it up meanwhile.
            if ends && self.users.compare_exchange(0, OVER, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return;
            }
            match wrote {
                true => thread::park_timeout(PAUSE),
                false => self.rest(),
            }
        }
    }

    fn write(&self, sink: &mut Sink, batch: &mut Vec<u8>) -> bool {
        let mut wrote = false;
        for buffer in &self.buffers {
            let mut waiting = buffer.lock();
            // The memory of a busy core stays among the busy ones.
            if waiting.is_empty() {
                continue;
            }
            std::mem::swap(&mut *waiting, batch);
            drop(waiting);
            self.writing.store(true, Ordering::Relaxed);
            let lost = sink.write(batch);
            self.writing.store(false, Ordering::Relaxed);
            batch.clear();
            if lost > 0 {
                self.lose(lost);
            } else {
                self.flows();
            }
            wrote = true;
        }
        wrote
    }

    fn lose(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
        self.unreported.fetch_add(lines, Ordering::Relaxed);
    }

    /// The destination takes lines: reports those that it did not take before.
    fn flows(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
        if self.unreported.load(Ordering::Relaxed) > 0 {
            let lines = self.unreported.swap(0, Ordering::Relaxed);
            tracing::warn!(lines, to = %self.to, "log lines were dropped: they were not read or written in time");
        }
    }

    fn rest(&self) {
        self.rests.store(true, Ordering::Release);
        let waiting = self.buffers.iter().any(|buffer| !buffer.lock().is_empty());
        let (wanted, done) = *self.flushes();
        let told = self.reopen.load(Ordering::Acquire) || wanted > done;
        if !waiting && !told && self.users.load(Ordering::Acquire) > 0 {
            thread::park();
        }
        self.rests.store(false, Ordering::Release);
    }

    /// Goes on with it, unless its thread has ended.
    fn take_up(&self) -> bool {
        let one_more = |users: usize| users.checked_add(1);
        self.users.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    fn flush(&self, most: Duration) {
        let mut flushes = self.flushes();
        flushes.0 += 1;
        let wanted = flushes.0;
        if self.thread.get().is_none() {
            return;
        }
        self.wake();
        let until = Instant::now() + most;
        let mut step = most.min(STUCK);
        while flushes.1 < wanted && !step.is_zero() {
            let (writing, written) = (self.writing.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed));
            let waited = self.flushed.wait_timeout_while(flushes, step, |flushes| flushes.1 < wanted);
            flushes = waited.unwrap_or_else(PoisonError::into_inner).0;
            if writing && self.writing.load(Ordering::Relaxed) && self.written.load(Ordering::Relaxed) == written {
                return;
            }
            step = until.saturating_duration_since(Instant::now()).min(STUCK);
        }
    }

    fn done(&self, wanted: u64) {
        let mut flushes = self.flushes();
        if flushes.1 < wanted {
            flushes.1 = wanted;
            self.flushed.notify_all();
        }
    }

    fn flushes(&self) -> MutexGuard<'_, (u64, u64)> {
        self.flushes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
