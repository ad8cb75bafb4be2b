//! The operators' listener: health, metrics and purges, never on the clients' address.

mod cache;
mod desk;
mod guard;
mod metrics;
mod page;
mod requests;
mod snapshot;
mod watch;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};

use self::desk::Desk;
use self::guard::Guard;
use self::watch::Watchers;
use crate::gateway::current_gateway::Live;
use crate::http::response;
use crate::listeners::admin_spec::{AdminSpec, Readiness};
use crate::net::address::Address;
use crate::runtime::threads::start;
use crate::server::{
    self, ClientRequest, Connection, Ending, Handler, Handover, Listeners, Mode, Observer, Refusal, Reply, ResponseEnd,
    Settings, Shutdown,
};
use crate::telemetry::analytics::{self, ExportFormat, NotKept, Query, Statistics};
use crate::telemetry::metrics::Metrics;

/// The operators' listener while it serves.
pub struct Serving {
    /// Where operators connect.
    pub address: Address,
    shutdown: Shutdown,
    thread: JoinHandle<()>,
}

impl Serving {
    /// Stops accepting operators: another process does.
    pub fn stop_accepting(&self) -> impl FnOnce() + Send + 'static {
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
    let (guard, readiness) = (Arc::new(Guard::new(spec)), spec.ready);
    let watchers = Arc::new(Watchers::default());
    let desk = Arc::new(Desk::new()?);
    let shutdown = Shutdown::default();
    let ended = shutdown.clone();
    let serve = move || {
        let settings = Settings { write: WRITE, evicts: Some(CONNECTIONS), stack: 2 << 20, ..Settings::default() };
        let admin = |_| Admin {
            live: live.clone(),
            shutdown: clients.clone(),
            guard: guard.clone(),
            watchers: watchers.clone(),
            desk: desk.clone(),
            readiness,
            limiters: Arc::default(),
        };
        if let Err(error) = server::serve(listeners, &settings, &ended, admin) {
            tracing::error!(%error, "health and metrics cannot be served");
        }
    };
    Ok(Serving { address: bound, shutdown, thread: start("admin", serve)? })
}

/// More connections than operators and their tools have. One more closes the one that is idle longest, so that whoever asks
/// whether the gateway is well is always answered.
const CONNECTIONS: usize = 128;

/// A client that reads nothing for this long is closed.
const WRITE: Duration = Duration::from_secs(5);

/// The paths that everybody may ask for, by any name: probes know neither names nor tokens, and learn one word.
const OPEN: [&str; 2] = ["/health", "/ready"];

struct Admin {
    live: Arc<Live>,
    shutdown: Shutdown,
    guard: Arc<Guard>,
    watchers: Arc<Watchers>,
    desk: Arc<Desk>,
    readiness: Readiness,
    limiters: Arc<LogLimiters>,
}

/// The limiters of lines about connections that make room, and of those about clients that do not read.
#[derive(Default)]
struct LogLimiters {
    room: LogLimiter,
    slow: LogLimiter,
}

impl Handler for Admin {
    async fn handle(&self, request: ClientRequest) -> Reply {
        let mut observer = PageObserver {
            _page: None,
            metrics: self.live.current().metrics().clone(),
            limiters: self.limiters.clone(),
        };
        let mut reply = self.answer(request, &mut observer).await;
        reply.observer = Some(Box::new(observer));
        reply
    }

    fn refuse(&self, refusal: Refusal, _: Option<HeaderValue>, _: &Arc<Connection>) -> Reply {
        response::refusal(&refusal).into()
    }

    fn connections_closed_for_room(&self, count: usize) {
        self.live.current().metrics().operators().count_room(count);
        if self.limiters.room.allows() {
            tracing::warn!(
                listener = "admin",
                most = CONNECTIONS,
                "too many connections; closing the one that has been idle longest"
            );
        }
    }
}

/// Learns how an answer ended.
struct PageObserver {
    _page: Option<desk::PagePermit>,
    metrics: Arc<Metrics>,
    limiters: Arc<LogLimiters>,
}

impl Observer for PageObserver {
    fn ended(self: Box<Self>, end: &ResponseEnd) {
        if !matches!(end.how, Ending::ClientSlow) {
            return;
        }
        self.metrics.operators().count_slow();
        if self.limiters.slow.allows() {
            tracing::warn!(listener = "admin", "a client does not read its answer; closing its connection");
        }
    }
}

impl Admin {
    async fn answer(&self, request: ClientRequest, observer: &mut PageObserver) -> Reply {
        let path = request.target.path().to_owned();
        if !OPEN.contains(&path.as_str())
            && let Some(refused) = self.guard.refuse(&request.method, request.headers.map())
        {
            return refused.into();
        }
        let method = if path == "/cache/purge" { Method::POST } else { Method::GET };
        if request.method != method && (&request.method, &method) != (&Method::HEAD, &Method::GET) {
            return response::other_method(&request.method, &[&method]).into();
        }
        let response = match path.as_str() {
            "/ready" if self.shutdown.is_announced() => {
                let mut response = text("text/plain; charset=utf-8", "stopping\n".to_owned());
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response
            }
            "/ready" => self.ready(&request),
            "/health" => text("text/plain; charset=utf-8", "ok\n".to_owned()),
            "/events" => self.watchers.follow(&self.live),
            "/cache/purge" => {
                let gateway = self.live.current();
                cache::purge(request, gateway.cache()).await
            }
            _ => {
                let query = request.target.query().unwrap_or_default().to_owned();
                let asked = Page { path, query, headers: request.headers.map().clone() };
                // The body is not read.
                drop(request);
                self.page(asked, observer).await
            }
        };
        response.into()
    }

    /// Whether it is ready; names are only for those who may use the listener.
    fn ready(&self, request: &ClientRequest) -> Response<AnswerBody> {
        let missing = match self.readiness {
            Readiness::Serving => Vec::new(),
            Readiness::Names => self.live.current().unresolved(),
        };
        if missing.is_empty() {
            return text("text/plain; charset=utf-8", "ready\n".to_owned());
        }
        let knows = self.guard.refuse(&request.method, request.headers.map()).is_none();
        let lines = missing.iter().filter(|_| knows).map(|(upstream, name, why)| {
            let why = why.replace(['\r', '\n'], " ");
            format!("no address is known for {name} of the upstream {upstream}: {why}\n")
        });
        let mut response = text("text/plain; charset=utf-8", format!("not ready\n{}", lines.collect::<String>()));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    }

    /// Makes a page; health and readiness wait for none.
    async fn page(&self, asked: Page, observer: &mut PageObserver) -> Response<AnswerBody> {
        let (live, watchers) = (self.live.clone(), self.watchers.clone());
        let Page { path, query, headers } = asked;
        let make = move || match path.as_str() {
            "/metrics" => metrics::show(&live.current(), &headers),
            "/analytics" => analytics(&query, &live.current().persistent().analytics),
            "/" => page::show(),
            "/status" => response::json_bytes(watchers.status(&live)),
            "/requests" => requests::list(&live.current(), &query),
            "/cache" => cache::show(live.current().cache()),
            path => match path.strip_prefix("/requests/") {
                Some(id) => requests::show(&live.current(), id),
                None => response::not_found(),
            },
        };
        let (page, place) = self.desk.make(make).await;
        observer._page = place;
        page
    }
}

/// The parts of a page.
struct Page {
    path: String,
    query: String,
    headers: HeaderMap,
}

/// The statistics over minutes, hours and days.
fn analytics(query: &str, analytics: &Statistics) -> Response<AnswerBody> {
    let (query, format) = match Query::read(query, analytics::now()) {
        Ok(asked) => asked,
        Err(told) => return response::refuse(StatusCode::BAD_REQUEST, &told),
    };
    match (analytics.answer(&query), format) {
        (Err(NotKept::Unconfigured), _) => {
            response::refuse(StatusCode::NOT_FOUND, "nothing is kept: write `analytics: FOLDER`")
        }
        (Err(NotKept::NotOpen), _) => {
            let told = "the folder of `analytics` is not open yet or cannot be opened: see the log";
            response::refuse(StatusCode::SERVICE_UNAVAILABLE, told)
        }
        (Ok(rows), ExportFormat::Csv) => text("text/csv; charset=utf-8", analytics::csv(&rows)),
        (Ok(rows), ExportFormat::Json) => response::json(&analytics::json(&rows)),
    }
}

fn text(media: &'static str, body: String) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Bytes(Bytes::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
