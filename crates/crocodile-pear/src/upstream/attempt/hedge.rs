//! Hedging: a call that waits for a server which answers no call, while others answer, is sent to another server too.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::{Attempt, head};
use crate::config::spec::Timeout;
use crate::error::Kind;
use crate::resilience::trial::{Trial, Turn};
use crate::upstream::call::clock::Clock;
use crate::upstream::call::outcome::{AttemptOutcome, ConnectionFailure, reset};
use crate::upstream::call::timeouts::Timeouts;
use crate::upstream::exchange::Exchange;
use crate::upstream::servers::Servers;
use crate::upstream::servers::retry::Replay;

/// How many answers of other servers make a server's silence a failure: a healthy one with its share of the calls would
/// have answered too.
const TELLING: u64 = 10;
/// The longest time between two checks.
const SELDOM: Duration = Duration::from_secs(1);

/// How many answers have begun, at this server and at the others.
#[derive(Clone, Copy)]
struct Heard {
    here: u64,
    elsewhere: u64,
}

/// How long a call waits before its first check. It takes two checks to find a silent server, and a call with little time
/// keeps half of it for another server.
pub(crate) fn step(silence: Duration, clock: &Clock) -> Duration {
    clock.half().duration().map_or(silence, |half| silence.min(half)) / 2
}

/// Waits on after the first step, up to the time for the first byte, and checks now and then whether only other servers answer.
pub(crate) async fn wait(
    attempt: &mut Attempt,
    mut replay: Option<&mut Replay>,
    timeouts: &Timeouts,
    mut outcome: AttemptOutcome,
) -> AttemptOutcome {
    let servers = attempt.exchange.servers.clone();
    let at = attempt.exchange.at;
    let mut before = Heard::of(&servers, at);
    let (mut step, mut told) = (attempt.exchange.clock.step(), false);
    loop {
        if !late(&outcome) || !attempt.exchange.clock.extend(step, timeouts.first_byte) {
            return outcome;
        }
        outcome = resume(&mut attempt.exchange).await;
        if late(&outcome) {
            let doubted = attempt.turn.eject == Trial::Yes || attempt.exchange.server().is_doubted();
            let silent = before.silent(Heard::of(&servers, at), doubted);
            if silent && !told {
                told = true;
                let (name, server) = (&servers.name, &attempt.exchange.server().place);
                tracing::debug!(target: "crocodile_pear::upstream", upstream = &**name, server = &**server, "the server answers no call while others do: the call counts as failed");
                attempt.note(&outcome);
                attempt.turn = Turn::PLAIN;
            }
            if (silent || doubted)
                && let Some(rival) = rival(&servers, at, replay.as_deref_mut()).await
            {
                return race(attempt, rival, timeouts.connect).await;
            }
        }
        step = (step * 2).min(SELDOM);
    }
}

impl Heard {
    fn of(servers: &Servers, at: usize) -> Self {
        let heard = |at: usize| servers.list[at].figures.heard.load(Ordering::Relaxed);
        let others = (0..servers.list.len()).filter(|other| *other != at);
        Heard { here: heard(at), elsewhere: others.map(heard).sum() }
    }

    /// Whether this server answered no call meanwhile and others answered many; after a failure here, one is enough.
    fn silent(&mut self, now: Heard, doubted: bool) -> bool {
        if now.here != self.here {
            *self = now;
            return false;
        }
        now.elsewhere - self.elsewhere >= if doubted { 1 } else { TELLING }
    }
}

/// Whether the wait for the head has timed out.
pub(crate) fn late(outcome: &AttemptOutcome) -> bool {
    outcome.as_ref().is_err_and(|lost| !lost.unsent && lost.error.kind() == Kind::Timeout)
}

/// Waits on for the head.
async fn resume(exchange: &mut Exchange) -> AttemptOutcome {
    let failure = match poll_fn(|cx| exchange.poll_head(cx)).await {
        Ok(parts) => return Ok(parts),
        Err(failure) => failure,
    };
    Err(match failure {
        ConnectionFailure::Unsent(error) => exchange.lose(error, true),
        ConnectionFailure::Final(error) => exchange.lose(error, false),
        ConnectionFailure::Stale => {
            let error = reset(None);
            exchange.lose(error, true)
        }
    })
}

/// The same request at another server, if it may be sent again and there is one.
async fn rival(servers: &Arc<Servers>, waiting: usize, replay: Option<&mut Replay>) -> Option<Attempt> {
    let (retry, replay) = (servers.retry.as_ref()?, replay?);
    replay.tried.add(waiting);
    let (at, turn) = servers.choose(replay.tried, replay.affinity()).ok()?;
    if at == waiting || !retry.hedges(replay) {
        return None;
    }
    let (mut call, clock) = replay.next(&servers.timeouts);
    let mut rival = Attempt::start(servers, (at, turn), &mut call, clock).ok()?;
    rival.exchange.admit(Timeout::After(Duration::ZERO)).await.ok()?;
    Some(rival)
}

/// The first answer of the two; `attempt` becomes the one that has it.
async fn race(attempt: &mut Attempt, mut rival: Attempt, connect: Timeout) -> AttemptOutcome {
    let (outcome, won) = {
        let first = pin!(resume(&mut attempt.exchange));
        let second = pin!(head(&mut rival.exchange, connect));
        match select(first, second).await {
            Either::Left((Ok(parts), _)) => (Ok(parts), false),
            Either::Left((Err(_), second)) => (second.await, true),
            Either::Right((Ok(parts), _)) => (Ok(parts), true),
            Either::Right((Err(_), first)) => (first.await, false),
        }
    };
    if won {
        *attempt = rival;
    }
    outcome
}
