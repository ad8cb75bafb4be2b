//! Retries: a request that may be repeated is sent again, to another server if there is one, within a budget.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use tokio::time::Instant;

use super::balance::TriedServers;
use crate::config::carried_state::Carry;
use crate::config::problem::Problems;
use crate::config::spec;
use crate::config::spec::{Decode, Definitions, Json, Node, Share, Timeout, defaults};
use crate::error::Kind;
use crate::runtime::backoff::grown;
use crate::runtime::random::below;
use crate::spec;
use crate::telemetry::log_limiter::LogLimiter;
use crate::upstream::call::UpstreamCall;
use crate::upstream::call::clock::Clock;
use crate::upstream::call::outcome::AttemptOutcome;
use crate::upstream::call::timeouts::Timeouts;

spec! {
    /// When to retry a request: on another server, if there is one. A request is retried only if its method is
    /// idempotent (RFC 9110, 9.2.2) or if nothing of it was sent, and only before any part of an answer was passed
    /// on. A request with a streamed body is retried only if nothing of it was sent.
    pub struct RetrySpec {
        /// The maximum number of attempts, including the first.
        pub attempts: NonZeroU32 = NonZeroU32::MIN.saturating_add(1),
        /// The causes to retry: `connect` (no connection), `reset` (the connection ended before the answer), `timeout` (no
        /// answer in time), or a status such as 503. With `timeout`, if a server answers no call for the `silence` of
        /// `balance`, its calls are sent to another server too, if their method is safe (RFC 9110, 9.2.1): the first
        /// answer counts.
        pub on: Vec<Cause> = usual(),
        /// The wait before a retry.
        pub backoff: BackoffSpec = defaults(),
        /// The retry budget: the maximum share of the upstream's calls that are retries, over time. When it is
        /// exhausted, the gateway does not retry.
        pub budget: Share = Share(0.2),
    }
}

spec! {
    /// The wait before a retry: a random time below `first`, below twice that for the next retry, and so on up to `most`.
    pub struct BackoffSpec {
        /// The maximum of the first wait.
        pub first: Duration = Duration::from_millis(25),
        /// The maximum of every wait.
        pub most: Duration = Duration::from_secs(1),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There was no connection.
    Connect,
    /// The connection ended before the answer.
    Reset,
    /// No answer in time.
    Timeout,
    /// An answer with this status.
    Status(StatusCode),
}

/// Failures of the server, the same as for breakers and ejection.
fn usual() -> Vec<Cause> {
    let statuses = [500, 502, 503, 504].into_iter().filter_map(|status| StatusCode::from_u16(status).ok());
    [Cause::Connect, Cause::Reset, Cause::Timeout].into_iter().chain(statuses.map(Cause::Status)).collect()
}

const WORDS: [(&str, Cause); 3] = [("connect", Cause::Connect), ("reset", Cause::Reset), ("timeout", Cause::Timeout)];

impl Decode for Cause {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        const WANTED: &str = "one of `connect`, `reset`, `timeout`, or a status from 400 to 599";
        let text = node.expect_text(WANTED, problems)?.value;
        if let Some((_, cause)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Some(*cause);
        }
        let status = text.parse().ok().filter(|status| (400..600).contains(status));
        match status.and_then(|status: u16| StatusCode::from_u16(status).ok()) {
            Some(status) => Some(Cause::Status(status)),
            None if text == "5xx" => node.wrong(WANTED, "write them one by one: `500, 502, 503, 504`", problems),
            None => match spec::suggest(&text, WORDS.iter().map(|(word, _)| *word)) {
                Some(near) => node.wrong(WANTED, format!("did you mean `{near}`?"), problems),
                None => node.wrong(WANTED, "", problems),
            },
        }
    }

    fn schema(_: &mut Definitions) -> Json {
        let words = WORDS.iter().map(|(word, _)| json!({"const": word}));
        let status = json!({"type": "integer", "minimum": 400, "maximum": 599});
        json!({"anyOf": words.chain([status]).collect::<Vec<_>>()})
    }

    fn written(&self) -> Option<Json> {
        Some(match self {
            Cause::Status(status) => status.as_u16().into(),
            word => WORDS.iter().find(|(_, cause)| cause == word)?.0.into(),
        })
    }
}

impl RetrySpec {
    pub(crate) fn explain(&self) -> String {
        let word = |cause: &Cause| match cause.written() {
            Some(Json::String(word)) => word,
            status => status.unwrap_or_default().to_string(),
        };
        let on: Vec<String> = self.on.iter().map(word).collect();
        let (attempts, budget) = (self.attempts, self.budget.0 * 100.0);
        format!("retry: up to {attempts} attempts, on {}; for at most {budget}% of the calls", on.join(", "))
    }
}

/// The most retries in the budget, for a burst of failures. One server of three that dies has fewer calls in flight.
const MOST: u64 = 1_000;
/// Retries in the budget at the start.
const START: u64 = 100;
/// The budget is counted in thousandths of a retry.
const WHOLE: u64 = 1_000;

pub(crate) struct Retry {
    rules: RetrySpec,
    /// The share that a call adds to the budget.
    share: u64,
    budget: AtomicU64,
    /// Requests sent again.
    pub(crate) sent: AtomicU64,
    /// Retries that the exhausted budget prevented.
    pub(crate) withheld: AtomicU64,
    log_limiter: LogLimiter,
}

const TARGET: &str = "crocodile_pear::upstream";

/// The state that a retry of one request needs.
pub(crate) struct Replay {
    call: UpstreamCall,
    /// The body is a stream, which there is only once: the attempt that failed gives it back.
    streamed: bool,
    sent: u32,
    pub(crate) tried: TriedServers,
    /// When the whole call is over.
    end: Option<Instant>,
}

impl Replay {
    /// The hash by which the servers of its call are chosen.
    pub(crate) fn affinity(&self) -> Option<u64> {
        self.call.affinity
    }

    /// Whether the body is a stream.
    pub(crate) fn is_streamed(&self) -> bool {
        self.streamed
    }
}

impl Retry {
    /// With the budget that there is. `None` if nothing is retried.
    pub(crate) fn carried(rules: RetrySpec, carry: &Carry) -> Option<Arc<Self>> {
        let retries = rules.attempts.get() >= 2 && !rules.on.is_empty();
        retries.then(|| carry.part(format!("{rules:?}")).state(|| Retry::new(rules)))
    }

    fn new(rules: RetrySpec) -> Self {
        Retry {
            share: (rules.budget.0 * WHOLE as f64) as u64,
            budget: AtomicU64::new(if rules.budget.0 > 0.0 { START * WHOLE } else { 0 }),
            rules,
            sent: AtomicU64::new(0),
            withheld: AtomicU64::new(0),
            log_limiter: LogLimiter::default(),
        }
    }

    /// The state that a retry needs; `None` where nothing can be sent twice.
    pub(crate) fn replay(&self, call: &UpstreamCall, timeouts: &Timeouts) -> Option<Box<Replay>> {
        let saved =
            |budget: u64| Some(MOST * WHOLE).filter(|most| budget < *most).map(|most| most.min(budget + self.share));
        // The budget is full almost always, and then it is only read.
        let _ = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, saved);
        let (call, streamed) = match call.repeat() {
            Some(call) => (call, false),
            None => (call.repeat_head()?, true),
        };
        let end = timeouts.call.duration().and_then(|call| Instant::now().checked_add(call));
        Some(Box::new(Replay { call, streamed, sent: 1, tried: TriedServers::default(), end }))
    }

    /// How long to wait before the retry, if there is one.
    pub(crate) fn pause(&self, replay: &mut Replay, outcome: &AttemptOutcome, upstream: &str) -> Option<Duration> {
        let unsent = outcome.as_ref().is_err_and(|lost| lost.unsent);
        let may = unsent || (replay.call.method.is_idempotent() && !replay.is_once());
        let cause = cause(outcome)?;
        if !may || replay.sent >= self.rules.attempts.get() || !self.rules.on.contains(&cause) {
            return None;
        }
        let bound = grown(self.rules.backoff.first, replay.sent - 1, self.rules.backoff.most);
        let wait = Duration::from_nanos(below(bound.as_nanos() as u64));
        let over = |end: Option<Instant>| end.is_some_and(|end| Instant::now() + wait >= end);
        if over(replay.end) || over(replay.call.deadline) {
            return None;
        }
        if !self.spend() {
            if self.log_limiter.allows() {
                let budget = self.rules.budget.0 * 100.0;
                tracing::warn!(target: TARGET, upstream, "retry budget ({budget} %) exhausted; not retrying");
            }
            return None;
        }
        tracing::debug!(target: TARGET, upstream, ?cause, ?wait, "retrying the request");
        Some(wait)
    }

    /// Whether a request is hedged: sent to another server while the first one still has it.
    pub(crate) fn hedges(&self, replay: &Replay) -> bool {
        let may = replay.call.method.is_safe() && !replay.is_once() && self.rules.on.contains(&Cause::Timeout);
        may && replay.sent < self.rules.attempts.get() && self.spend()
    }

    fn spend(&self) -> bool {
        let spent = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |budget| budget.checked_sub(WHOLE));
        let counter = if spent.is_ok() { &self.sent } else { &self.withheld };
        counter.fetch_add(1, Ordering::Relaxed);
        spent.is_ok()
    }
}

impl Replay {
    /// Whether it can be sent only once: its body is a stream, or the connection will change its protocol, and a second
    /// attempt might do the same thing twice.
    fn is_once(&self) -> bool {
        self.streamed || self.call.passage.upgrade.is_some()
    }

    /// The request for the next attempt, without a stream, with what remains of its time; `timeouts` unless it has its own.
    pub(crate) fn next(&mut self, timeouts: &Timeouts) -> (UpstreamCall, Clock) {
        self.sent += 1;
        let left = self.end.map_or(Timeout::Never, |end| Timeout::After(end.saturating_duration_since(Instant::now())));
        let timeouts = self.call.timeouts.as_deref().unwrap_or(timeouts);
        let timeouts = Timeouts { call: left, ..timeouts.clone() };
        let mut call = self.call.repeat().expect("a stream is not kept here");
        if let Some(note) = &mut call.note {
            note.attempt = u16::try_from(self.sent).unwrap_or(u16::MAX);
        }
        (call, Clock::new(&timeouts, self.call.deadline))
    }
}

fn cause(outcome: &AttemptOutcome) -> Option<Cause> {
    let lost = match outcome {
        Ok((status, _)) => return Some(Cause::Status(*status)),
        Err(lost) => lost,
    };
    match lost.error.kind() {
        Kind::Unreachable => Some(Cause::Connect),
        Kind::Timeout if lost.unsent => Some(Cause::Connect),
        Kind::Timeout => Some(Cause::Timeout),
        Kind::Reset | Kind::Cut => Some(Cause::Reset),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::retry::*;
    use crate::error::Error;
    use crate::http::http1::AnswerFields;
    use crate::upstream::call::outcome::AttemptError;

    fn call(method: Method) -> UpstreamCall {
        UpstreamCall { method, ..UpstreamCall::get("/".to_owned()) }
    }

    fn lost(kind: Kind, unsent: bool) -> AttemptOutcome {
        Err(AttemptError { error: Error::new(kind, ""), unsent })
    }

    fn retry(written: Json) -> Retry {
        let spec = RetrySpec::decode(&Node::from_json(&written), &mut Problems::default());
        Retry::new(spec.expect("sound"))
    }

    fn again(retry: &Retry, method: Method, outcome: &AttemptOutcome) -> bool {
        let mut replay = retry.replay(&call(method), &Timeouts::default()).expect("no stream");
        retry.pause(&mut replay, outcome, "shop").is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_done_is_not_done_again() {
        let retry = retry(json!({"on": ["connect", "reset", 503]}));
        assert!(again(&retry, Method::GET, &lost(Kind::Reset, false)));
        assert!(!again(&retry, Method::POST, &lost(Kind::Reset, false)));
        assert!(again(&retry, Method::POST, &lost(Kind::Unreachable, true)));
        assert!(again(&retry, Method::DELETE, &Ok((StatusCode::SERVICE_UNAVAILABLE, AnswerFields::default()))));
        assert!(!again(&retry, Method::POST, &Ok((StatusCode::SERVICE_UNAVAILABLE, AnswerFields::default()))));
        assert!(!again(&retry, Method::GET, &lost(Kind::Timeout, false)));
        assert!(!again(&retry, Method::GET, &lost(Kind::Busy, true)));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_have_an_end() {
        let retry = retry(json!({"attempts": 3}));
        let mut replay = retry.replay(&call(Method::GET), &Timeouts::default()).expect("no stream");
        for more in [true, true, false] {
            assert_eq!(retry.pause(&mut replay, &lost(Kind::Reset, false), "shop").is_some(), more);
            drop(replay.next(&Timeouts::default()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_budget_is_a_share_of_the_calls() {
        let retry = retry(json!({"budget": "10%"}));
        let failed = (0..10_000).filter(|_| again(&retry, Method::GET, &lost(Kind::Reset, false))).count();
        assert_eq!(failed, 1_000 + START as usize);
        assert_eq!(retry.withheld.load(Ordering::Relaxed), 10_000 - failed as u64);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_tried_beyond_the_deadline() {
        let retry = retry(json!({"backoff": {"first": "1h", "most": "1h"}}));
        let mut late = call(Method::GET);
        late.deadline = Some(Instant::now());
        let mut replay = retry.replay(&late, &Timeouts::default()).expect("no stream");
        assert!(retry.pause(&mut replay, &lost(Kind::Reset, false), "shop").is_none());
    }
}
