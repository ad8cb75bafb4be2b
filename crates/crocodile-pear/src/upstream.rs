//! An upstream: the servers of one API, what may be sent to them, and the steps of a call to them.

mod admission;
mod balance;
mod breaker;
mod cached;
mod clock;
mod connect;
mod counters;
mod credentials;
mod eject;
mod exchange;
mod forward;
mod h2;
mod health;
mod hedge;
mod io;
pub mod link;
mod moments;
mod outage;
mod pool;
mod random;
mod remote;
mod request;
mod resolve;
mod retry;
mod server;
mod spec;
mod tls;
mod tunnel;

pub use self::balance::{BalanceSpec, Way};
pub use self::breaker::BreakerSpec;
pub use self::cached::Keeping;
pub use self::counters::CounterSnapshot;
pub use self::credentials::{ClientCredentials, CredentialsSpec, Oauth2Spec, SendSpec, client_basic, form};
pub use self::eject::{EjectSpec, Ejection};
pub use self::forward::{FieldsSpec, Forward, ForwardedSpec, HostSpec, Likeness};
pub use self::health::HealthSpec;
pub use self::moments::CallEnd;
pub use self::pool::Connections;
pub use self::remote::Remote;
pub use self::resolve::{Resolver, ResolverSpec};
pub use self::retry::{BackoffSpec, Cause, RetrySpec};
pub use self::spec::{
    ConnectionsSpec, Files, Given, Protocol, RewriteSpec, ServerSpec, TimeoutSpec, TlsSpec, UpstreamSpec,
};
pub use self::tls::{Judge, Shown, TlsSettings, TlsVersion, Verifier, refusal};
pub use crate::http1::fields::may_send;

use std::future::{Future, poll_fn};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Context;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use tokio::time::Instant;

use self::admission::Gate;
use self::balance::{Balance, Tried};
use self::breaker::Breaker;
use self::cached::Cached;
use self::clock::Clock;
pub use self::connect::PhaseTotal;
use self::counters::{Counters, Event};
use self::eject::Eject;
use self::exchange::{Exchange, Failure, Origin, Parts};
use self::health::Health;
use self::hedge::late;
use self::moments::{Ended, Moments, Said};
use self::pool::Lease;
use self::request::{Noted, Request};
use self::retry::{Replay, Retry};
use self::server::{Change, Server, Turn, judge};
use crate::error::{Error, Kind};
use crate::flow::{Answer, Body, Passage};
use crate::format::xml::Lists;
use crate::histogram::{self, Histogram, Snapshot};
use crate::limiter::LogLimiter;
use crate::record::CallNote;
use crate::scope::Scope;
use crate::spec::Timeout;

/// Where a server is.
#[derive(Clone, Debug)]
pub struct Location {
    /// Scheme `http` or `https`, authority, base path.
    pub url: Uri,
    /// Its share of the calls, relative to those of the other servers.
    pub weight: u32,
    /// The Unix socket that it listens on, instead of the host and port of the URL.
    pub socket: Option<Arc<Path>>,
}

/// The configuration of an upstream.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name in the configuration; the only thing about it that clients may learn.
    pub name: Arc<str>,
    /// Its servers, at least one.
    pub servers: Vec<Location>,
    /// Which versions of HTTP are used.
    pub protocol: Protocol,
    /// TLS settings for `https`.
    pub tls: TlsSettings,
    /// The DNS resolver; the system's unless set.
    pub resolver: Option<Resolver>,
    /// How long each phase of a call may take.
    pub timeouts: Timeouts,
    /// What its calls take along of the client's request.
    pub forward: Arc<Forward>,
    /// Whether header fields of its answers that point into it point to the gateway instead.
    pub rewrite: RewriteSpec,
    /// The elements that are lists, in answers that are XML.
    pub lists: Lists,
    /// The most calls in flight, over all cores.
    pub in_flight: Option<usize>,
    /// Limits of the connection pool.
    pub connections: Connections,
    /// The largest head of an answer, in bytes.
    pub max_head: usize,
    /// Retries. Unless set, an upstream with several servers has the defaults of the spec, and one with a single server
    /// has no retries.
    pub retry: Option<RetrySpec>,
    /// Circuit breaker of each server.
    pub breaker: Option<BreakerSpec>,
    /// Load balancing over several servers.
    pub balance: BalanceSpec,
    /// Active health checks; they run while [`Upstream::watch`] is polled.
    pub health: Option<HealthSpec>,
    /// What calls prove themselves with.
    pub credentials: Option<Arc<ClientCredentials>>,
    /// Where its answers are kept.
    pub cached: Option<Arc<Cached>>,
}

impl Settings {
    /// The defaults for an upstream at `url`.
    pub fn new(name: impl Into<Arc<str>>, url: Uri) -> Self {
        Settings {
            name: name.into(),
            servers: vec![Location { url, weight: 1, socket: None }],
            protocol: Protocol::Auto,
            tls: TlsSettings::default(),
            resolver: None,
            timeouts: Timeouts::default(),
            forward: Arc::default(),
            rewrite: RewriteSpec::On,
            lists: Lists::default(),
            in_flight: None,
            connections: Connections::default(),
            max_head: 64 * 1024,
            retry: None,
            breaker: None,
            balance: crate::spec::defaults(),
            health: None,
            credentials: None,
            cached: None,
        }
    }

    fn ejection(&self) -> Option<EjectSpec> {
        match &self.balance.eject {
            Ejection::After(rules) if self.servers.len() > 1 => Some(rules.clone()),
            _ => None,
        }
    }

    /// What these settings do to a call, as `explain` prints it.
    fn outline(&self) -> Vec<String> {
        let several = |count: usize| format!("{count} servers, {}", self.balance.by.word().replace('_', " "));
        let eject = |rules: EjectSpec| {
            let EjectSpec { failures, first, most } = rules;
            format!("a server is ejected after {failures} failures in a row, for {first:?} up to {most:?}")
        };
        let silence = |silence: Duration| {
            format!("a server that answers no call for {silence:?} while others answer counts as failed")
        };
        let alone = self.servers.len() == 1;
        let parts = [
            Some(self.servers.len()).filter(|_| !alone).map(several),
            self.balance.silence.duration().filter(|_| !alone).map(silence),
            self.in_flight.map(|most| format!("at most {most} calls in flight")),
            self.connections.open.map(|most| format!("at most {most} connections to a server from each core")),
            self.retry.as_ref().map(RetrySpec::explain),
            self.breaker.as_ref().map(BreakerSpec::explain),
            self.ejection().map(eject),
            self.health.as_ref().map(HealthSpec::explain),
            self.cached.as_ref().map(|cached| cached.outline().to_owned()),
            self.credentials.as_ref().map(|_| "calls carry an access token (OAuth 2.0 client credentials)".to_owned()),
        ];
        parts.into_iter().flatten().collect()
    }
}

/// The most attempts while the server provably has not processed the request.
const ATTEMPTS: usize = 4;

/// How long an upstream may let a call wait. Only time spent waiting for the upstream counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until there is a connection, and until fewer than `in_flight` calls are in flight.
    pub connect: Timeout,
    /// From the last byte sent to the head of the answer.
    pub first_byte: Timeout,
    /// Between two reads of a body.
    pub idle: Timeout,
    /// The whole call.
    pub call: Timeout,
}

impl Default for Timeouts {
    fn default() -> Self {
        let after = |seconds| Timeout::After(Duration::from_secs(seconds));
        Timeouts { connect: after(3), first_byte: after(30), idle: after(30), call: after(300) }
    }
}

/// A configured upstream, ready to be called from any core.
pub struct Upstream {
    name: Arc<str>,
    forward: Arc<Forward>,
    rewrite: RewriteSpec,
    lists: Lists,
    timeouts: Timeouts,
    max_head: usize,
    gate: Gate,
    retry: Option<Retry>,
    balance: Balance,
    /// How long a server may answer no call while others answer; `None` with a single server.
    silence: Option<Duration>,
    servers: Box<[Server]>,
    health: Option<Arc<HealthSpec>>,
    credentials: Option<Arc<ClientCredentials>>,
    cached: Option<Arc<Cached>>,
    outline: Vec<String>,
    counters: Counters,
    /// How long calls waited for their turn and for a connection.
    waits: Histogram,
    log_limiter: LogLimiter,
}

/// One call to make.
pub struct Call {
    /// The method.
    pub method: Method,
    /// Path and query, percent-encoded, without the upstream's own base path; it begins with `/` unless the path is empty.
    pub target: String,
    /// End-to-end header fields to send; hop-by-hop and framing fields are left out.
    pub headers: http::HeaderMap,
    /// The body, if one is sent.
    pub body: Option<Body>,
    /// Instead of the upstream's own.
    pub timeouts: Option<Arc<Timeouts>>,
    /// When the client's whole request is over.
    pub deadline: Option<Instant>,
    /// Where the target begins.
    pub root: Root,
    /// What the client takes beside the answer.
    pub passage: Passage,
    /// What a stream of events is used for.
    pub events: Events,
    /// The `host`, instead of the upstream's or its server's own.
    pub host: Option<HeaderValue>,
    /// The version of HTTP in which the client's request came; `via` says it.
    pub received: Version,
    /// For whom it is made, where its answer may be kept.
    pub keeping: Option<Box<Keeping>>,
    /// Where it is noted, if somebody wants to know.
    pub note: Option<CallNote>,
}

/// What a stream of events (`text/event-stream`) is used for. It may rest and go on as long as it likes: `idle` and `call`
/// do not limit it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Events {
    /// For an answer of its own, which has the deadline of the client's request.
    #[default]
    Read,
    /// It is handed on as it is, and that deadline is for its head only.
    HandedOn,
}

/// Where the target of a call begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Root {
    /// Below the upstream's own path.
    #[default]
    Upstream,
    /// At the server's root, as a link has it.
    Server,
}

impl Call {
    /// A GET with nothing to add.
    pub fn get(target: String) -> Self {
        Call {
            method: Method::GET,
            target,
            headers: http::HeaderMap::new(),
            body: None,
            timeouts: None,
            deadline: None,
            root: Root::Upstream,
            passage: Passage::default(),
            events: Events::Read,
            host: None,
            received: Version::HTTP_11,
            keeping: None,
            note: None,
        }
    }

    /// The same call once more, unless its body is a stream.
    fn repeat(&self) -> Option<Self> {
        let body = match &self.body {
            None => None,
            Some(Body::Bytes(bytes)) => Some(Body::Bytes(bytes.clone())),
            Some(Body::Value(value)) => Some(Body::Value(value.clone())),
            Some(Body::Json(raw)) => Some(Body::Json(raw.clone())),
            Some(Body::Pulled(_) | Body::Tunnel(_)) => return None,
        };
        Some(Call {
            method: self.method.clone(),
            target: self.target.clone(),
            headers: self.headers.clone(),
            body,
            timeouts: self.timeouts.clone(),
            deadline: self.deadline,
            root: self.root,
            passage: self.passage.clone(),
            events: self.events,
            host: self.host.clone(),
            received: self.received,
            keeping: self.keeping.clone(),
            note: self.note.clone(),
        })
    }
}

impl Upstream {
    /// # Errors
    /// `Internal`, saying what is wrong with the URL.
    pub fn new(mut settings: Settings) -> Result<Arc<Self>, Error> {
        let wrong = |detail: String| Error::new(Kind::Internal, detail).of_upstream(&settings.name);
        let server = |location: &Location| Server::new(location, &settings);
        let servers = settings.servers.iter().map(server).collect::<Result<Box<[_]>, _>>().map_err(wrong)?;
        match servers.len() {
            0 => return Err(wrong("an upstream needs a URL".to_owned())),
            1 => {}
            // When one server fails, another can answer.
            _ => drop(settings.retry.get_or_insert_with(crate::spec::defaults)),
        }
        Ok(Arc::new(Upstream {
            outline: settings.outline(),
            gate: Gate::new(settings.in_flight),
            retry: settings.retry.and_then(Retry::new),
            balance: Balance::new(settings.balance.by, &servers),
            silence: settings.balance.silence.duration().filter(|_| servers.len() > 1),
            servers,
            health: settings.health.map(Arc::new),
            credentials: settings.credentials,
            cached: settings.cached,
            counters: Counters::new(),
            waits: Histogram::new(histogram::HTTP),
            log_limiter: LogLimiter::default(),
            name: settings.name,
            forward: settings.forward,
            rewrite: settings.rewrite,
            lists: settings.lists,
            timeouts: settings.timeouts,
            max_head: settings.max_head,
        }))
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The header fields that a call takes along of the client's request, and those that every call has.
    ///
    /// # Errors
    /// `BadRequest` where a value that is made of the client's cannot stand in a header.
    pub fn fields(&self, scope: &Scope, likeness: Likeness) -> Result<HeaderMap, Error> {
        self.forward.fields(scope, likeness)
    }

    /// Whether header fields of its answers that point into it point to the gateway instead, unless a call says otherwise.
    pub fn rewrite(&self) -> RewriteSpec {
        self.rewrite
    }

    /// The client's host, where its calls keep it.
    pub fn host(&self, scope: &Scope) -> Option<HeaderValue> {
        self.forward.host(scope)
    }

    /// How long each phase of a call may take.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// The whole URL of a call's target.
    pub fn url(&self, target: &str) -> String {
        let first = &self.servers[0];
        [first.origin.scheme(), "://", &first.authority, &first.base, target].concat()
    }

    /// Whether its connections may change their protocol: HTTP/2 has no `Upgrade`.
    pub fn takes_upgrades(&self) -> bool {
        self.servers.iter().all(|server| server.check_http1().is_ok())
    }

    /// The counters, summed over all threads.
    pub fn counters(&self) -> CounterSnapshot {
        self.counters.snapshot()
    }

    /// Retries, and retries that the exhausted budget prevented.
    pub fn retries(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.retry.as_ref().map_or((0, 0), |retry| (load(&retry.sent), load(&retry.withheld)))
    }

    /// The state of each server.
    pub fn servers(&self) -> impl Iterator<Item = ServerState> {
        self.servers.iter().map(ServerState::of)
    }

    /// How long the calls to each server took, by how they ended; nothing, for the ends that are counted together.
    pub fn times(&self) -> impl Iterator<Item = (&Arc<str>, Option<CallEnd>, Snapshot)> {
        self.servers.iter().flat_map(|server| {
            let own = server.times.snapshots();
            own.map(|(end, times)| (&server.address, end, times))
        })
    }

    /// How long those calls waited that had to: for their turn, or until a connection was open.
    pub fn waits(&self) -> Snapshot {
        self.waits.snapshot()
    }

    /// What `explain` prints about its calls; empty for an upstream without options.
    pub fn outline(&self) -> &[String] {
        &self.outline
    }

    /// Makes the call; the answer's body is pulled from the connection.
    ///
    /// # Errors
    /// `BadRequest`, `Unreachable`, `Reset`, `Cut`, `Malformed`, `Timeout` or `Busy`, naming the upstream; the same from
    /// the answer's body.
    pub fn call(self: &Arc<Self>, call: Call) -> impl Future<Output = Result<Answer, Error>> + Send + 'static + use<> {
        // Outside all the rest: what is kept needs no server, and no retry is a second request for it.
        let begun = match &call.keeping {
            None => self.begin(call),
            Some(_) => cached::begin(self.clone(), call),
        };
        async move {
            match begun {
                Begun::Plain(ready) => chain(ready?).await,
                Begun::Boxed(call) => call.await,
                Begun::Kept(answer) => Ok(*answer),
            }
        }
    }

    /// The call itself.
    fn begin(self: &Arc<Self>, call: Call) -> Begun {
        // Made here and boxed once: the future stays a few words, and the box becomes the body of the answer.
        match &self.credentials {
            None => Begun::Plain(self.prepare(call).map_err(|error| error.of_upstream(&self.name))),
            Some(credentials) => Begun::Boxed(Box::pin(credentials.clone().call(self.clone(), call))),
        }
    }

    fn prepare(self: &Arc<Self>, call: Call) -> Result<Ready, Error> {
        self.counters.count(Event::Call);
        let (at, turn) = self.balance.choose(&self.servers, Tried::default()).inspect_err(|_| {
            self.counters.count(Event::Refused);
        })?;
        let (own, deadline) = (call.timeouts.clone(), call.deadline);
        let timeouts = own.as_deref().unwrap_or(&self.timeouts);
        let replay = self.retry.as_ref().and_then(|retry| retry.replay(&call, timeouts));
        let mut clock = Clock::new(timeouts, deadline);
        if let Some(silence) = self.silence {
            clock.hurry(hedge::step(silence, &clock));
        }
        let exchange = self.exchange(at, call, clock)?;
        Ok(Ready { exchange, turn, replay, timeouts: own })
    }

    /// One attempt of a call, at one of the servers.
    fn exchange(self: &Arc<Self>, at: usize, mut call: Call, clock: Clock) -> Result<Box<Exchange>, Error> {
        let mut moments = Moments::begin();
        let note = call.note.take();
        let span = note.as_ref().and_then(CallNote::span);
        let noted = Noted { trace: span, target: note.is_some() };
        let request = Request::new(&self.servers[at], &mut call, noted);
        let span = span.map_or(0, |(_, span)| span);
        if let Some(note) = note {
            moments.note(note, self, at, Said { method: call.method, target: call.target, span });
        }
        match request {
            Ok(request) => Ok(Box::new(Exchange::new(self.clone(), at, request, clock, moments))),
            Err(error) => {
                let _ = moments.end(Ended::Failed(error.kind()), Instant::now);
                Err(error)
            }
        }
    }

    /// Reports the outcome of a call to breaker and ejection.
    fn note(&self, exchange: &Exchange, turn: Turn, outcome: &Outcome) {
        let server = exchange.server();
        if self.silence.is_some() && outcome.is_ok() {
            server.heard.fetch_add(1, Ordering::Relaxed);
        }
        // A call past its deadline says nothing about the server's health.
        if server.standing.is_none() || (outcome.is_err() && exchange.clock.is_over()) {
            return;
        }
        let Some(went) = judge(outcome) else { return };
        let last = || self.servers.iter().enumerate().all(|(at, other)| at == exchange.at || !other.is_in());
        for change in server.note(went, turn, last).into_iter().flatten() {
            self.log(exchange.at, change);
        }
    }

    fn log(&self, at: usize, change: Change) {
        change.log(&self.name, &ServerState::of(&self.servers[at]).address);
    }
}

/// The state of a server.
#[derive(Clone, Debug)]
pub struct ServerState {
    /// Authority and base path. For operators only, never for clients.
    pub address: Arc<str>,
    /// Whether it takes calls: not down, not ejected, breaker closed.
    pub up: bool,
    /// Whether its breaker is open or half open.
    pub open: bool,
    /// How often its breaker has opened.
    pub opened: u64,
    /// How often it was ejected.
    pub ejected: u64,
    /// How long it still gets no calls, if it is ejected now. Then a call tests it.
    pub ejected_for: Option<Duration>,
    /// Whether its health checks fail.
    pub down: bool,
    /// Health checks, and failed ones.
    pub checks: (u64, u64),
    /// Failed connection attempts, and those that failed because of TLS.
    pub connect_failures: (u64, u64),
    /// Failed DNS lookups, and changes of the addresses.
    pub dns: (u64, u64),
    /// What opening connections took.
    pub phases: Vec<PhaseTotal>,
}

impl ServerState {
    fn of(server: &Server) -> Self {
        let standing = server.standing.as_deref();
        let (breaker, eject) = (standing.and_then(|s| s.breaker.as_ref()), standing.and_then(|s| s.eject.as_ref()));
        let health = standing.and_then(|s| s.health.as_ref());
        ServerState {
            address: server.address.clone(),
            up: server.is_in(),
            open: breaker.is_some_and(Breaker::is_open),
            opened: breaker.map_or(0, Breaker::opened),
            ejected: eject.map_or(0, Eject::times),
            ejected_for: eject.and_then(Eject::remains),
            down: health.is_some_and(Health::is_down),
            checks: health.map_or((0, 0), Health::counts),
            connect_failures: server.connector.failures(),
            dns: server.connector.name().map_or((0, 0), |name| (name.failures(), name.changes().into())),
            phases: server.connector.phases(),
        }
    }
}

/// A call that is about to be made.
enum Begun {
    Plain(Result<Ready, Error>),
    /// With a token, which may have to be fetched first, or for a cache.
    Boxed(BoxFuture<'static, Result<Answer, Error>>),
    /// Its answer is kept.
    Kept(Box<Answer>),
}

/// A call whose server is chosen.
struct Ready {
    exchange: Box<Exchange>,
    turn: Turn,
    /// What a retry needs; `None` if the call cannot be retried.
    replay: Option<Box<Replay>>,
    /// Instead of the upstream's own.
    timeouts: Option<Arc<Timeouts>>,
}

/// The head of an answer, or why there is none.
type Outcome = Result<Parts, Lost>;

/// A call without an answer.
struct Lost {
    error: Error,
    /// Whether the server provably has not processed the request.
    unsent: bool,
}

/// What happens to a call, in order: retry → breaker → balance → pool → connect → exchange.
async fn chain(ready: Ready) -> Result<Answer, Error> {
    // Breaker and balance have chosen the server of the first attempt.
    let Ready { mut exchange, mut turn, mut replay, timeouts } = ready;
    // Before a connection is taken, so that a waiting call holds none.
    let connect = timeouts.as_deref().unwrap_or(&exchange.upstream.timeouts).connect;
    if let Err(error) = exchange.admit(connect).await {
        return Err(exchange.upstream.turn_away(error));
    }
    // Only the first attempt may be hedged.
    let mut first = exchange.upstream.silence.is_some();
    loop {
        // If the call can be sent elsewhere, half of its time is kept for that.
        let within = if first && replay.is_some() { exchange.clock.half() } else { Timeout::Never };
        let mut outcome = attempt(&mut exchange, connect.min(within)).await;
        if std::mem::take(&mut first) && late(&outcome) {
            let upstream = exchange.upstream.clone();
            let timeouts = timeouts.as_deref().unwrap_or(&upstream.timeouts);
            // Boxed: few calls wait this long.
            outcome = Box::pin(hedge::wait(&mut exchange, &mut turn, replay.as_deref_mut(), timeouts, outcome)).await;
        }
        exchange.upstream.note(&exchange, turn, &outcome);
        // Outside breaker and balance, so that a failed call may still go to another server.
        turn = match replay.as_deref_mut().and_then(|replay| exchange.upstream.pause(&exchange, replay, &outcome)) {
            // Boxed, so that the futures of calls without a retry stay small.
            Some(wait) => match Box::pin(again(&mut exchange, replay.as_deref_mut(), wait, connect)).await {
                Some(turn) => turn,
                None => return settle(exchange, outcome),
            },
            None => return settle(exchange, outcome),
        };
    }
}

fn settle(exchange: Box<Exchange>, outcome: Outcome) -> Result<Answer, Error> {
    match outcome {
        Ok(parts) => Ok(exchange.into_answer(parts)),
        Err(lost) => Err(exchange.upstream.turn_away(lost.error)),
    }
}

/// Waits, chooses a server and prepares the next attempt; `None` if no server can be called.
async fn again(
    exchange: &mut Box<Exchange>,
    replay: Option<&mut Replay>,
    wait: Duration,
    connect: Timeout,
) -> Option<Turn> {
    let (upstream, replay) = (exchange.upstream.clone(), replay?);
    tokio::time::sleep(wait).await;
    let (at, turn) = upstream.balance.choose(&upstream.servers, replay.tried).ok()?;
    let (call, clock) = replay.next(&upstream.timeouts);
    let mut next = upstream.exchange(at, call, clock).ok()?;
    match exchange.admission.take() {
        Some(mut admission) => {
            admission.move_to(at, &upstream);
            next.admission = Some(admission);
        }
        // The whole answer came with its head, so the admission was given back.
        None => next.admit(connect).await.ok()?,
    }
    *exchange = next;
    Some(turn)
}

impl Upstream {
    /// How long to wait before a retry, if there is one.
    fn pause(&self, exchange: &Exchange, replay: &mut Replay, outcome: &Outcome) -> Option<Duration> {
        replay.tried.add(exchange.at);
        self.retry.as_ref()?.pause(replay, outcome, &self.name)
    }

    /// The error, with the upstream's name. Calls rejected because a limit was reached are counted and logged.
    fn turn_away(&self, error: Error) -> Error {
        if error.kind() == Kind::Busy {
            self.counters.count(Event::TurnedAway);
            if self.log_limiter.allows() {
                tracing::warn!(target: "crocodile_pear::upstream", upstream = &*self.name, "rejecting calls: {error}");
            }
        }
        error.of_upstream(&self.name)
    }
}

/// Sends the request to its server and waits for the head of the answer. A request that the server provably has not
/// processed is sent again here, outside the retry budget.
async fn attempt(exchange: &mut Exchange, connect: Timeout) -> Outcome {
    let mut from = Origin::Kept;
    for _ in 0..ATTEMPTS {
        match run(exchange, from, connect).await {
            Ok(parts) => return Ok(parts),
            Err(Failure::Unsent(error)) => return Err(exchange.lose(error, true)),
            Err(Failure::Final(error)) => return Err(exchange.lose(error, false)),
            Err(Failure::Stale) => exchange.upstream.counters.count(Event::Retried),
        }
        // A second kept connection may have been closed with the first one; a new one was not.
        from = Origin::Fresh;
    }
    // Requests that are not idempotent get here only if nothing was sent.
    let error = Error::new(Kind::Reset, "the upstream closed the connection before it answered");
    Err(exchange.lose(error, true))
}

/// pool → connect → exchange.
async fn run(exchange: &mut Exchange, from: Origin, connect: Timeout) -> Result<Parts, Failure> {
    let kept = match from {
        // A connection that is to change its protocol is not shared with other calls, before or after.
        _ if exchange.request.upgrades() => None,
        // The connection is never held across an await, which keeps the future of every call small.
        Origin::Kept => poll_fn(|cx| reuse(exchange, cx).into()).await.transpose()?,
        Origin::Fresh => None,
    };
    if kept.is_none() {
        open(exchange, connect).await?;
    }
    poll_fn(|cx| exchange.poll_head(cx)).await
}

/// Puts the exchange on a kept connection, if there is one for it.
fn reuse(exchange: &mut Exchange, cx: &mut Context<'_>) -> Option<Result<(), Failure>> {
    let now = exchange.moments.admitted();
    let lease = exchange.server().pool.take(cx, now).filter(|lease| usable(lease, exchange))?;
    exchange.clock.begin(now);
    Some(attach(exchange, lease, Origin::Kept, now))
}

/// Puts the exchange on a new connection, or on one that it waited for.
async fn open(exchange: &mut Exchange, limit: Timeout) -> Result<(), Failure> {
    let since = Instant::now();
    let upstream = exchange.upstream.clone();
    let limit = exchange.clock.within(limit);
    // Boxed, so that a call that waits for its answer does not keep the memory that connecting needed.
    let opened = match exchange.request.upgrades() {
        false => Box::pin(pool::open(&upstream, exchange.at, limit)).await,
        true => Box::pin(pool::open_alone(&upstream, exchange.at, limit)).await,
    };
    let (lease, origin) = opened.map_err(Failure::Unsent)?;
    let now = Instant::now();
    exchange.clock.charge(now - since);
    if origin == Origin::Kept && !usable(&lease, exchange) {
        return Err(Failure::Stale);
    }
    attach(exchange, lease, origin, now)
}

/// Whether the request may go out on a kept connection that seems to be at rest.
fn usable(lease: &Lease, exchange: &Exchange) -> bool {
    match lease {
        // A request that cannot be repeated is worth the system call that makes sure.
        Lease::Own(own) => exchange.request.method.idempotent || own.wire.io.surely_at_rest(),
        Lease::Shared(_) => true,
    }
}

fn attach(exchange: &mut Exchange, lease: Lease, origin: Origin, now: Instant) -> Result<(), Failure> {
    if origin == Origin::Kept {
        exchange.upstream.counters.count(Event::Reused);
    }
    exchange.attach(lease, origin, now)
}
