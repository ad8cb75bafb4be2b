//! An upstream: where it is, what may be sent to it, and the one way a call takes to it.

mod admission;
mod balance;
mod breaker;
mod clock;
mod connect;
mod counters;
mod eject;
mod exchange;
mod h2;
mod health;
mod hedge;
mod io;
mod limiter;
pub mod link;
mod outage;
mod pool;
mod random;
mod request;
mod resolve;
mod retry;
mod server;
mod spec;
mod tls;

pub use self::balance::{BalanceSpec, Way};
pub use self::breaker::BreakerSpec;
pub use self::counters::CounterSnapshot;
pub use self::eject::{EjectSpec, Ejection};
pub use self::health::HealthSpec;
pub use self::pool::Connections;
pub use self::resolve::{Resolver, ResolverSpec};
pub use self::retry::{BackoffSpec, Cause, RetrySpec};
pub use self::spec::{ConnectionsSpec, Files, Given, Protocol, ServerSpec, TimeoutSpec, TlsSpec, UpstreamSpec};
pub use self::tls::{TlsSettings, TlsVersion, refusal};
pub use crate::http1::fields::may_send;

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Context;
use std::time::Duration;

use http::{HeaderName, Method, Uri};
use tokio::time::Instant;

use self::admission::{Gate, admit};
use self::balance::{Balance, Tried};
use self::breaker::Breaker;
use self::clock::Clock;
use self::counters::{Counters, Event};
use self::eject::Eject;
use self::exchange::{Exchange, Failure, Origin, Parts};
use self::health::Health;
use self::hedge::late;
use self::limiter::LogLimiter;
use self::pool::Lease;
use self::request::Request;
use self::retry::{Replay, Retry};
use self::server::{Change, Server, Turn, judge};
use crate::error::{Error, Kind};
use crate::flow::{Answer, Body};
use crate::spec::Timeout;

/// What the configuration says of an upstream.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name in the configuration; the only thing about it that clients may learn.
    pub name: Arc<str>,
    /// Where it is, at least once: scheme `http` or `https`, authority, base path; and how much it takes beside the
    /// others.
    pub servers: Vec<(Uri, u32)>,
    /// Which versions of HTTP it may be spoken to in.
    pub protocol: Protocol,
    /// How TLS is spoken where the scheme is `https`.
    pub tls: TlsSettings,
    /// Who resolves its names; the system's resolver unless set.
    pub resolver: Option<Resolver>,
    /// How long each phase of a call may take.
    pub timeouts: Timeouts,
    /// The header fields of the client that it may see.
    pub forward: Vec<HeaderName>,
    /// How many calls it may have in flight, over all cores.
    pub in_flight: Option<usize>,
    /// How many connections there may be, and for how long.
    pub connections: Connections,
    /// Bytes that the head of an answer may have.
    pub max_head: usize,
    /// When a request is sent again. Unless told, with several servers it is as the spec's defaults say, and
    /// with one there is none.
    pub retry: Option<RetrySpec>,
    /// When a server that fails is no longer called.
    pub breaker: Option<BreakerSpec>,
    /// How calls are spread over several servers.
    pub balance: BalanceSpec,
    /// How servers are asked whether they are well, by who polls [`Upstream::watch`].
    pub health: Option<HealthSpec>,
}

impl Settings {
    /// The defaults for an upstream at `url`.
    pub fn new(name: impl Into<Arc<str>>, url: Uri) -> Self {
        Settings {
            name: name.into(),
            servers: vec![(url, 1)],
            protocol: Protocol::Auto,
            tls: TlsSettings::default(),
            resolver: None,
            timeouts: Timeouts::default(),
            forward: Vec::new(),
            in_flight: None,
            connections: Connections::default(),
            max_head: 64 * 1024,
            retry: None,
            breaker: None,
            balance: crate::spec::defaults(),
            health: None,
        }
    }

    fn ejection(&self) -> Option<EjectSpec> {
        match &self.balance.eject {
            Ejection::After(rules) if self.servers.len() > 1 => Some(rules.clone()),
            _ => None,
        }
    }

    /// What happens to a call because of these, in words.
    fn outline(&self) -> Vec<String> {
        let several = |count: usize| format!("{count} servers, {}", self.balance.by.word().replace('_', " "));
        let eject = |rules: EjectSpec| {
            let EjectSpec { failures, first, most } = rules;
            format!("ejected after {failures} failures in a row, for {first:?} up to {most:?}")
        };
        let silence =
            |silence: Duration| format!("one that answers nobody for {silence:?} while others answer has failed");
        let alone = self.servers.len() == 1;
        let parts = [
            Some(self.servers.len()).filter(|_| !alone).map(several),
            self.balance.silence.duration().filter(|_| !alone).map(silence),
            self.in_flight.map(|most| format!("at most {most} calls in flight")),
            self.connections.open.map(|most| format!("at most {most} connections for each core and server")),
            self.retry.as_ref().map(RetrySpec::explain),
            self.breaker.as_ref().map(BreakerSpec::explain),
            self.ejection().map(eject),
            self.health.as_ref().map(HealthSpec::explain),
        ];
        parts.into_iter().flatten().collect()
    }
}

/// How often a call is sent at most while it is provable that nobody has looked at it.
const ATTEMPTS: usize = 4;

/// How long an upstream may let a call wait. Only time spent waiting for the upstream counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection is there, and until a place among the calls in flight is.
    pub connect: Timeout,
    /// From the request's last byte so far to the head of the answer.
    pub first_byte: Timeout,
    /// Between two reads of a body.
    pub idle: Timeout,
    /// All of it together.
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
    forward: Vec<HeaderName>,
    timeouts: Timeouts,
    max_head: usize,
    gate: Gate,
    retry: Option<Retry>,
    balance: Balance,
    /// How long a server may answer nobody while others answer; nothing, if there is no other.
    silence: Option<Duration>,
    servers: Box<[Server]>,
    health: Option<Arc<HealthSpec>>,
    outline: Vec<String>,
    counters: Counters,
    log_limiter: LogLimiter,
}

/// One call to make.
pub struct Call {
    /// The method.
    pub method: Method,
    /// Path and query, percent-encoded, beginning with `/`, without the upstream's own base path.
    pub target: String,
    /// End-to-end header fields to send; those of a hop or of framing are left out.
    pub headers: http::HeaderMap,
    /// The body, if one is sent.
    pub body: Option<Body>,
    /// Instead of the upstream's own.
    pub timeouts: Option<Arc<Timeouts>>,
    /// When the client's whole request is over.
    pub deadline: Option<Instant>,
    /// Where the target begins.
    pub root: Root,
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
        let (method, headers) = (Method::GET, http::HeaderMap::new());
        Call { method, target, headers, body: None, timeouts: None, deadline: None, root: Root::Upstream }
    }

    /// The same with this body.
    fn again(&self, body: Option<Body>) -> Self {
        let Call { method, target, headers, timeouts, deadline, root, .. } = self;
        let (method, target, headers) = (method.clone(), target.clone(), headers.clone());
        Call { method, target, headers, body, timeouts: timeouts.clone(), deadline: *deadline, root: *root }
    }
}

impl Upstream {
    /// # Errors
    /// `Internal`, saying what is wrong with the URL.
    pub fn new(mut settings: Settings) -> Result<Arc<Self>, Error> {
        let wrong = |detail: String| Error::new(Kind::Internal, detail).of_upstream(&settings.name);
        let server = |(url, weight): &(Uri, u32)| Server::new(url, *weight, &settings);
        let servers = settings.servers.iter().map(server).collect::<Result<Box<[_]>, _>>().map_err(wrong)?;
        match servers.len() {
            0 => return Err(wrong("an upstream has a url".to_owned())),
            1 => {}
            // What one server cannot take, another can.
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
            counters: Counters::new(),
            log_limiter: LogLimiter::default(),
            name: settings.name,
            forward: settings.forward,
            timeouts: settings.timeouts,
            max_head: settings.max_head,
        }))
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The header fields of the client that it may see.
    pub fn forward(&self) -> &[HeaderName] {
        &self.forward
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

    /// What has happened so far.
    pub fn counters(&self) -> CounterSnapshot {
        self.counters.snapshot()
    }

    /// Requests sent again by the rules for retries, and those that were not for want of budget.
    pub fn retries(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.retry.as_ref().map_or((0, 0), |retry| (load(&retry.sent), load(&retry.withheld)))
    }

    /// How its servers fare.
    pub fn servers(&self) -> impl Iterator<Item = ServerState> {
        self.servers.iter().map(ServerState::of)
    }

    /// What happens to a call beside being sent, in words; nothing, for a plain upstream.
    pub fn outline(&self) -> &[String] {
        &self.outline
    }

    /// Makes the call; the answer's body is pulled from the connection.
    ///
    /// # Errors
    /// `BadRequest`, `Unreachable`, `Reset`, `Cut`, `Malformed`, `Timeout` or `Busy`, naming the upstream; the same from
    /// the answer's body.
    pub fn call(self: &Arc<Self>, call: Call) -> impl Future<Output = Result<Answer, Error>> + Send + 'static + use<> {
        // Made here and boxed once: the future stays a few words, and the box becomes the body of the answer.
        let ready = self.prepare(call).map_err(|error| error.of_upstream(&self.name));
        async move { chain(ready?).await }
    }

    fn prepare(self: &Arc<Self>, call: Call) -> Result<Ready, Error> {
        self.counters.count(Event::Call);
        let (at, turn) = self.balance.choose(&self.servers, Tried::default()).inspect_err(|_| {
            self.counters.count(Event::Refused);
        })?;
        let (own, deadline) = (call.timeouts.clone(), call.deadline);
        let timeouts = own.as_deref().unwrap_or(&self.timeouts);
        let replay = self.retry.as_ref().and_then(|retry| retry.replay(&call, timeouts));
        let request = Request::new(&self.servers[at], call)?;
        let mut clock = Clock::new(timeouts, deadline);
        if let Some(silence) = self.silence {
            clock.hurry(hedge::step(silence, &clock));
        }
        let exchange = Box::new(Exchange::new(self.clone(), at, request, clock));
        Ok(Ready { exchange, turn, replay, timeouts: own })
    }

    /// Learns what became of a call.
    fn note(&self, exchange: &Exchange, turn: Turn, outcome: &Outcome) {
        let server = exchange.server();
        if self.silence.is_some() && outcome.is_ok() {
            server.heard.fetch_add(1, Ordering::Relaxed);
        }
        // Who has no time left says nothing of whom it called.
        if server.standing.is_none() || (outcome.is_err() && exchange.clock.is_over()) {
            return;
        }
        let Some(went) = judge(outcome) else { return };
        let last = || self.servers.iter().enumerate().all(|(at, other)| at == exchange.at || !other.is_in());
        for change in server.note(went, turn, last).into_iter().flatten() {
            self.tell(exchange.at, change);
        }
    }

    fn tell(&self, at: usize, change: Change) {
        change.tell(&self.name, &ServerState::of(&self.servers[at]).address);
    }
}

/// How a server fares.
#[derive(Clone, Debug)]
pub struct ServerState {
    /// Authority and base path: for operators only.
    pub address: String,
    /// Whether calls go there as a matter of course.
    pub up: bool,
    /// Whether its breaker is open, or trying.
    pub open: bool,
    /// How often its breaker has opened.
    pub opened: u64,
    /// How often it was ejected.
    pub ejected: u64,
    /// Health checks, and how many of them were bad.
    pub checks: (u64, u64),
    /// Connections that could not be had, and those of them that TLS was the reason of.
    pub unconnected: (u64, u64),
    /// How often its name was asked for in vain, and how often its addresses have changed.
    pub name: (u64, u64),
}

impl ServerState {
    fn of(server: &Server) -> Self {
        let standing = server.standing.as_deref();
        let (breaker, eject) = (standing.and_then(|s| s.breaker.as_ref()), standing.and_then(|s| s.eject.as_ref()));
        let health = standing.and_then(|s| s.health.as_ref());
        ServerState {
            address: format!("{}{}", server.authority, server.base),
            up: server.is_in(),
            open: breaker.is_some_and(Breaker::is_open),
            opened: breaker.map_or(0, Breaker::opened),
            ejected: eject.map_or(0, Eject::times),
            checks: health.map_or((0, 0), Health::counts),
            unconnected: server.connector.failures(),
            name: server.connector.name().map_or((0, 0), |name| (name.failures(), name.changes().into())),
        }
    }
}

/// A call, with its server chosen.
struct Ready {
    exchange: Box<Exchange>,
    turn: Turn,
    /// What it takes to send it again; nothing, if it is sent once.
    replay: Option<Box<Replay>>,
    /// Instead of the upstream's own.
    timeouts: Option<Arc<Timeouts>>,
}

/// The head of an answer, or why there is none.
type Outcome = Result<Parts, Lost>;

/// A call without an answer.
struct Lost {
    error: Error,
    /// Whether nothing of the request can have arrived, or nobody can have looked at it.
    unsent: bool,
}

/// What happens to a call, in order: retry → breaker → balance → pool → connect → exchange.
async fn chain(ready: Ready) -> Result<Answer, Error> {
    // Breaker and balance have chosen the server of the first attempt.
    let Ready { mut exchange, mut turn, mut replay, timeouts } = ready;
    // Before a connection is taken, so that calls that wait hold none.
    let connect = timeouts.as_deref().unwrap_or(&exchange.upstream.timeouts).connect;
    if let Err(error) = exchange.admit(connect).await {
        return Err(exchange.upstream.turn_away(error));
    }
    // Only the first attempt looks around.
    let mut first = exchange.upstream.silence.is_some();
    loop {
        // Where there is somewhere else to go, there must be time for it.
        let within = if first && replay.is_some() { exchange.clock.half() } else { Timeout::Never };
        let mut outcome = attempt(&mut exchange, connect.min(within)).await;
        if std::mem::take(&mut first) && late(&outcome) {
            let upstream = exchange.upstream.clone();
            let timeouts = timeouts.as_deref().unwrap_or(&upstream.timeouts);
            // Boxed: few calls wait for so long.
            outcome = Box::pin(hedge::wait(&mut exchange, &mut turn, replay.as_deref_mut(), timeouts, outcome)).await;
        }
        exchange.upstream.note(&exchange, turn, &outcome);
        // Outside breaker and balance, so that a failed call may still go to another server.
        turn = match replay.as_deref_mut().and_then(|replay| exchange.upstream.pause(&exchange, replay, &outcome)) {
            // Boxed, so that calls that are not sent again do not carry the room.
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

/// Waits, and gets the request ready for another attempt, if there is anywhere to send it.
async fn again(
    exchange: &mut Box<Exchange>,
    replay: Option<&mut Replay>,
    wait: Duration,
    connect: Timeout,
) -> Option<Turn> {
    let (upstream, replay) = (exchange.upstream.clone(), replay?);
    tokio::time::sleep(wait).await;
    let (at, turn) = upstream.balance.choose(&upstream.servers, replay.tried).ok()?;
    let (call, mut clock) = replay.next(&upstream.timeouts);
    let request = Request::new(&upstream.servers[at], call).ok()?;
    let admission = match exchange.admission.take() {
        Some(mut admission) => {
            admission.move_to(at, &upstream);
            admission
        }
        // The answer was whole with its head, and has given its place back.
        None => admit(&upstream, at, &mut clock, connect).await.ok()?,
    };
    **exchange = Exchange::new(upstream, at, request, clock);
    exchange.admission = Some(admission);
    Some(turn)
}

impl Upstream {
    /// How long to wait before another attempt, if there is to be one.
    fn pause(&self, exchange: &Exchange, replay: &mut Replay, outcome: &Outcome) -> Option<Duration> {
        replay.tried.add(exchange.at);
        self.retry.as_ref()?.pause(replay, outcome, &self.name)
    }

    /// The error again; counted, and told now and then, if there was no room.
    fn turn_away(&self, error: Error) -> Error {
        if error.kind() == Kind::Busy {
            self.counters.count(Event::TurnedAway);
            if self.log_limiter.allows() {
                tracing::warn!(target: "crocodile_pear::upstream", upstream = &*self.name, "calls are turned away: {error}");
            }
        }
        error.of_upstream(&self.name)
    }
}

/// Sends the request to its server and waits for the head of the answer. What provably nobody has looked at is sent
/// again here: it costs no retry.
async fn attempt(exchange: &mut Exchange, connect: Timeout) -> Outcome {
    let mut from = Origin::Kept;
    for _ in 0..ATTEMPTS {
        match run(exchange, from, connect).await {
            Ok(parts) => return Ok(parts),
            Err(Failure::Unsent(error)) => return Err(Lost { error, unsent: true }),
            Err(Failure::Final(error)) => return Err(Lost { error, unsent: false }),
            Err(Failure::Stale) => exchange.upstream.counters.count(Event::Retried),
        }
        // A second kept connection may have been closed with the first; a fresh one was not.
        from = Origin::Fresh;
    }
    // What may not be done twice comes here only if it was not done once.
    let error = Error::new(Kind::Reset, "the upstream closed the connection before it answered");
    Err(Lost { error, unsent: true })
}

/// pool → connect → exchange.
async fn run(exchange: &mut Exchange, from: Origin, connect: Timeout) -> Result<Parts, Failure> {
    let kept = match from {
        // The connection itself is never held across an await: each call would carry the room.
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
    let lease = exchange.server().pool.take(cx).filter(|lease| usable(lease, exchange))?;
    Some(attach(exchange, lease, Origin::Kept))
}

/// Puts the exchange on a connection that is opened for it, or for which it had to wait.
async fn open(exchange: &mut Exchange, limit: Timeout) -> Result<(), Failure> {
    let since = Instant::now();
    let upstream = exchange.upstream.clone();
    // Boxed, so that a call that waits for its answer does not carry the room that connecting took.
    let opened = Box::pin(pool::open(&upstream, exchange.at, exchange.clock.within(limit))).await;
    let (lease, origin) = opened.map_err(Failure::Unsent)?;
    exchange.clock.charge(since.elapsed());
    if origin == Origin::Kept && !usable(&lease, exchange) {
        return Err(Failure::Stale);
    }
    attach(exchange, lease, origin)
}

/// Whether the request may go out on a kept connection that seems to be at rest.
fn usable(lease: &Lease, exchange: &Exchange) -> bool {
    match lease {
        // What cannot be repeated deserves the certainty that a system call gives.
        Lease::Own(own) => exchange.request.method.idempotent || own.wire.io.surely_at_rest(),
        Lease::Shared(_) => true,
    }
}

fn attach(exchange: &mut Exchange, lease: Lease, origin: Origin) -> Result<(), Failure> {
    if origin == Origin::Kept {
        exchange.upstream.counters.count(Event::Reused);
    }
    exchange.attach(lease, origin)
}
