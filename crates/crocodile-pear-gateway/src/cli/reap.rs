//! The duty of a container's first process: to collect the processes that others left behind.

use std::io;
use std::thread;

use rustix::process::{WaitOptions, wait};
use tokio::signal::unix::{SignalKind, signal};

/// The number of the process that inherits all others.
const FIRST: u32 = 1;

/// Begins to collect them, if this is the first process. A gateway starts no processes, so none of its own can be lost.
pub fn begin() {
    if std::process::id() != FIRST {
        return;
    }
    if let Err(error) = try_begin() {
        tracing::warn!(%error, "cannot collect processes that have ended");
    }
}

fn try_begin() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut ended = {
        let _within = runtime.enter();
        signal(SignalKind::child())?
    };
    thread::Builder::new().name("reap".into()).spawn(move || {
        runtime.block_on(async {
            // Some may have ended before the signal was listened for.
            loop {
                while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
                if ended.recv().await.is_none() {
                    return;
                }
            }
        });
    })?;
    Ok(())
}
