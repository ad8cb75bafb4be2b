//! The work and memory that this thread has used, and may use.
//!
//! A thread that serves others too has a small budget. There, [`attempt`] gives work up that is long, so that it can begin anew on
//! another thread, in [`help`]: with a large budget, memory of the account [`memory`], and pauses for other threads.
//!
//! ```
//! use std::sync::Arc;
//!
//! use crocodile_pear_jq::{Filter, Kind, meter, null};
//!
//! let filter = Filter::compile("[range(100000)] | add", &[]).expect("an expression");
//! let sum = || filter.run_one(null(), &mut |_| null());
//! assert_eq!(sum().unwrap_err().kind(), Kind::Expression);
//! assert!(meter::attempt(&sum).is_none());
//!
//! let needed = Arc::default();
//! let sum = std::thread::spawn(move || meter::help(0, &needed, &|| filter.run_one(null(), &mut |_| null())));
//! let sum = sum.join().unwrap().expect("memory for it")?;
//! assert_eq!(sum, Some(4_999_950_000_isize.into()));
//! # Ok::<(), crocodile_pear_jq::Error>(())
//! ```
//!
//! Work that must stop is unwound, not given an error: expressions catch errors, and would continue. A program that aborts on a
//! panic aborts then, too.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Kind};

pub mod memory;

/// The most bytes that are read on the thread that asks for them: half a millisecond of JSON, one or two of XML.
pub const SMALL: usize = 64 << 10;

/// Units of work on a thread that serves others too: one millisecond of usual steps, five of the dearest.
const CORE: u64 = 25_000;

/// Bytes that it may make until then.
const TRIAL_BYTES: u64 = 1 << 20;

/// Bytes that readers may make in a trial: several times as many as for a usual document of the largest size that is read there.
const TRIAL_HELD: u64 = 4 << 20;

/// Units until a helper thread looks whether others wait for its core.
const SLICE: u64 = 2_000;

/// Bytes that are counted at a time.
const BYTES: u64 = 64 << 10;

/// Bytes that a reader makes until they are counted.
const COUNTED: usize = 32 << 10;

/// Bytes that are reserved at a time.
const RESERVE: u64 = 1 << 20;

/// How long a helper thread computes before it asks whether somebody waits for its core. The system itself asks only every few
/// milliseconds.
const TURN: Duration = Duration::from_micros(250);

/// The longest time that it computes without asking. It asks everybody on the machine: where others keep its core for long, it
/// keeps the core as long, or its work would take a hundred times as long beside two busy programs.
const LONGEST_TURN: Duration = Duration::from_millis(4);

/// Where work runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkPlace {
    /// On a thread that serves others too, to its end.
    Core,
    /// There as well, and elsewhere if it is long.
    Trial,
    /// On a helper thread.
    Helper,
}

struct Meter {
    place: Cell<WorkPlace>,
    /// Units until the next check, and those after it.
    slice: Cell<u64>,
    work: Cell<u64>,
    /// The same of bytes that an evaluation makes.
    bytes: Cell<u64>,
    growth: Cell<u64>,
    /// The rest of a trial: units, and bytes that readers make.
    trial: Cell<u64>,
    held: Cell<u64>,
    /// Bytes that are reserved, and those of them that are not used.
    reserved: Cell<u64>,
    spare: Cell<u64>,
    since: Cell<Option<Instant>>,
    /// How long it computes until it asks again.
    turn: Cell<Duration>,
    abandoned: RefCell<Option<Arc<AtomicBool>>>,
    kept: RefCell<Vec<Box<dyn Any>>>,
}

thread_local! {
    static METER: Meter = const {
        Meter {
            place: Cell::new(WorkPlace::Core),
            slice: Cell::new(0),
            work: Cell::new(0),
            bytes: Cell::new(0),
            growth: Cell::new(0),
            trial: Cell::new(0),
            held: Cell::new(0),
            reserved: Cell::new(0),
            spare: Cell::new(0),
            since: Cell::new(None),
            turn: Cell::new(TURN),
            abandoned: RefCell::new(None),
            kept: RefCell::new(Vec::new()),
        }
    };
}

/// The function that learns what evaluations have spent.
static OBSERVER: OnceLock<fn(u64)> = OnceLock::new();

/// The outcome of work that was begun.
#[derive(Debug)]
pub enum Done {
    /// The work has ended.
    Ended,
    /// Others held the memory that it needed: this many bytes so far.
    Starved(u64),
    /// The work needs more memory than all work may have.
    Oversized,
}

/// Why an evaluation ends early, which fails.
struct Exhausted(&'static str);

/// Why work ends early, and may start again.
enum Stopped {
    /// The work is long.
    Long,
    /// Others hold the memory that it needs: this much in total.
    Starved(u64),
    /// The work needs more memory than all work may have.
    Oversized,
    /// Its result is no longer needed.
    Abandoned,
}

/// Does work here, as long as it is small.
pub fn attempt<T>(job: &impl Fn() -> T) -> Option<T> {
    // Put here by the job itself: a large result is not handed from one caller to the next.
    let mut done = None;
    try_here(&mut || done = Some(job()));
    done
}

fn try_here(job: &mut dyn FnMut()) {
    let outcome = METER.with(|meter| {
        let before = meter.place.replace(WorkPlace::Trial);
        meter.trial.set(CORE);
        meter.held.set(TRIAL_HELD);
        let outcome = catch_unwind(AssertUnwindSafe(job));
        meter.place.set(before);
        outcome
    });
    if let Err(payload) = outcome
        && !payload.is::<Stopped>()
    {
        resume_unwind(payload);
    }
}

/// Does work on a helper thread, with this many bytes reserved by [`memory::take`]. They are released at its end, and with them what it
/// has reserved meanwhile. Where `abandoned` is set, the work ends early.
///
/// # Errors
/// Why there is no result. Work that is [`Done::Starved`] may begin anew when there is more memory.
pub fn help<T>(reserved: u64, abandoned: &Arc<AtomicBool>, job: &impl Fn() -> T) -> Result<T, Done> {
    let mut done = None;
    run(reserved, abandoned, &mut || done = Some(job()))?;
    done.ok_or(Done::Ended)
}

fn run(reserved: u64, abandoned: &Arc<AtomicBool>, job: &mut dyn FnMut()) -> Result<(), Done> {
    METER.with(|meter| {
        meter.place.set(WorkPlace::Helper);
        meter.reserved.set(reserved);
        meter.spare.set(reserved);
        meter.since.set(Some(Instant::now()));
        meter.turn.set(TURN);
        *meter.abandoned.borrow_mut() = Some(abandoned.clone());
        // Nothing that it worked with is looked at again.
        let done = catch_unwind(AssertUnwindSafe(job));
        meter.place.set(WorkPlace::Core);
        meter.kept.borrow_mut().clear();
        let used = meter.reserved.replace(0);
        memory::give(used);
        done.map_err(|payload| match payload.downcast_ref::<Stopped>() {
            Some(Stopped::Oversized) => Done::Oversized,
            Some(Stopped::Starved(needed)) => Done::Starved(*needed),
            _ => Done::Ended,
        })
    })
}

/// Evaluates with this many units of work, and this many bytes of results.
///
/// # Errors
/// The errors of the evaluation, and `Kind::Expression` if it exceeds either.
pub fn evaluate<T, E: From<Error>>(work: u64, growth: u64, job: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    METER.with(|meter| {
        let (work, growth, slice) = match meter.place.get() {
            WorkPlace::Core => (work.min(CORE), growth, work.min(CORE)),
            WorkPlace::Trial => (work.min(meter.trial.get()), growth.min(TRIAL_BYTES), work.min(meter.trial.get())),
            WorkPlace::Helper => (work, growth, work.min(SLICE)),
        };
        meter.slice.set(slice);
        meter.work.set(work - slice);
        meter.bytes.set(0);
        meter.growth.set(growth);
        let done = catch_unwind(AssertUnwindSafe(job));
        // What was stopped has used all: it asked for more than was left.
        let left = if done.is_ok() { meter.slice.get() + meter.work.get() } else { 0 };
        let used = work - left;
        meter.trial.set(meter.trial.get().saturating_sub(used));
        if meter.place.get() != WorkPlace::Helper {
            tell(used);
        }
        done.unwrap_or_else(|payload| {
            if payload.is::<Stopped>() {
                resume_unwind(payload);
            }
            let reason = payload.downcast_ref::<Exhausted>().map_or("the expression broke its engine", |it| it.0);
            Err(Error::new(Kind::Expression, reason).into())
        })
    })
}

/// Sets the function that learns how many units an evaluation has spent, on the thread where it ends, unless that is a helper thread. The
/// first function that is set stays.
pub fn observe(observer: fn(u64)) {
    let _ = OBSERVER.set(observer);
}

fn tell(units: u64) {
    if let Some(observer) = OBSERVER.get() {
        observer(units);
    }
}

/// Takes units of work.
#[inline]
pub fn charge(units: usize) {
    METER.with(|meter| match meter.slice.get().checked_sub(units as u64) {
        Some(left) => meter.slice.set(left),
        None => meter.refill(units as u64),
    });
}

/// Units that are left.
#[inline]
pub fn left() -> u64 {
    METER.with(|meter| meter.slice.get() + meter.work.get())
}

/// Takes bytes that an evaluation makes.
#[inline]
pub fn grow(bytes: usize) {
    METER.with(|meter| match meter.bytes.get().checked_sub(bytes as u64) {
        Some(left) => meter.bytes.set(left),
        None => meter.swell(bytes as u64),
    });
}

/// Counts bytes that a reader makes of its input.
#[inline]
pub fn hold(bytes: usize) {
    METER.with(|meter| match meter.place.get() {
        WorkPlace::Helper => {
            meter.reserve(bytes as u64);
            meter.give_way();
        }
        WorkPlace::Trial => match meter.held.get().checked_sub(bytes as u64) {
            Some(left) => meter.held.set(left),
            // The document is small, but much is made of it.
            None => resume_unwind(Box::new(Stopped::Long)),
        },
        WorkPlace::Core => {}
    });
}

/// Counts the bytes that a reader makes of its input, in portions. On a helper thread each portion reserves memory, lets other threads
/// work, and ends the work if nobody waits for it any more.
#[derive(Default)]
pub struct Made(usize);

impl Made {
    /// Counts bytes.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.0 += bytes;
        if self.0 > COUNTED {
            hold(std::mem::take(&mut self.0));
        }
    }
}

/// Gives up the evaluation.
pub fn exhaust(reason: &'static str) -> ! {
    METER.with(|meter| meter.exhaust(reason))
}

/// Whether this is a helper thread at work: what it makes is best written here too.
#[inline]
pub fn is_lent() -> bool {
    METER.with(|meter| meter.place.get() == WorkPlace::Helper)
}

/// Keeps something until the work of this helper thread has ended. Elsewhere it is dropped.
pub fn keep(thing: impl Any) {
    METER.with(|meter| {
        if meter.place.get() == WorkPlace::Helper {
            meter.kept.borrow_mut().push(Box::new(thing));
        }
    });
}

/// Finds what was kept.
pub fn find<T: Any, F>(pick: impl Fn(&T) -> Option<F>) -> Option<F> {
    METER.with(|meter| meter.kept.borrow().iter().filter_map(|kept| kept.downcast_ref()).find_map(pick))
}

/// How long a helper thread computes after others had its core for so long.
fn turn_after(waited: Duration) -> Duration {
    waited.clamp(TURN, LONGEST_TURN)
}

impl Meter {
    #[cold]
    fn refill(&self, units: u64) {
        let due = units - self.slice.get();
        let Some(rest) = self.work.get().checked_sub(due) else {
            self.exhaust("the expression does not end within its budget")
        };
        let next = rest.min(SLICE);
        self.slice.set(next);
        self.work.set(rest - next);
        self.give_way();
    }

    #[cold]
    fn swell(&self, bytes: u64) {
        let due = bytes - self.bytes.get();
        let Some(rest) = self.growth.get().checked_sub(due) else {
            self.exhaust("the expression makes more data than its budget")
        };
        let next = rest.min(BYTES);
        self.bytes.set(next);
        self.growth.set(rest - next);
        if self.place.get() == WorkPlace::Helper {
            self.reserve(due + next);
        }
    }

    fn reserve(&self, bytes: u64) {
        if let Some(spare) = self.spare.get().checked_sub(bytes) {
            return self.spare.set(spare);
        }
        let due = bytes - self.spare.get();
        let more = due.max(RESERVE);
        if !memory::take(more) {
            let needed = self.reserved.get() + due;
            let stopped = if needed > memory::capacity() { Stopped::Oversized } else { Stopped::Starved(needed) };
            resume_unwind(Box::new(stopped));
        }
        self.reserved.set(self.reserved.get() + more);
        self.spare.set(more - due);
    }

    fn give_way(&self) {
        if self.since.get().is_none_or(|since| since.elapsed() < self.turn.get()) {
            return;
        }
        if self.abandoned.borrow().as_ref().is_some_and(|abandoned| abandoned.load(Ordering::Relaxed)) {
            resume_unwind(Box::new(Stopped::Abandoned));
        }
        let before = Instant::now();
        thread::yield_now();
        let now = Instant::now();
        self.turn.set(turn_after(now - before));
        self.since.set(Some(now));
    }

    fn exhaust(&self, reason: &'static str) -> ! {
        match self.place.get() {
            WorkPlace::Trial => resume_unwind(Box::new(Stopped::Long)),
            WorkPlace::Core | WorkPlace::Helper => resume_unwind(Box::new(Exhausted(reason))),
        }
    }
}

/// Does long work on this thread, as a helper thread would.
#[cfg(test)]
pub fn alone<T>(job: impl FnOnce() -> T) -> T {
    let job = Cell::new(Some(job));
    help(0, &Arc::default(), &|| job.take().map(|job| job())).ok().flatten().expect("memory for it")
}

/// Whether work for which nobody waits ends early.
#[cfg(test)]
pub fn gives_up<T>(job: impl Fn() -> T) -> bool {
    help(0, &Arc::new(AtomicBool::new(true)), &job).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waited_for_others_has_its_core_as_long_within_a_bound() {
        for (waited, turn) in [(0, 250), (10, 250), (300, 300), (3_000, 3_000), (60_000, 4_000)] {
            assert_eq!(turn_after(Duration::from_micros(waited)), Duration::from_micros(turn));
        }
    }
}
