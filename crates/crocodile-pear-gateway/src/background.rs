//! What goes on beside the requests: files that are watched, keys that are fetched. One thread for each gateway, for as
//! long as it serves.

use std::thread;

use futures_util::future::{BoxFuture, join_all, select};
use tokio::runtime;
use tokio::sync::oneshot;

/// Work that goes on until the gateway is replaced.
pub type Task = BoxFuture<'static, ()>;

/// The tasks of one gateway. They end when this is dropped.
pub struct Background {
    _running: oneshot::Sender<()>,
}

impl Background {
    /// Starts them; `None` if there are none.
    pub fn begin(tasks: Vec<Task>) -> Option<Self> {
        if tasks.is_empty() {
            return None;
        }
        let (running, stopped) = oneshot::channel();
        let work = move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
            drop(runtime.block_on(select(join_all(tasks), stopped)));
            std::io::Result::Ok(())
        };
        let told = move || {
            if let Err(error) = work() {
                tracing::warn!(%error, "cannot watch files or fetch keys");
            }
        };
        match thread::Builder::new().name("background".into()).spawn(told) {
            Ok(_) => Some(Background { _running: running }),
            Err(error) => {
                tracing::warn!(%error, "cannot start the thread that watches files and fetches keys");
                None
            }
        }
    }
}
