//! The helper threads and their queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::memory;
use crate::error::{Error, Kind};
use crate::telemetry::histogram::{self, Histogram, Snapshot};

/// The most tasks that wait, unless configured.
const QUEUE: usize = 128;

/// How long a thread without work stays. It leaves so that the allocator gets back what the thread freed.
const REST: Duration = Duration::from_millis(500);

/// How long those after it stay, one after the other. The allocator returns memory to the system a second after it became free, and looks when a
/// thread ends: some memory becomes free only when a client has read its answer.
const LAST: [Duration; 3] = [Duration::from_millis(1500), Duration::from_millis(2500), Duration::from_millis(4000)];

/// How much long work there may be at once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Helper threads. Where there are several, one does only work on documents of less than 1 MiB.
    pub threads: usize,
    /// Work that waits for one.
    pub queue: usize,
    /// Bytes that all of it may have.
    pub memory: u64,
    /// A function that each thread calls first.
    pub begin: fn(),
}

impl Default for Settings {
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from).max(2);
        Settings { threads, queue: QUEUE, memory: memory::MEMORY, begin: || {} }
    }
}

/// Sets how much there may be, from now on.
pub fn configure(settings: Settings) {
    memory::set_capacity(settings.memory);
    lock().settings = settings;
}

/// The outcome of work that was begun.
pub enum Done {
    /// The work has ended.
    Ended,
    /// Others held the memory that it needed: this many bytes so far.
    Starved(u64),
    /// The work needs more memory than all work may have.
    Oversized,
}

/// The order for a task.
pub enum Order<'a> {
    /// Run, with this many bytes reserved, until the result is no longer needed.
    Run(u64, &'a Arc<AtomicBool>),
    Fail(Error),
}

/// Some work.
pub struct Task {
    /// Does it.
    pub run: Box<dyn FnMut(Order<'_>) -> Done + Send>,
    /// Bytes that it needs to begin.
    pub need: u64,
    /// Whether it may take long.
    pub large: bool,
    /// Whether the result is no longer needed.
    pub abandoned: Arc<AtomicBool>,
    /// Since when it waits; nothing once it has begun.
    pub since: Option<Instant>,
}

impl Task {
    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }
}

struct HelpersState {
    settings: Settings,
    queue: VecDeque<Task>,
    threads: usize,
    /// Threads that wait.
    idle: usize,
    /// Large tasks that run.
    large: usize,
}

struct Pool {
    state: Mutex<HelpersState>,
    wake: Condvar,
}

/// How long work waited for a thread.
static WAITS: LazyLock<Histogram> = LazyLock::new(|| Histogram::new(histogram::HTTP));

/// How long work has waited for a thread, and for its memory.
pub fn waits() -> Snapshot {
    WAITS.snapshot()
}

/// Work that waits now.
pub fn waiting() -> usize {
    lock().queue.len()
}

static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let settings = Settings::default();
    let state = HelpersState { settings, queue: VecDeque::new(), threads: 0, idle: 0, large: 0 };
    Pool { state: Mutex::new(state), wake: Condvar::new() }
});

fn lock() -> MutexGuard<'static, HelpersState> {
    POOL.state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a task behind the others.
///
/// # Errors
/// `Overloaded` where as many wait as may.
pub fn push(task: Task) -> Result<(), Error> {
    let mut state = lock();
    if state.queue.len() >= state.settings.queue {
        state.queue.retain(|task| !task.is_abandoned());
    }
    if state.queue.len() >= state.settings.queue {
        return Err(overloaded("too many expressions and conversions wait for a thread"));
    }
    if state.idle <= state.queue.len() && state.threads < state.settings.threads {
        match spawn(state.settings.begin, &[]) {
            Ok(()) => state.threads += 1,
            Err(_) if state.threads > 0 => {}
            Err(_) => return Err(overloaded("the system has no thread for an expression or a conversion")),
        }
    }
    state.queue.push_back(task);
    drop(state);
    POOL.wake.notify_one();
    Ok(())
}

fn overloaded(reason: &'static str) -> Error {
    Error::new(Kind::Overloaded, reason)
}

/// Starts a thread. One that follows another stays for the first of these times, and the others are for those after it.
fn spawn(begin: fn(), rests: &'static [Duration]) -> std::io::Result<()> {
    let help = move || {
        begin();
        help(rests);
    };
    thread::Builder::new().name("helper".into()).spawn(help).map(drop)
}

impl HelpersState {
    /// The next task that can begin, and the bytes that are reserved for it. One that waits for memory is overtaken by small ones only.
    fn next(&mut self) -> Option<(Task, u64)> {
        self.queue.retain(|task| !task.is_abandoned());
        let most = self.settings.threads.saturating_sub(1).max(1);
        let mut waits = self.large >= most;
        for at in 0..self.queue.len() {
            let task = &self.queue[at];
            let need = task.need.min(memory::capacity());
            if task.large && waits {
                continue;
            }
            if memory::take(need) {
                self.large += usize::from(task.large);
                return self.queue.remove(at).map(|task| (task, need));
            }
            waits = true;
        }
        None
    }
}

/// The life of a thread.
fn help(rests: &'static [Duration]) {
    let mut worked = false;
    let (rest, after) = rests.split_first().map_or((REST, &LAST[..]), |(rest, after)| (*rest, after));
    let mut state = lock();
    loop {
        if let Some((task, reserved)) = state.next() {
            drop(state);
            worked = true;
            state = run(task, reserved);
            // Another task may wait for the memory that it held.
            POOL.wake.notify_all();
            continue;
        }
        state.idle += 1;
        let rest = if worked { REST } else { rest };
        let (woken, slept) = POOL.wake.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner);
        state = woken;
        state.idle -= 1;
        if slept.timed_out() && state.queue.is_empty() {
            break;
        }
    }
    let after = if worked { &LAST[..] } else { after };
    if after.is_empty() || spawn(state.settings.begin, after).is_err() {
        state.threads -= 1;
    }
}

fn run(mut task: Task, reserved: u64) -> MutexGuard<'static, HelpersState> {
    if let Some(since) = task.since.take() {
        WAITS.count(since.elapsed());
    }
    let large = task.large;
    let order = Order::Run(reserved, &task.abandoned.clone());
    let done = catch_unwind(AssertUnwindSafe(|| (task.run)(order))).unwrap_or(Done::Ended);
    let again = match done {
        Done::Ended => None,
        Done::Starved(needed) => Some(needed.saturating_mul(2)),
        Done::Oversized => {
            let reason = "it needs more memory than all expressions and conversions may have (`thread_pool.memory`)";
            (task.run)(Order::Fail(Error::new(Kind::Expression, reason)));
            None
        }
    };
    // Its memory is freed by the thread that allocated it.
    let again = again.map(|need| Task { need, ..task });
    let mut state = lock();
    state.large -= usize::from(large);
    if let Some(task) = again {
        state.queue.push_front(task);
    }
    state
}
