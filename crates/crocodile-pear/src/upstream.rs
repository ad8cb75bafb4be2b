//! An upstream: where it is, what may be sent to it, and the one way a call takes to it.

mod admission;
mod clock;
mod connect;
mod endpoint;
mod exchange;
mod fields;
mod framing;
mod head;
mod io;
mod pool;
mod request;
mod spec;

pub use self::fields::may_send;
pub use self::spec::{TimeoutSpec, UpstreamSpec};

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderName, Method, Uri};
use tokio::time::Instant;

use self::admission::{Gate, admit};
use self::clock::Clock;
use self::endpoint::Endpoint;
use self::exchange::{Exchange, Failure, Origin, Parts};
use self::io::Io;
use self::request::Request;
use crate::error::{Error, Kind};
use crate::flow::{Answer, Body};

/// What the configuration says of an upstream.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name in the configuration; the only thing about it that clients may learn.
    pub name: Arc<str>,
    /// Where it is, at least once: scheme `http`, authority, base path.
    pub urls: Vec<Uri>,
    /// How long each phase of a call may take.
    pub timeouts: Timeouts,
    /// The header fields of the client that it may see.
    pub forward: Vec<HeaderName>,
    /// How many calls it may have in flight, over all cores.
    pub in_flight: Option<usize>,
    /// How long a connection is kept without a call.
    pub idle: Duration,
    /// How many connections are kept without a call, per core.
    pub max_idle: usize,
    /// Bytes that the head of an answer may have.
    pub max_head: usize,
}

impl Settings {
    /// The defaults for an upstream at `url`.
    pub fn new(name: impl Into<Arc<str>>, url: Uri) -> Self {
        Settings {
            name: name.into(),
            urls: vec![url],
            timeouts: Timeouts::default(),
            forward: Vec::new(),
            in_flight: None,
            // nginx's default on the other side is 75 s: who closes first loses no request.
            idle: Duration::from_secs(60),
            // A fan-out of ten for a hundred clients at once finds all of its connections again.
            max_idle: 1024,
            max_head: 64 * 1024,
        }
    }
}

/// How long an upstream may let a call wait. Only time spent waiting for the upstream counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection is there, and until a place among the calls in flight is.
    pub connect: Limit,
    /// From the request's last byte so far to the head of the answer.
    pub first_byte: Limit,
    /// Between two reads of a body.
    pub idle: Limit,
    /// All of it together.
    pub call: Limit,
}

impl Default for Timeouts {
    fn default() -> Self {
        let after = |seconds| Limit::After(Duration::from_secs(seconds));
        Timeouts { connect: after(3), first_byte: after(30), idle: after(30), call: after(300) }
    }
}

pub use crate::spec::Timeout as Limit;

/// What has happened at an upstream; each is counted without order among them.
#[derive(Debug, Default)]
pub struct Counters {
    /// Calls begun.
    pub calls: AtomicU64,
    /// Connections opened.
    pub opened: AtomicU64,
    /// Calls sent on a kept connection.
    pub reused: AtomicU64,
    /// Calls sent again because a kept connection turned out to be closed.
    pub retried: AtomicU64,
    /// Calls in flight now.
    pub in_flight: AtomicU64,
}

/// A configured upstream, ready to be called from any core.
pub struct Upstream {
    name: Arc<str>,
    forward: Vec<HeaderName>,
    timeouts: Timeouts,
    max_head: usize,
    gate: Gate,
    endpoints: Box<[Endpoint]>,
    counters: Counters,
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
}

impl Upstream {
    /// # Errors
    /// `Internal`, saying what is wrong with the URL.
    pub fn new(settings: Settings) -> Result<Arc<Self>, Error> {
        let wrong = |detail| Error::new(Kind::Internal, detail).of_upstream(&settings.name);
        let endpoint = |url| Endpoint::new(url, settings.idle, settings.max_idle);
        let endpoints = settings.urls.iter().map(endpoint).collect::<Result<Box<[_]>, _>>().map_err(wrong)?;
        if endpoints.is_empty() {
            return Err(wrong("an upstream has a url"));
        }
        Ok(Arc::new(Upstream {
            gate: Gate::new(settings.in_flight),
            endpoints,
            counters: Counters::default(),
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

    /// What has happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Makes the call; the answer's body is pulled from the connection.
    ///
    /// # Errors
    /// `BadRequest`, `Unreachable`, `Reset`, `Cut`, `Malformed`, `Timeout` or `Busy`, naming the upstream; the same from
    /// the answer's body.
    pub fn call(self: &Arc<Self>, call: Call) -> impl Future<Output = Result<Answer, Error>> + Send + 'static {
        let name = self.name.clone();
        // Made here and boxed once: the future stays a few words, and the box becomes the body of the answer.
        let exchange = self.prepare(call);
        async move {
            match exchange {
                Ok((exchange, connect)) => chain(exchange, connect).await,
                Err(error) => Err(error),
            }
            .map_err(|error| error.of_upstream(&name))
        }
    }

    fn prepare(self: &Arc<Self>, call: Call) -> Result<(Box<Exchange>, Limit), Error> {
        let (timeouts, deadline) = (call.timeouts.clone(), call.deadline);
        let timeouts = timeouts.as_deref().unwrap_or(&self.timeouts);
        let at = 0;
        let request = Request::new(&self.endpoints[at], call)?;
        Ok((Box::new(Exchange::new(self.clone(), at, request, Clock::new(timeouts, deadline))), timeouts.connect))
    }
}

/// What happens to a call, in order. Retry, breaker and balance will stand here.
async fn chain(mut exchange: Box<Exchange>, connect: Limit) -> Result<Answer, Error> {
    let upstream = exchange.upstream.clone();
    upstream.counters.count(|counters| &counters.calls);
    // Before a connection is taken, so that calls that wait hold none.
    exchange.admission = Some(admit(&upstream, &mut exchange.clock, connect).await?);
    let parts = attempt(&mut exchange, connect).await?;
    Ok(exchange.into_answer(parts))
}

/// Sends the request to its endpoint, pool → connect → exchange, and waits for the head of the answer.
async fn attempt(exchange: &mut Exchange, connect: Limit) -> Result<Parts, Error> {
    let pool = &exchange.endpoint().pool;
    let kept = poll_fn(|cx| pool.take(cx).into()).await;
    if let Some(io) = kept.filter(|io| usable(io, exchange)) {
        exchange.upstream.counters.count(|counters| &counters.reused);
        match run(exchange, io, Origin::Kept).await {
            Ok(parts) => return Ok(parts),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Stale) => exchange.upstream.counters.count(|counters| &counters.retried),
        }
    }
    // A second kept connection may have been closed with the first; a fresh one was not.
    let io = open(exchange, connect).await?;
    match run(exchange, io, Origin::Fresh).await {
        Ok(parts) => Ok(parts),
        Err(Failure::Final(error)) => Err(error),
        Err(Failure::Stale) => Err(Error::new(Kind::Reset, "the upstream closed the connection before it answered")),
    }
}

/// Whether the request may go out on a kept connection that seems to be at rest.
fn usable(io: &Io, exchange: &Exchange) -> bool {
    // What cannot be repeated deserves the certainty that a system call gives.
    exchange.request.method.idempotent || io.surely_at_rest()
}

async fn open(exchange: &mut Exchange, limit: Limit) -> Result<Io, Error> {
    let since = Instant::now();
    let upstream = exchange.upstream.clone();
    // Boxed, so that a call that waits for its answer does not carry the room that connecting took.
    let io = Box::pin(upstream.endpoints[exchange.at].place.connect(exchange.clock.within(limit))).await?;
    exchange.clock.charge(since.elapsed());
    upstream.counters.count(|counters| &counters.opened);
    Ok(io)
}

async fn run(exchange: &mut Exchange, io: Io, origin: Origin) -> Result<Parts, Failure> {
    exchange.attach(io, origin);
    poll_fn(|cx| exchange.poll_head(cx)).await
}

impl Counters {
    fn count(&self, which: impl FnOnce(&Self) -> &AtomicU64) {
        which(self).fetch_add(1, Ordering::Relaxed);
    }
}
