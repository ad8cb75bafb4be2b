//! The gateway that serves now. A reload replaces it as a whole; each core reads it without a lock.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderValue;
use tokio::sync::watch;

use crate::gateway::Gateway;
use crate::gateway::config_status::Configured;
use crate::gateway::health_checks::Checks;
use crate::runtime::tasks::Background;
use crate::server::{ClientRequest, Connection, Handler, Refusal, Reply};
use crate::shared::events::EventSources;
use crate::telemetry::metrics;

/// The gateway that serves now.
pub struct Live {
    generation: AtomicU64,
    current: Mutex<Arc<Gateway>>,
    /// Tells the cores about a new gateway.
    replaced: watch::Sender<()>,
    checks: Mutex<Option<Checks>>,
    background: Mutex<Background>,
    events: Mutex<EventSources>,
    configured: Configured,
}

impl Live {
    /// The first gateway.
    pub fn new(gateway: Gateway) -> Self {
        gateway.begin();
        let mut events = EventSources::default();
        events.follow(gateway.take_events(), gateway.cache(), gateway.metrics());
        let mut background = Background::default();
        background.follow(gateway.take_works());
        Live {
            events: Mutex::new(events),
            configured: Configured::default(),
            generation: AtomicU64::new(1),
            checks: Mutex::new(Checks::begin(&gateway)),
            background: Mutex::new(background),
            current: Mutex::new(Arc::new(gateway)),
            replaced: watch::Sender::default(),
        }
    }

    /// Replaces the gateway. Requests in flight end with the old one, which is returned so that no core has to free it.
    pub fn replace(&self, gateway: Gateway) -> Arc<Gateway> {
        gateway.begin();
        // Stops the health checks of the old gateway.
        *self.checks.lock().unwrap_or_else(PoisonError::into_inner) = Checks::begin(&gateway);
        self.background.lock().unwrap_or_else(PoisonError::into_inner).follow(gateway.take_works());
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.follow(gateway.take_events(), gateway.cache(), gateway.metrics());
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, Arc::new(gateway));
        old.end(&current);
        drop(current);
        self.generation.fetch_add(1, Ordering::Release);
        self.replaced.send_replace(());
        old
    }

    /// The state of its configuration.
    pub(crate) fn configured(&self) -> &Configured {
        &self.configured
    }

    /// The gateway that serves now.
    pub fn current(&self) -> Arc<Gateway> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Each core's own reference to the gateway: with one shared `Arc`, all cores would write to the same count.
type OwnGateway = Arc<Arc<Gateway>>;

thread_local! {
    /// This core's reference and its generation. The lock of `Live` is taken once per reload, not once per request.
    static SEEN: RefCell<Option<(u64, OwnGateway)>> = const { RefCell::new(None) };
}

/// The handler of one core.
pub struct CoreHandler(Arc<Live>);

impl CoreHandler {
    /// The handler for the core with this index. Must run on that core's thread.
    pub fn new(live: Arc<Live>, index: usize) -> Self {
        metrics::begin_core(index);
        tokio::spawn(live.current().metrics().watch_core(index));
        tokio::spawn(let_go(live.replaced.subscribe()));
        CoreHandler(live)
    }

    fn gateway(&self) -> OwnGateway {
        let generation = self.0.generation.load(Ordering::Acquire);
        SEEN.with_borrow_mut(|seen| match seen {
            Some((known, gateway)) if *known == generation => gateway.clone(),
            _ => seen.insert((generation, Arc::new(self.0.current()))).1.clone(),
        })
    }
}

/// Drops this core's reference to each replaced gateway. A core without requests would otherwise keep it.
async fn let_go(mut replaced: watch::Receiver<()>) {
    while replaced.changed().await.is_ok() {
        drop(SEEN.take());
    }
}

impl Handler for CoreHandler {
    fn handle(&self, request: ClientRequest) -> impl Future<Output = Reply> + Send {
        Gateway::handle(self.gateway(), request)
    }

    fn refuse(&self, refusal: Refusal, origin: Option<HeaderValue>, connection: &Arc<Connection>) -> Reply {
        self.gateway().refuse(refusal, origin, connection)
    }

    fn connection_refused(&self) {
        self.gateway().metrics().count_refused_connection();
    }

    fn connections_closed_for_room(&self, count: usize) {
        self.gateway().metrics().count_closed_for_room(count);
    }

    fn connection_opened(&self) {
        self.gateway().metrics().count_opened();
    }

    fn connection_closed(&self) {
        self.gateway().metrics().count_closed();
    }

    fn cuts_off(&self) {
        self.gateway().metrics().begin_cutting_off();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crocodile_pear::unstable::config::problem::Problems;
    use crocodile_pear::unstable::config::spec::{Decode, Node};
    use serde_json::json;

    use super::super::current_gateway::*;
    use crate::gateway::CompileEnvironment;
    use crate::gateway::document::{Document, Unread};
    use crate::shared::persistent_state::PersistentState;

    fn gateway() -> Gateway {
        let written = json!({
            "listen": "127.0.0.1:0",
            "upstreams": { "shop": "http://127.0.0.1:1" },
            "endpoints": { "GET /": { "pipeline": [{ "request": "shop /" }] } },
        });
        let mut problems = Problems::default();
        let document = Document::decode(&Node::from_json(&written), &mut problems).expect("a document");
        let (files, paths) = (|_: &_| unreachable!("it names no file"), |_: &_| unreachable!("it names no file"));
        let (unread, persistent) = (Unread::default(), PersistentState::default());
        let given = CompileEnvironment { unread: &unread, files: &files, paths: &paths, persistent: &persistent };
        Gateway::compile(&document, given, &mut problems).expect("a gateway")
    }

    #[tokio::test]
    async fn a_core_without_requests_lets_go_of_a_gateway_that_was_replaced() {
        let live = Arc::new(Live::new(gateway()));
        let core = CoreHandler::new(live.clone(), 0);
        drop(core.gateway());
        let old = Arc::downgrade(&live.replace(gateway()));
        let gone = async {
            while old.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the core still has it");
        assert!(Arc::ptr_eq(&*core.gateway(), &live.current()));
    }
}
