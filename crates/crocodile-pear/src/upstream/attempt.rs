//! An attempt of a call, at the server that was chosen for it: a kept connection or a new one, then the exchange.

pub(crate) mod hedge;
pub(crate) mod retry_loop;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context;

use tokio::time::Instant;

use super::call::UpstreamCall;
use super::call::clock::Clock;
use super::call::outcome::{AttemptOutcome, ConnectionFailure, ResponseHead, judge, reset};
use super::call::timing::{CallLine, Ended, Moments};
use super::connect::acquire;
use super::connect::counters::ConnectionEvent;
use super::connect::pool::{ConnectionOrigin, Lease};
use super::exchange::Exchange;
use super::exchange::request::{OutboundRequest, RequestFacts};
use super::servers::Servers;
use crate::config::spec::Timeout;
use crate::error::Error;
use crate::resilience::trial::Turn;
use crate::telemetry::request_record::{CallKind, CallNote, CallPlace};

/// The most attempts while the server provably has not processed the request.
const ATTEMPTS: usize = 4;

/// An attempt, and whether it is a trial call for its server.
pub(super) struct Attempt {
    pub(super) exchange: Box<Exchange>,
    pub(super) turn: Turn,
}

impl Attempt {
    /// Prepares the exchange, and takes what it needs out of the call. Nothing is sent yet.
    ///
    /// # Errors
    /// `BadRequest` if the request cannot be written in HTTP.
    pub(super) fn start(
        servers: &Arc<Servers>,
        (at, turn): (usize, Turn),
        call: &mut UpstreamCall,
        clock: Clock,
    ) -> Result<Self, Error> {
        let mut moments = Moments::begin();
        let note = call.note.take();
        let span = note.as_ref().and_then(CallNote::span);
        let noted = RequestFacts { trace: span, target: note.is_some() };
        let server = &servers.list[at];
        let request = OutboundRequest::new(server, call, noted);
        let span = span.map_or(0, |(_, span)| span);
        if let Some(note) = note {
            let (kind, tls) = (CallKind::Http, server.pool.connector.has_tls());
            let place = CallPlace { kind, upstream: &servers.name, server: Some(&server.address), tls };
            let (method, target) = (call.method.clone(), std::mem::take(&mut call.target));
            moments.note(note, place, CallLine { method, target, span });
        }
        match request {
            Ok(request) => {
                let exchange = Box::new(Exchange::new(servers.clone(), at, request, clock, moments));
                Ok(Attempt { exchange, turn })
            }
            Err(error) => {
                let _ = moments.end(Ended::Failed(error.kind()), Instant::now);
                Err(error)
            }
        }
    }

    /// A health check of a server, whatever the server's state. It does not count as a call.
    ///
    /// # Errors
    /// The errors of [`Attempt::start`].
    pub(super) fn of_check(
        servers: &Arc<Servers>,
        at: usize,
        mut call: UpstreamCall,
        clock: Clock,
    ) -> Result<Self, Error> {
        let request = OutboundRequest::new(&servers.list[at], &mut call, RequestFacts::default())?;
        let exchange = Exchange::new(servers.clone(), at, request, clock, Moments::of_check());
        Ok(Attempt { exchange: Box::new(exchange), turn: Turn::PLAIN })
    }

    /// Reports its outcome to breaker and ejection.
    pub(super) fn note(&self, outcome: &AttemptOutcome) {
        let (exchange, servers) = (&self.exchange, &self.exchange.servers);
        let server = exchange.server();
        if servers.silence.is_some() && outcome.is_ok() {
            server.figures.heard.fetch_add(1, Ordering::Relaxed);
        }
        // A call past its deadline says nothing about the server's health.
        if server.availability.is_none() || (outcome.is_err() && exchange.clock.is_over()) {
            return;
        }
        let Some(verdict) = judge(outcome) else { return };
        let last = || servers.list.iter().enumerate().all(|(at, other)| at == exchange.at || !other.is_in());
        for change in server.note(verdict, self.turn, last).into_iter().flatten() {
            change.log(&servers.name, &server.address);
        }
    }
}

/// Sends the request to its server and waits for the head of the answer. A request that the server provably has not
/// processed is sent again here, outside the retry budget.
pub(super) async fn head(exchange: &mut Exchange, connect: Timeout) -> AttemptOutcome {
    let mut from = ConnectionOrigin::Kept;
    for _ in 0..ATTEMPTS {
        match run(exchange, from, connect).await {
            Ok(parts) => return Ok(parts),
            Err(ConnectionFailure::Unsent(error)) => return Err(exchange.lose(error, true)),
            Err(ConnectionFailure::Final(error)) => return Err(exchange.lose(error, false)),
            Err(ConnectionFailure::Stale) => exchange.servers.counters.count(ConnectionEvent::Retried),
        }
        // A second kept connection may have been closed with the first one; a new one was not.
        from = ConnectionOrigin::Fresh;
    }
    // Requests that are not idempotent get here only if nothing was sent.
    Err(exchange.lose(reset(None), true))
}

/// pool → connect → exchange.
async fn run(
    exchange: &mut Exchange,
    from: ConnectionOrigin,
    connect: Timeout,
) -> Result<ResponseHead, ConnectionFailure> {
    if let Some(transport) = exchange.server().transport() {
        let transport = transport.clone();
        exchange.carry(&*transport)?;
        return poll_fn(|cx| exchange.poll_head(cx)).await;
    }
    let kept = match from {
        // A connection that is to change its protocol is not shared with other calls, before or after.
        _ if exchange.request.upgrades() => None,
        // The connection is never held across an await, which keeps the future of every call small.
        ConnectionOrigin::Kept => poll_fn(|cx| reuse(exchange, cx).into()).await.transpose()?,
        ConnectionOrigin::Fresh => None,
    };
    if kept.is_none() {
        connect_new(exchange, connect).await?;
    }
    poll_fn(|cx| exchange.poll_head(cx)).await
}

/// Puts the exchange on a kept connection, if there is one for it.
fn reuse(exchange: &mut Exchange, cx: &mut Context<'_>) -> Option<Result<(), ConnectionFailure>> {
    let now = exchange.moments.admitted();
    let lease = exchange.server().pool.take(cx, now).filter(|lease| usable(lease, exchange))?;
    exchange.clock.begin(now);
    Some(attach(exchange, lease, ConnectionOrigin::Kept, now))
}

/// Puts the exchange on a new connection, or on one that it waited for.
async fn connect_new(exchange: &mut Exchange, limit: Timeout) -> Result<(), ConnectionFailure> {
    let since = Instant::now();
    let pool = exchange.server().pool.clone();
    let limit = exchange.clock.within(limit);
    // Boxed, so that a call that waits for its answer does not keep the memory that connecting needed.
    let opened = match exchange.request.upgrades() {
        false => Box::pin(acquire::open(&pool, limit)).await,
        true => Box::pin(acquire::open_alone(&pool, limit)).await,
    };
    let (lease, origin) = opened.map_err(ConnectionFailure::Unsent)?;
    let now = Instant::now();
    exchange.clock.charge(now - since);
    if origin == ConnectionOrigin::Kept && !usable(&lease, exchange) {
        return Err(ConnectionFailure::Stale);
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

fn attach(
    exchange: &mut Exchange,
    lease: Lease,
    origin: ConnectionOrigin,
    now: Instant,
) -> Result<(), ConnectionFailure> {
    if origin == ConnectionOrigin::Kept {
        exchange.servers.counters.count(ConnectionEvent::Reused);
    }
    exchange.attach(lease, origin, now)
}
