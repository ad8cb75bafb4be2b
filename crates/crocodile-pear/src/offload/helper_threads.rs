//! The helper threads and their queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crocodile_pear_jq::meter::{Done, memory};
use tokio::task::Id;

use crate::error::{Error, Kind};
use crate::telemetry::histogram::{self, Histogram, Snapshot};

/// The most queues of tasks, unless configured.
const QUEUE: usize = 128;

/// How long a thread without work stays. It leaves so that the allocator gets back what the thread freed.
const REST: Duration = Duration::from_millis(500);

/// How long those after it stay, one after the other. The allocator returns memory to the system a second after it became free, and looks when a
/// thread ends: some memory becomes free only when a client has read its answer.
const LAST: [Duration; 3] = [Duration::from_millis(1500), Duration::from_millis(2500), Duration::from_millis(4000)];

/// How much long work there may be at once.
#[derive(Clone, Debug)]
pub struct OffloadSettings {
    /// Helper threads. Where there are several, one does only work on documents of less than 1 MiB.
    pub threads: usize,
    /// Askers whose work may wait for one.
    pub queue: usize,
    /// Bytes that all of it may have.
    pub memory: u64,
    /// A function that each thread calls first.
    pub begin: fn(),
}

impl Default for OffloadSettings {
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from).max(2);
        OffloadSettings { threads, queue: QUEUE, memory: memory::MEMORY, begin: || {} }
    }
}

/// Sets how much there may be, from now on.
pub fn configure(settings: OffloadSettings) {
    memory::set_capacity(settings.memory);
    lock().settings = settings;
}

pub enum TaskOrder<'a> {
    /// Run, with this many bytes reserved, until the result is no longer needed.
    Run(u64, &'a Arc<AtomicBool>),
    Fail(Error),
}

/// The function that does some work.
pub type HelperJob = dyn FnMut(TaskOrder<'_>) -> Done + Send;

/// Some work.
pub struct Task {
    /// Does it.
    pub run: Box<HelperJob>,
    /// The task of the runtime that asks for it. All who ask outside of tasks have one queue.
    pub asker: Option<Id>,
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

/// The work of one asker, in order.
struct TaskQueue {
    asker: Option<Id>,
    tasks: VecDeque<Task>,
}

/// The work that waits. The queues have their turn one after the other, so that a request with a thousand items does not hold up the others.
#[derive(Default)]
struct TaskQueues {
    queues: VecDeque<TaskQueue>,
    tasks: usize,
}

struct HelpersState {
    settings: OffloadSettings,
    queues: TaskQueues,
    threads: usize,
    /// Threads that wait.
    idle: usize,
    /// Large tasks that run.
    large: usize,
}

struct HelperPool {
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
    lock().queues.tasks
}

static POOL: LazyLock<HelperPool> = LazyLock::new(|| {
    let settings = OffloadSettings::default();
    let state = HelpersState { settings, queues: TaskQueues::default(), threads: 0, idle: 0, large: 0 };
    HelperPool { state: Mutex::new(state), wake: Condvar::new() }
});

fn lock() -> MutexGuard<'static, HelpersState> {
    POOL.state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TaskQueues {
    fn queue(&mut self, asker: Option<Id>) -> Option<&mut TaskQueue> {
        self.queues.iter_mut().find(|queue| queue.asker == asker)
    }

    /// Whether the queue of this asker is one of so many.
    fn has_room(&mut self, asker: Option<Id>, most: usize) -> bool {
        if self.queue(asker).is_none() && self.queues.len() >= most {
            self.queues.retain_mut(|queue| {
                queue.tasks.retain(|task| !task.is_abandoned());
                !queue.tasks.is_empty()
            });
            self.tasks = self.queues.iter().map(|queue| queue.tasks.len()).sum();
        }
        self.queues.len() < most || self.queue(asker).is_some()
    }

    fn push(&mut self, task: Task) {
        self.tasks += 1;
        match self.queue(task.asker) {
            Some(queue) => queue.tasks.push_back(task),
            None => self.queues.push_back(TaskQueue { asker: task.asker, tasks: [task].into() }),
        }
    }

    /// Puts a task back to where it was taken from.
    fn put_back(&mut self, task: Task) {
        self.tasks += 1;
        match self.queue(task.asker) {
            Some(queue) => queue.tasks.push_front(task),
            None => self.queues.push_front(TaskQueue { asker: task.asker, tasks: [task].into() }),
        }
    }

    /// Takes the first task that fits, and drops those that nobody waits for on the way there.
    fn take(&mut self, mut fits: impl FnMut(&Task) -> bool) -> Option<Task> {
        let (mut at, mut taken) = (0, None);
        while taken.is_none()
            && let Some(queue) = self.queues.get_mut(at)
        {
            // The whole queue would be looked at for each of its tasks.
            while queue.tasks.front().is_some_and(Task::is_abandoned) {
                queue.tasks.pop_front();
                self.tasks -= 1;
            }
            let place = queue.tasks.iter().position(|task| !task.is_abandoned() && fits(task));
            taken = place.and_then(|place| queue.tasks.remove(place));
            match taken {
                _ if queue.tasks.is_empty() => drop(self.queues.remove(at)),
                // Its next turn comes after those of the others.
                Some(_) => {
                    let queue = self.queues.remove(at);
                    self.queues.extend(queue);
                }
                None => at += 1,
            }
        }
        self.tasks -= usize::from(taken.is_some());
        taken
    }
}

/// Puts a task behind the others of its asker.
///
/// # Errors
/// `Overloaded` where as many askers wait as may.
pub fn push(task: Task) -> Result<(), Error> {
    let mut state = lock();
    let most = state.settings.queue;
    if !state.queues.has_room(task.asker, most) {
        return Err(overloaded("too many expressions and conversions wait for a thread"));
    }
    if state.idle <= state.queues.tasks && state.threads < state.settings.threads {
        match spawn(state.settings.begin, &[]) {
            Ok(()) => state.threads += 1,
            Err(_) if state.threads > 0 => {}
            Err(_) => return Err(overloaded("the system has no thread for an expression or a conversion")),
        }
    }
    state.queues.push(task);
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
        let most = self.settings.threads.saturating_sub(1).max(1);
        let (mut waits, mut reserved) = (self.large >= most, 0);
        let task = self.queues.take(|task| {
            if task.large && waits {
                return false;
            }
            reserved = task.need.min(memory::capacity());
            let fits = memory::take(reserved);
            waits |= !fits;
            fits
        })?;
        self.large += usize::from(task.large);
        Some((task, reserved))
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
        if slept.timed_out() && state.queues.tasks == 0 {
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
    let order = TaskOrder::Run(reserved, &task.abandoned.clone());
    let done = catch_unwind(AssertUnwindSafe(|| (task.run)(order))).unwrap_or(Done::Ended);
    let again = match done {
        Done::Ended => None,
        Done::Starved(needed) => Some(needed.saturating_mul(2)),
        Done::Oversized => {
            let reason = "it needs more memory than all expressions and conversions may have (`thread_pool.memory`)";
            (task.run)(TaskOrder::Fail(Error::new(Kind::Expression, reason)));
            None
        }
    };
    // Its memory is freed by the thread that allocated it.
    let again = again.map(|need| Task { need, ..task });
    let mut state = lock();
    state.large -= usize::from(large);
    if let Some(task) = again {
        state.queues.put_back(task);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(asker: Option<Id>, need: u64) -> Task {
        let (run, abandoned) = (Box::new(|_: TaskOrder<'_>| Done::Ended), Arc::default());
        Task { run, asker, need, large: false, abandoned, since: None }
    }

    /// The tasks of some askers, each marked by its need.
    async fn askers<const N: usize>() -> [Option<Id>; N] {
        let mut ids = [None; N];
        for id in &mut ids {
            *id = tokio::spawn(async { tokio::task::try_id() }).await.expect("an id");
        }
        ids
    }

    fn taken(queues: &mut TaskQueues) -> Vec<u64> {
        std::iter::from_fn(|| queues.take(|_| true)).map(|task| task.need).collect()
    }

    #[tokio::test]
    async fn askers_have_their_turn_whoever_asks_for_more() {
        let [many, one, other] = askers().await;
        let mut queues = TaskQueues::default();
        for need in 0..4 {
            queues.push(task(many, need));
        }
        queues.push(task(one, 10));
        queues.push(task(other, 20));
        queues.push(task(other, 21));
        assert_eq!(taken(&mut queues), [0, 10, 20, 1, 21, 2, 3]);
        assert_eq!((queues.tasks, queues.queues.len()), (0, 0));
    }

    #[tokio::test]
    async fn one_asker_has_room_for_all_that_it_asks_for() {
        let [many, other] = askers().await;
        let mut queues = TaskQueues::default();
        for need in 0..1_000 {
            assert!(queues.has_room(many, 1));
            queues.push(task(many, need));
        }
        assert!(!queues.has_room(other, 1) && !queues.has_room(None, 1) && queues.has_room(other, 2));
        queues.queues[0].tasks.iter().for_each(|task| task.abandoned.store(true, Ordering::Relaxed));
        assert!(queues.has_room(other, 1), "nobody waits for the others");
        assert_eq!(queues.tasks, 0);
    }

    #[tokio::test]
    async fn what_does_not_fit_is_overtaken_and_what_nobody_waits_for_is_dropped() {
        let [one, other] = askers().await;
        let mut queues = TaskQueues::default();
        for (asker, need) in [(one, 9), (one, 1), (other, 8), (None, 2), (None, 3)] {
            queues.push(task(asker, need));
        }
        queues.queues[1].tasks[0].abandoned.store(true, Ordering::Relaxed);
        let mut small = || queues.take(|task| task.need < 5).map(|task| task.need);
        assert_eq!([small(), small(), small(), small()], [Some(1), Some(2), Some(3), None]);
        let large = queues.take(|_| true).expect("the one that did not fit");
        queues.put_back(large);
        assert_eq!((taken(&mut queues), queues.tasks), (vec![9], 0));
    }
}
