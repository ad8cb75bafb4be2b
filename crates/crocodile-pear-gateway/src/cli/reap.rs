//! The duty of a container's first process: to collect the processes that others left behind.

use std::io;

use rustix::process::{WaitOptions, wait};
use tokio::signal::unix::{SignalKind, signal};

use crate::runtime::threads::{event_loop, start};

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
    let runtime = event_loop()?;
    let mut ended = {
        let _within = runtime.enter();
        signal(SignalKind::child())?
    };
    let collect = async move {
        // Some may have ended before the signal was listened for.
        loop {
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            if ended.recv().await.is_none() {
                return;
            }
        }
    };
    start("reap", move || runtime.block_on(collect)).map(drop)
}
