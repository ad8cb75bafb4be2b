//! A whole call: an attempt, and further ones if it fails and they may succeed.

use std::sync::Arc;
use std::time::Duration;

use super::hedge::{self, late};
use super::{Attempt, head};
use crate::config::spec::Timeout;
use crate::error::Error;
use crate::message::answer::Answer;
use crate::upstream::call::UpstreamCall;
use crate::upstream::call::clock::Clock;
use crate::upstream::call::outcome::AttemptOutcome;
use crate::upstream::call::timeouts::Timeouts;
use crate::upstream::connect::counters::ConnectionEvent;
use crate::upstream::servers::Servers;
use crate::upstream::servers::affinity;
use crate::upstream::servers::balance::TriedServers;
use crate::upstream::servers::retry::Replay;

/// A call whose server is chosen.
pub(crate) struct ReadyCall {
    attempt: Attempt,
    /// The state that a retry needs; `None` if the call cannot be retried.
    replay: Option<Box<Replay>>,
    /// Instead of the upstream's own.
    timeouts: Option<Arc<Timeouts>>,
    affinity: Option<u64>,
}

impl ReadyCall {
    /// Chooses the server of the first attempt, and prepares that.
    ///
    /// # Errors
    /// `BadRequest` or `Busy`, naming the upstream.
    pub(crate) fn new(servers: &Arc<Servers>, call: Box<UpstreamCall>) -> Result<Self, Error> {
        Self::choose(servers, call).map_err(|error| error.of_upstream(&servers.name))
    }

    fn choose(servers: &Arc<Servers>, mut call: Box<UpstreamCall>) -> Result<Self, Error> {
        servers.counters.count(ConnectionEvent::Call);
        let chosen = servers
            .choose(TriedServers::default(), call.affinity)
            .inspect_err(|_| servers.counters.count(ConnectionEvent::Refused))?;
        let (own, deadline) = (call.timeouts.clone(), call.deadline);
        let timeouts = own.as_deref().unwrap_or(&servers.timeouts);
        let replay = servers.retry.as_ref().and_then(|retry| retry.replay(&call, timeouts));
        let mut clock = Clock::new(timeouts, deadline);
        if let Some(silence) = servers.silence {
            clock.hurry(hedge::step(silence, &clock));
        }
        let affinity = call.affinity;
        let attempt = Attempt::start(servers, chosen, &mut call, clock)?;
        Ok(ReadyCall { attempt, replay, timeouts: own, affinity })
    }

    /// The stages of a call, in order: retry → hedge → attempt → pool → connect → exchange.
    ///
    /// # Errors
    /// The errors of [`ReadyUpstream::call`](crate::upstream::ReadyUpstream::call).
    pub(crate) async fn send(self) -> Result<Answer, Error> {
        // Breaker and balance have chosen the server of the first attempt.
        let ReadyCall { mut attempt, mut replay, timeouts, affinity } = self;
        // Before a connection is taken, so that a waiting call holds none.
        let connect = timeouts.as_deref().unwrap_or(&attempt.exchange.servers.timeouts).connect;
        if let Err(error) = attempt.exchange.admit(connect).await {
            return Err(attempt.exchange.servers.reject(error));
        }
        // Only the first attempt may be hedged.
        let mut first = attempt.exchange.servers.silence.is_some();
        loop {
            // If the call can be sent elsewhere, half of its time is kept for that.
            let within = if first && replay.is_some() { attempt.exchange.clock.half() } else { Timeout::Never };
            let mut outcome = head(&mut attempt.exchange, connect.min(within)).await;
            if std::mem::take(&mut first) && late(&outcome) {
                let servers = attempt.exchange.servers.clone();
                let timeouts = timeouts.as_deref().unwrap_or(&servers.timeouts);
                // Boxed: few calls wait this long.
                outcome = Box::pin(hedge::wait(&mut attempt, replay.as_deref_mut(), timeouts, outcome)).await;
            }
            attempt.note(&outcome);
            // Outside breaker and balance, so that a failed call may still go to another server.
            let wait = replay.as_deref_mut().and_then(|replay| pause(&attempt, replay, &outcome));
            attempt = match wait {
                // Boxed, so that the futures of calls without a retry stay small.
                Some(wait) => match Box::pin(again(&mut attempt, replay.as_deref_mut(), wait, connect)).await {
                    Some(next) => next,
                    None => return settle(attempt, outcome, affinity),
                },
                None => return settle(attempt, outcome, affinity),
            };
        }
    }
}

fn settle(attempt: Attempt, outcome: AttemptOutcome, affinity: Option<u64>) -> Result<Answer, Error> {
    match outcome {
        Ok(parts) if attempt.exchange.servers.cookie.is_none() => Ok(attempt.exchange.into_answer(parts)),
        Ok(mut parts) => {
            let exchange = &attempt.exchange;
            if let Some(cookie) = &exchange.servers.cookie {
                affinity::set_cookie(cookie, exchange.server().mark, affinity, &mut parts.1);
            }
            Ok(attempt.exchange.into_answer(parts))
        }
        Err(lost) => Err(attempt.exchange.servers.reject(lost.error)),
    }
}

/// How long to wait before a retry, if there is one.
fn pause(attempt: &Attempt, replay: &mut Replay, outcome: &AttemptOutcome) -> Option<Duration> {
    let (servers, at) = (&attempt.exchange.servers, attempt.exchange.at);
    replay.tried.add(at);
    if replay.is_streamed() && !attempt.exchange.request.has_whole_stream() {
        return None;
    }
    servers.retry.as_ref()?.pause(replay, outcome, &servers.name)
}

/// Waits, chooses a server and prepares the next attempt; `None` if no server can be called.
async fn again(
    attempt: &mut Attempt,
    replay: Option<&mut Replay>,
    wait: Duration,
    connect: Timeout,
) -> Option<Attempt> {
    let (servers, replay) = (attempt.exchange.servers.clone(), replay?);
    tokio::time::sleep(wait).await;
    let (at, turn) = servers.choose(replay.tried, replay.affinity()).ok()?;
    let (mut call, clock) = replay.next(&servers.timeouts);
    if replay.is_streamed() {
        (call.body, call.trailing) = attempt.exchange.request.take_stream()?;
    }
    let mut next = Attempt::start(&servers, (at, turn), &mut call, clock).ok()?;
    match attempt.exchange.admission.take() {
        Some(mut admission) => {
            admission.move_to(at, &servers);
            next.exchange.admission = Some(admission);
        }
        // The whole answer came with its head, so the admission was given back.
        None => next.exchange.admit(connect).await.ok()?,
    }
    Some(next)
}
