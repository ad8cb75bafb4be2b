//! Active health checks: one thread beside the cores, for as long as the gateway of a configuration serves.

use crocodile_pear::unstable::upstream::ReadyUpstream;
use futures_util::future::{join_all, select};
use tokio::sync::oneshot;

use crate::gateway::Gateway;
use crate::runtime::threads::{event_loop, start};

/// The health checks of one gateway's upstreams. They end when this is dropped.
pub struct Checks {
    _running: oneshot::Sender<()>,
}

impl Checks {
    /// Starts them; `None` if no upstream has health checks.
    pub fn begin(gateway: &Gateway) -> Option<Self> {
        let watches: Vec<_> = gateway.upstreams().values().filter_map(ReadyUpstream::watch).collect();
        if watches.is_empty() {
            return None;
        }
        let (running, stopped) = oneshot::channel();
        let check = move || {
            let runtime = event_loop()?;
            let checks = Box::pin(join_all(watches));
            drop(runtime.block_on(select(checks, stopped)));
            std::io::Result::Ok(())
        };
        let told = move || {
            if let Err(error) = check() {
                tracing::warn!(%error, "cannot run health checks");
            }
        };
        match start("health", told) {
            Ok(_) => Some(Checks { _running: running }),
            Err(error) => {
                tracing::warn!(%error, "cannot run health checks");
                None
            }
        }
    }
}
