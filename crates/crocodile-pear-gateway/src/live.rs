//! The gateway that serves now: swapped whole by a reload, seen by each core without a lock.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crocodile_pear::flow::Body;

use crate::gateway::Gateway;
use crate::health::Checks;
use crate::metrics::Metrics;
use crate::respond;
use crate::server::{ClientRequest, Connection, Handler, Refusal, Reply};

/// The gateway that serves now, and what is counted over all of them.
pub struct Live {
    generation: AtomicU64,
    current: Mutex<Arc<Gateway>>,
    checks: Mutex<Option<Checks>>,
    metrics: Metrics,
}

impl Live {
    /// The first gateway.
    pub fn new(gateway: Gateway) -> Self {
        Live {
            generation: AtomicU64::new(1),
            checks: Mutex::new(Checks::begin(&gateway)),
            current: Mutex::new(Arc::new(gateway)),
            metrics: Metrics::default(),
        }
    }

    /// Serves new requests with another gateway; those in flight end with theirs.
    pub fn replace(&self, gateway: Gateway) {
        // Those of the old one end here.
        *self.checks.lock().unwrap_or_else(PoisonError::into_inner) = Checks::begin(&gateway);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(gateway);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The gateway that serves now.
    pub fn current(&self) -> Arc<Gateway> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

thread_local! {
    /// This core's copy, and its generation. The lock of `Live` is taken once a reload, not once a request.
    static SEEN: RefCell<Option<(u64, Arc<Gateway>)>> = const { RefCell::new(None) };
}

/// The handler of one core.
pub struct Core {
    live: Arc<Live>,
    index: usize,
    access: bool,
}

impl Core {
    /// The handler of the core with this index; `access` writes a line for each request.
    pub fn new(live: Arc<Live>, index: usize, access: bool) -> Self {
        Core { live, index, access }
    }

    fn gateway(&self) -> Arc<Gateway> {
        let generation = self.live.generation.load(Ordering::Acquire);
        SEEN.with_borrow_mut(|seen| match seen {
            Some((known, gateway)) if *known == generation => gateway.clone(),
            _ => seen.insert((generation, self.live.current())).1.clone(),
        })
    }
}

impl Handler for Core {
    async fn handle(&self, request: ClientRequest) -> Reply {
        let gateway = self.gateway();
        let line =
            self.access.then(|| (std::time::Instant::now(), request.method.clone(), request.target.path().to_owned()));
        let response = gateway.handle(request).await;
        self.live.metrics.count(self.index, response.status());
        if let Some((began, method, path)) = line {
            let (status, ms) = (response.status().as_u16(), began.elapsed().as_secs_f64() * 1000.0);
            tracing::info!(target: "crocodile_pear::access", %method, path, status, head_ms = ms);
        }
        response.map(Body::Pulled).into()
    }

    fn refuse(&self, refusal: Refusal, _: &Arc<Connection>) -> Reply {
        respond::refusal(&refusal).into()
    }
}
