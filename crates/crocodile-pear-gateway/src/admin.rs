//! The operators' listener: health, metrics and purges, never on the clients' address.

mod cache;
mod guard;
mod metrics;
mod page;
mod requests;
mod snapshot;
mod watch;

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use crocodile_pear::flow::Body;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};

use self::guard::Guard;
use self::watch::Watchers;
use crate::address::Address;
use crate::analytics::{self, Analytics, Form, Query};
use crate::live::Live;
use crate::operators::AdminSpec;
use crate::respond;
use crate::server::{
    self, ClientRequest, Connection, Handler, Handover, Listeners, Mode, Refusal, Reply, Settings, Shutdown,
};

/// The operators' listener while it serves.
pub struct Serving {
    /// Where operators connect.
    pub address: Address,
    shutdown: Shutdown,
    thread: JoinHandle<()>,
}

impl Serving {
    /// Stops accepting operators: another process does.
    pub fn leave(&self) -> impl FnOnce() + Send + 'static {
        let shutdown = self.shutdown.clone();
        move || shutdown.begin()
    }

    /// Ends it at once.
    pub fn end(self) {
        self.shutdown.end();
        // A panic has been told.
        let _ = self.thread.join();
    }
}

/// Serves operators on a thread of its own, until it is ended: they may watch how the gateway stops. `clients` is the shutdown of
/// the clients' listeners; `handover` may have the socket.
///
/// # Errors
/// When the address cannot be listened on.
pub fn begin(
    address: &Address,
    spec: &AdminSpec,
    live: Arc<Live>,
    clients: Shutdown,
    handover: &Arc<Handover>,
) -> Result<Serving, Box<dyn std::error::Error>> {
    let mut listeners = Listeners::new(1, "admin", handover);
    let address = listeners.add(address, Mode::default(), Arc::default())?;
    tracing::info!("health and metrics on http://{address}");
    let bound = address.clone();
    let guard = Arc::new(Guard::new(spec));
    let watchers = Arc::new(Watchers::default());
    let shutdown = Shutdown::default();
    let ended = shutdown.clone();
    let serve = move || {
        let settings = Settings { max_connections: 64, stack: 2 << 20, ..Settings::default() };
        let admin = |_| Admin {
            live: live.clone(),
            shutdown: clients.clone(),
            guard: guard.clone(),
            watchers: watchers.clone(),
        };
        if let Err(error) = server::serve(listeners, &settings, &ended, admin) {
            tracing::error!(%error, "health and metrics cannot be served");
        }
    };
    Ok(Serving { address: bound, shutdown, thread: thread::Builder::new().name("admin".into()).spawn(serve)? })
}

/// What everybody may ask, by any name: probes know neither names nor tokens, and learn one word.
const OPEN: [&str; 2] = ["/health", "/ready"];

struct Admin {
    live: Arc<Live>,
    shutdown: Shutdown,
    guard: Arc<Guard>,
    watchers: Arc<Watchers>,
}

impl Handler for Admin {
    async fn handle(&self, request: ClientRequest) -> Reply {
        let path = request.target.path().to_owned();
        if !OPEN.contains(&path.as_str())
            && let Some(refused) = self.guard.refuse(&request.method, request.headers.map())
        {
            return refused.into();
        }
        let method = if path == "/cache/purge" { Method::POST } else { Method::GET };
        if request.method != method && (&request.method, &method) != (&Method::HEAD, &Method::GET) {
            return respond::other_method(&request.method, &[&method]).into();
        }
        let response = match path.as_str() {
            "/ready" if self.shutdown.leaves() => {
                let mut response = text("text/plain; charset=utf-8", "stopping\n".to_owned());
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response
            }
            "/ready" => text("text/plain; charset=utf-8", "ready\n".to_owned()),
            "/health" => text("text/plain; charset=utf-8", "ok\n".to_owned()),
            "/metrics" => metrics::show(&self.live.current(), request.headers.map()),
            "/analytics" => analytics(&request, &self.live.current().lasting().analytics),
            "/" => page::show(),
            "/status" => respond::json_bytes(self.watchers.status(&self.live)),
            "/events" => self.watchers.follow(&self.live),
            "/requests" => requests::list(&self.live.current(), request.target.query().unwrap_or_default()),
            "/cache" => cache::show(self.live.current().cache()),
            "/cache/purge" => {
                let gateway = self.live.current();
                cache::purge(request, gateway.cache()).await
            }
            path => match path.strip_prefix("/requests/") {
                Some(id) => requests::show(&self.live.current(), id),
                None => respond::not_found(),
            },
        };
        response.into()
    }

    fn refuse(&self, refusal: Refusal, _: Option<HeaderValue>, _: &Arc<Connection>) -> Reply {
        respond::refusal(&refusal).into()
    }
}

/// What was counted over minutes, hours and days.
fn analytics(request: &ClientRequest, analytics: &Analytics) -> Response<Body> {
    let (query, form) = match Query::read(request.target.query().unwrap_or_default(), analytics::now()) {
        Ok(asked) => asked,
        Err(told) => return respond::refuse(StatusCode::BAD_REQUEST, &told),
    };
    match (analytics.answer(&query), form) {
        (None, _) => respond::refuse(StatusCode::NOT_FOUND, "nothing is kept: write `analytics: FOLDER`"),
        (Some(rows), Form::Csv) => text("text/csv; charset=utf-8", analytics::csv(&rows)),
        (Some(rows), Form::Json) => respond::json(&analytics::json(&rows)),
    }
}

fn text(media: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::Bytes(Bytes::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
