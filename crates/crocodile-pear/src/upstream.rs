//! An upstream: where it is, what may be sent to it, and the one way a call takes to it.

mod clock;
mod connect;
mod exchange;
mod fields;
mod framing;
mod h2;
mod head;
mod io;
mod pool;
mod request;
mod resolve;
mod spec;
mod tls;

pub use self::fields::may_send;
pub use self::pool::Connections;
pub use self::resolve::Resolver;
pub use self::spec::{ConnectionsSpec, Files, Protocol, TimeoutSpec, TlsSpec, UpstreamSpec};
pub use self::tls::{TlsSettings, TlsVersion};

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderName, Method, Uri};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::clock::Clock;
use self::connect::Place;
use self::exchange::{Exchange, Failure, Origin};
use self::io::Io;
use self::pool::{Line, Pool};
use self::request::Request;
use self::tls::Tls;
use crate::error::{Error, Kind};
use crate::flow::{Answer, Body};

/// What the configuration says of an upstream.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name in the configuration; the only thing about it that clients may learn.
    pub name: Arc<str>,
    /// Where it is: scheme `http` or `https`, authority, base path.
    pub url: Uri,
    /// Which versions of HTTP it may be spoken to in.
    pub protocol: Protocol,
    /// How TLS is spoken where the scheme is `https`.
    pub tls: TlsSettings,
    /// Who resolves its name; the system's resolver unless set.
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
}

impl Settings {
    /// The defaults for an upstream at `url`.
    pub fn new(name: impl Into<Arc<str>>, url: Uri) -> Self {
        Settings {
            name: name.into(),
            url,
            protocol: Protocol::Auto,
            tls: TlsSettings::default(),
            resolver: None,
            timeouts: Timeouts::default(),
            forward: Vec::new(),
            in_flight: None,
            connections: Connections::default(),
            max_head: 64 * 1024,
        }
    }
}

/// How often a call is sent at most while it is provable that nobody has looked at it.
const ATTEMPTS: usize = 4;

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
    protocol: Protocol,
    place: Place,
    authority: Box<str>,
    base: Box<str>,
    gate: Option<Semaphore>,
    pool: Arc<Pool>,
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
        let wrong = |detail: String| Error::new(Kind::Internal, detail).of_upstream(&settings.name);
        let url = &settings.url;
        let authority = url.authority().ok_or_else(|| wrong("the url of an upstream names a host".to_owned()))?;
        if authority.as_str().contains('@') {
            return Err(wrong("the url of an upstream holds no credentials".to_owned()));
        }
        if url.query().is_some() {
            return Err(wrong("the url of an upstream has no query".to_owned()));
        }
        let (tls, port) = match url.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => {
                let tls = Tls::new(&settings.tls, authority.host(), settings.protocol.offers());
                (Some(tls.map_err(|unfit| wrong(unfit.message))?), 443)
            }
            _ => return Err(wrong("the url of an upstream begins with http:// or https://".to_owned())),
        };
        Ok(Arc::new(Upstream {
            protocol: settings.protocol,
            place: Place::new(authority.host(), authority.port_u16().unwrap_or(port), tls, settings.resolver.as_ref()),
            authority: authority.as_str().into(),
            base: url.path().trim_end_matches('/').into(),
            gate: settings.in_flight.map(|calls| Semaphore::new(calls.min(Semaphore::MAX_PERMITS))),
            pool: Arc::new(Pool::new(settings.connections)),
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

    /// Whether calls may share connections.
    fn shares(&self) -> bool {
        match self.protocol {
            Protocol::Auto => self.place.has_tls(),
            Protocol::Http1 => false,
            Protocol::Http2 => true,
        }
    }

    /// What is spoken on a new connection.
    fn speaks_h2(&self, io: &Io) -> Result<bool, Error> {
        let prior_knowledge = self.protocol == Protocol::Http2 && !self.place.has_tls();
        match prior_knowledge || io.chose_h2() {
            false if self.protocol == Protocol::Http2 => {
                Err(Error::new(Kind::Unreachable, "the upstream does not speak HTTP/2"))
            }
            speaks => Ok(speaks),
        }
    }

    fn scheme(&self) -> &'static str {
        if self.place.has_tls() { "https" } else { "http" }
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
        let request = Request::new(self, call)?;
        Ok((Box::new(Exchange::new(self.clone(), request, Clock::new(timeouts, deadline))), timeouts.connect))
    }
}

/// What happens to a call, in order. Retry, breaker and balance will stand here.
async fn chain(mut exchange: Box<Exchange>, connect: Limit) -> Result<Answer, Error> {
    // Before a connection is taken, so that calls that wait hold none.
    admit(&mut exchange, connect).await?;
    let mut kept = poll_fn(|cx| exchange.upstream.pool.take(cx).into()).await;
    for _ in 0..ATTEMPTS {
        let (line, origin) = match kept.take() {
            Some(line) => (line, Origin::Kept),
            // A second kept connection may have been closed with the first; a fresh one was not.
            None => open(&mut exchange, connect).await?,
        };
        if origin == Origin::Kept {
            if !usable(&line, &exchange) {
                continue;
            }
            exchange.upstream.counters.count(|counters| &counters.reused);
        }
        match run(&mut exchange, line, origin).await {
            Ok(parts) => return Ok(exchange.into_answer(parts)),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Stale) => exchange.upstream.counters.count(|counters| &counters.retried),
        }
    }
    Err(Error::new(Kind::Reset, "the upstream closed the connection before it answered"))
}

/// Waits for a place among the calls in flight.
async fn admit(exchange: &mut Exchange, limit: Limit) -> Result<(), Error> {
    let upstream = exchange.upstream.clone();
    upstream.counters.count(|counters| &counters.calls);
    if let Some(gate) = &upstream.gate {
        let permit = match gate.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => queue(gate, exchange, limit).await,
        };
        // Given back by `Admission`, which borrows nothing.
        permit.ok_or_else(|| Error::new(Kind::Busy, "too many calls in flight"))?.forget();
    }
    exchange.admission = Some(Admission::new(upstream));
    Ok(())
}

async fn queue<'a>(
    gate: &'a Semaphore,
    exchange: &mut Exchange,
    limit: Limit,
) -> Option<tokio::sync::SemaphorePermit<'a>> {
    let since = Instant::now();
    let permit = match exchange.clock.within(limit) {
        Limit::Never => gate.acquire().await.ok(),
        // Boxed: few calls queue, all would carry the room.
        Limit::After(limit) => Box::pin(tokio::time::timeout(limit, gate.acquire())).await.ok()?.ok(),
    };
    exchange.clock.charge(since.elapsed());
    permit
}

/// Whether the request may go out on a kept connection that seems to be at rest.
fn usable(line: &Line, exchange: &Exchange) -> bool {
    match line {
        // What cannot be repeated deserves the certainty that a system call gives.
        Line::Own(own) => exchange.request.method.idempotent || own.io.surely_at_rest(),
        Line::Shared(_) => true,
    }
}

async fn open(exchange: &mut Exchange, limit: Limit) -> Result<(Line, Origin), Error> {
    let since = Instant::now();
    let upstream = exchange.upstream.clone();
    // Boxed, so that a call that waits for its answer does not carry the room that connecting took.
    let opened = Box::pin(pool::open(&upstream, exchange.clock.within(limit))).await?;
    exchange.clock.charge(since.elapsed());
    Ok(opened)
}

async fn run(
    exchange: &mut Exchange,
    line: Line,
    origin: Origin,
) -> Result<(http::StatusCode, http::HeaderMap), Failure> {
    exchange.attach(line, origin)?;
    poll_fn(|cx| exchange.poll_head(cx)).await
}

/// A call's place among those in flight, given back when the answer is whole or given up.
struct Admission {
    upstream: Arc<Upstream>,
}

impl Admission {
    fn new(upstream: Arc<Upstream>) -> Self {
        upstream.counters.count(|counters| &counters.in_flight);
        Admission { upstream }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.upstream.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(gate) = &self.upstream.gate {
            gate.add_permits(1);
        }
    }
}

impl Counters {
    fn count(&self, which: impl FnOnce(&Self) -> &AtomicU64) {
        which(self).fetch_add(1, Ordering::Relaxed);
    }
}
