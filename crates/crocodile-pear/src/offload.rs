//! Long work: what reads, evaluates, converts or writes a large document is lent to helper threads.
//!
//! A core serves many connections on one thread, so nothing may hold it for long. Small work runs at once on the
//! core, with a small allowance. Work on a large document, or work that has used up its allowance, goes to a helper
//! thread and starts again there: it must give the same result each time. The helper threads, their queue and their
//! memory are bounded. The meter of `crocodile-pear-jq` counts what work uses.

mod helper_threads;
mod turn;

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub use crocodile_pear_jq::meter::memory::taken;
use crocodile_pear_jq::meter::{self, Done};
pub use crocodile_pear_jq::meter::{Made, SMALL, charge, exhaust, find, grow, hold, is_lent, keep, left};
use futures_util::future::{BoxFuture, Either};
use tokio::sync::oneshot;

use crate::error::{Error, Kind};
use helper_threads::{HelperJob, Task, TaskOrder};
pub use helper_threads::{OffloadSettings, configure, waiting, waits};
use turn::is_spent;
pub use turn::{TURN_UNITS, spend, spent, turn};

/// Work on this many bytes is long: one helper thread is kept free of it.
const LARGE: usize = 1 << 20;

/// Bytes that a parsed document takes for each byte of its text. It is where a reservation begins; what is used is counted.
const PARSED: u64 = 12;

/// Work that was done at once, or that a helper thread does. Small work needs no box.
pub type Work<T> = Either<Ready<Result<T, Error>>, BoxFuture<'static, Result<T, Error>>>;

/// Does some work: here and at once if it is small and the core has done little in its turn, else later or on a helper thread. `weight` is
/// how many bytes it reads.
///
/// # Errors
/// The errors of the work; `Overloaded` where too much waits for helper threads; `Expression` where it needs more memory than all
/// work may have.
pub fn run<T, J>(weight: usize, job: J) -> Work<T>
where
    T: Send + 'static,
    J: Fn() -> Result<T, Error> + Send + 'static,
{
    match begin(weight, &job) {
        Ok(done) => Either::Left(ready(done)),
        Err(later) => later.go_on(weight, job),
    }
}

/// The same for work that borrows what it needs while it is done here; `lent` makes the work for a helper thread.
///
/// # Errors
/// The errors of [`run`].
pub fn run_or<T, J>(weight: usize, here: impl Fn() -> Result<T, Error>, lent: impl FnOnce() -> J) -> Work<T>
where
    T: Send + 'static,
    J: Fn() -> Result<T, Error> + Send + 'static,
{
    match begin(weight, &here) {
        Ok(done) => Either::Left(ready(done)),
        Err(later) => later.go_on(weight, lent()),
    }
}

/// Does some work here, if it is small and the core has done little in its turn.
pub fn attempt<T>(weight: usize, job: impl Fn() -> T) -> Option<T> {
    begin(weight, &job).ok()
}

/// Where work goes on that is not done at once.
enum Later {
    NextTurn,
    Helper { large: bool },
}

fn begin<T>(weight: usize, job: &impl Fn() -> T) -> Result<T, Later> {
    if weight > SMALL {
        return Err(Later::Helper { large: weight >= LARGE });
    }
    if is_spent() {
        return Err(Later::NextTurn);
    }
    // Work that was started here without success is long, however little it reads.
    meter::attempt(job).ok_or(Later::Helper { large: true })
}

impl Later {
    fn go_on<T, J>(self, weight: usize, job: J) -> Work<T>
    where
        T: Send + 'static,
        J: Fn() -> Result<T, Error> + Send + 'static,
    {
        Either::Right(match self {
            Later::NextTurn => Box::pin(in_turn(weight, job)),
            Later::Helper { large } => Box::pin(lend(weight, large, job)),
        })
    }
}

/// Small work of a core that has done enough for this turn: in its next one, or on a helper thread if that is full, too.
async fn in_turn<T, J>(weight: usize, job: J) -> Result<T, Error>
where
    T: Send + 'static,
    J: Fn() -> Result<T, Error> + Send + 'static,
{
    tokio::task::yield_now().await;
    match begin(weight, &job) {
        Ok(done) => done,
        Err(Later::NextTurn) => lend(weight, false, job).await,
        Err(Later::Helper { large }) => lend(weight, large, job).await,
    }
}

async fn lend<T, J>(weight: usize, large: bool, job: J) -> Result<T, Error>
where
    T: Send + 'static,
    J: Fn() -> Result<T, Error> + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let mut sender = Some(sender);
    let mut tell = move |done| {
        // If the client has left, the result is not needed.
        let _ = sender.take().map(|sender| sender.send(done));
    };
    let run = move |order: TaskOrder<'_>| match order {
        TaskOrder::Fail(error) => {
            tell(Err(error));
            Done::Ended
        }
        TaskOrder::Run(reserved, abandoned) => match meter::help(reserved, abandoned, &job) {
            Ok(done) => {
                tell(done);
                Done::Ended
            }
            Err(done) => done,
        },
    };
    let awaited = push(weight, large, Box::new(run))?;
    let done = receiver.await;
    drop(awaited);
    done.unwrap_or_else(|_| Err(Error::new(Kind::Internal, "the work broke its thread")))
}

/// Gives work to the helper threads.
fn push(weight: usize, large: bool, run: Box<HelperJob>) -> Result<CancelOnDrop, Error> {
    let abandoned = Arc::new(AtomicBool::new(false));
    let need = (weight as u64).saturating_mul(PARSED);
    let awaited = CancelOnDrop(abandoned.clone());
    let asker = tokio::task::try_id();
    helper_threads::push(Task { run, asker, need, large, abandoned, since: Some(Instant::now()) })?;
    Ok(awaited)
}

/// Dropped with the future that waits: then the result is not needed.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Evaluates with this many units of work, and this many bytes of results.
///
/// # Errors
/// The errors of the evaluation, and `Kind::Expression` if it exceeds either.
pub fn evaluate<T>(work: u64, growth: u64, job: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    meter::evaluate(work, growth, job)
}

/// Whether work for which nobody waits ends early.
#[cfg(test)]
pub fn gives_up<T>(job: impl Fn() -> T) -> bool {
    meter::help(0, &Arc::new(AtomicBool::new(true)), &job).is_err()
}

#[cfg(test)]
mod tests;
