//! Tasks beside the requests: files that are watched, keys that are fetched. One thread for all gateways.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio::runtime::{self, Runtime};
use tokio::task::AbortHandle;

/// Work that goes on until the gateway is replaced.
pub type Task = BoxFuture<'static, ()>;

/// Work of a gateway. It goes on for as long as a gateway has it, from one to the next where both have the same.
pub struct Work(Mutex<TaskStage>);

enum TaskStage {
    /// The task begins with the gateway.
    Waits(Task),
    Runs(AbortHandle),
    /// There is no thread for it.
    Never,
}

impl Work {
    /// Work that has not begun.
    pub fn new(task: Task) -> Self {
        Work(Mutex::new(TaskStage::Waits(task)))
    }

    fn begin(&self, runtime: Option<&Runtime>) {
        let mut stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *stage = match (std::mem::replace(&mut *stage, TaskStage::Never), runtime) {
            (TaskStage::Waits(task), Some(runtime)) => TaskStage::Runs(runtime.spawn(task).abort_handle()),
            (TaskStage::Waits(_), None) => TaskStage::Never,
            (stage, _) => stage,
        };
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let TaskStage::Runs(running) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner) {
            running.abort();
        }
    }
}

/// State, and the work that it needs.
pub struct Worked<T> {
    pub state: Arc<T>,
    pub work: Arc<Work>,
}

impl<T> Worked<T> {
    pub fn new(state: Arc<T>, task: Task) -> Self {
        Worked { state, work: Arc::new(Work::new(task)) }
    }
}

/// The work of the gateway that serves.
#[derive(Default)]
pub struct Background {
    runtime: Option<Runtime>,
    works: Vec<Arc<Work>>,
}

impl Background {
    /// Does this work from now on. What goes on already is not disturbed; other work ends.
    pub fn follow(&mut self, works: Vec<Arc<Work>>) {
        if !works.is_empty() && self.runtime.is_none() {
            match start() {
                Ok(runtime) => self.runtime = Some(runtime),
                Err(error) => tracing::error!(%error, "cannot start the thread that watches files and fetches keys"),
            }
        }
        works.iter().for_each(|work| work.begin(self.runtime.as_ref()));
        self.works = works;
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

fn start() -> io::Result<Runtime> {
    runtime::Builder::new_multi_thread().worker_threads(1).thread_name("background").enable_all().build()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::tasks::*;

    /// Work that says when it has begun, and when it has ended.
    fn work() -> (Arc<Work>, oneshot::Receiver<()>, oneshot::Receiver<()>) {
        let (begun, begins) = oneshot::channel();
        let (held, ends) = oneshot::channel::<()>();
        let task = async move {
            let _held = held;
            let _ = begun.send(());
            std::future::pending::<()>().await;
        };
        (Arc::new(Work::new(Box::pin(task))), begins, ends)
    }

    #[test]
    fn work_goes_on_as_long_as_a_gateway_has_it() {
        let mut background = Background::default();
        let (kept, begins, mut ends) = work();
        let (left, other_begins, other_ends) = work();
        background.follow(vec![kept.clone(), left]);
        begins.blocking_recv().expect("it begins");
        other_begins.blocking_recv().expect("it begins");
        background.follow(vec![kept]);
        other_ends.blocking_recv().expect_err("it ends");
        assert_eq!(ends.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        background.follow(Vec::new());
        ends.blocking_recv().expect_err("it ends too");
    }
}
