//! How long one call may wait for its upstream. Only time spent waiting for the upstream counts.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::EventUse;
use super::timeouts::Timeouts;
use crate::config::spec::Timeout;
use crate::error::{Error, Kind};
use crate::runtime::deadline_timer::Alarm;

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The clock of one call: at most one timer, created at the first wait.
pub(crate) struct Clock {
    alarm: Alarm,
    wait: Option<Wait>,
    /// The time that remains for the whole call.
    call: Timeout,
    first_byte: Timeout,
    idle: Timeout,
    /// The deadline of the client's whole request, whatever the call waits for.
    end: Option<Instant>,
    /// When the first wait begins, if that is known: the machine's clock is read as seldom as can be.
    begun: Option<Instant>,
    /// When the latest wait ended.
    paused: Option<Instant>,
    /// How long the call may wait for bytes before it trickles; `None` if that does not matter.
    hesitates: Option<Duration>,
}

/// The present wait.
struct Wait {
    phase: Phase,
    since: Instant,
    deadline: Instant,
}

/// The phase that the call waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// More of the request's body, from the client.
    Upload,
    FirstByte,
    Body,
}

/// Why a wait ended.
pub(crate) enum Expired {
    Failed(Error),
    /// The bytes that are waited for trickle.
    Trickles,
}

/// A body with fewer bytes a second than this does not move: it trickles.
const TRICKLE: u64 = 500;

/// How long the first bytes may be waited for before the call makes room for others: hundreds of calls that trickle have made
/// room before one that waits has waited for a second.
const HESITATE: Duration = Duration::from_millis(150);

/// The most time that further bytes may earn: many round trips of a slow line.
const MOST_EARNED: Duration = Duration::from_secs(2);

/// The time that these bytes take at the minimum rate.
fn earned(bytes: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1000) / TRICKLE)
}

impl Wait {
    fn new(phase: Phase, since: Instant, limit: Duration) -> Self {
        // A limit that is too large for the clock becomes a century.
        Wait { phase, since, deadline: since.checked_add(limit).unwrap_or_else(|| since + CENTURY) }
    }
}

impl Clock {
    pub(crate) fn new(timeouts: &Timeouts, end: Option<Instant>) -> Self {
        let Timeouts { call, first_byte, idle, .. } = *timeouts;
        Clock {
            alarm: Alarm::default(),
            wait: None,
            call,
            first_byte,
            idle,
            end,
            begun: None,
            paused: None,
            hesitates: None,
        }
    }

    /// Notices from now on where bytes trickle.
    pub(crate) fn hesitate(&mut self) {
        self.hesitates = Some(HESITATE);
    }

    /// No longer.
    pub(crate) fn accept(&mut self) {
        self.hesitates = None;
    }

    /// The wait that follows begins now.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.begun = Some(now);
    }

    /// When the latest wait ended; now, if there was none.
    pub(crate) fn paused(&self) -> Instant {
        self.paused.unwrap_or_else(Instant::now)
    }

    /// Uses the timer of a connection, unless it has one.
    pub(crate) fn borrow(&mut self, alarm: &mut Alarm) {
        self.alarm.take_from(alarm);
    }

    /// Leaves its timer to the connection's next call.
    pub(crate) fn give_back(&mut self, alarm: &mut Alarm) {
        *alarm = std::mem::take(&mut self.alarm);
    }

    /// Lets the wait for the head expire after `part`, unless it is then [extended](Self::extend).
    pub(crate) fn hurry(&mut self, part: Duration) {
        self.first_byte = self.first_byte.min(Timeout::After(part));
    }

    /// How long the call waits for the head before its first check.
    pub(crate) fn step(&self) -> Duration {
        self.first_byte.duration().unwrap_or_default()
    }

    /// Half of what remains for the call.
    pub(crate) fn half(&self) -> Timeout {
        self.call.duration().map_or(Timeout::Never, |call| Timeout::After(call / 2))
    }

    /// Extends the wait for the head, up to `most` in all; returns whether there is time left.
    pub(crate) fn extend(&mut self, by: Duration, most: Timeout) -> bool {
        let Timeout::After(so_far) = self.first_byte else { return false };
        let longer = Timeout::After(so_far + by).min(most).min(self.call);
        if longer <= self.first_byte || self.is_over() {
            return false;
        }
        self.first_byte = longer;
        if let (Some(wait), Timeout::After(limit)) = (&mut self.wait, longer) {
            wait.deadline = wait.since + limit;
        }
        true
    }

    /// The tightest of `limit`, what remains for the call and what remains for the request.
    pub(crate) fn within(&self, limit: Timeout) -> Timeout {
        let limit = limit.min(self.call);
        match self.end {
            Some(end) => limit.min(Timeout::After(end.saturating_duration_since(Instant::now()))),
            None => limit,
        }
    }

    /// Whether the deadline of the client's request has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Takes `spent` off what remains for the call.
    pub(crate) fn charge(&mut self, spent: Duration) {
        if let Timeout::After(left) = &mut self.call {
            *left = left.saturating_sub(spent);
        }
    }

    /// Stops the clock: the upstream made progress, or the call waits for something else.
    pub(crate) fn pause(&mut self) {
        self.moved(0);
    }

    /// The same after this many bytes of a body. Time in which the client sends does not count for the call.
    pub(crate) fn moved(&mut self, bytes: u64) {
        self.begun = None;
        let Some(Wait { phase, since, deadline }) = self.wait.take() else { return };
        let now = Instant::now();
        self.paused = Some(now);
        // A call that waits is woken at the deadline. Later than that, nothing was waiting: the consumer pulled late.
        if now > deadline {
            return;
        }
        let waited = now - since;
        match phase {
            Phase::Upload => self.charge(waited.saturating_sub(earned(bytes))),
            Phase::FirstByte | Phase::Body => self.charge(waited),
        }
        if let (Some(left), true) = (&mut self.hesitates, phase != Phase::FirstByte) {
            *left = left.saturating_add(earned(bytes)).min(waited + MOST_EARNED).saturating_sub(waited);
        }
    }

    /// From here on, the answer is a stream that may pause. `end` decides what happens to the deadline of the
    /// client's request.
    pub(crate) fn lift(&mut self, end: EventUse) {
        (self.idle, self.call) = (Timeout::Never, Timeout::Never);
        self.hesitates = None;
        if end == EventUse::HandedOn {
            self.end = None;
        }
    }

    /// Runs the clock. Call it after the upstream was polled and has nothing, so that data always beats the clock.
    pub(crate) fn poll_expired(&mut self, phase: Phase, cx: &mut Context<'_>) -> Poll<Expired> {
        let limit = match phase {
            Phase::Upload => Timeout::Never,
            Phase::FirstByte => self.first_byte,
            Phase::Body => self.idle,
        };
        if self.wait.as_ref().is_some_and(|wait| wait.phase != phase) {
            self.pause();
        }
        let limit = limit.min(self.call);
        let hesitates = self.hesitates.filter(|_| phase != Phase::FirstByte);
        if limit == Timeout::Never && hesitates.is_none() {
            return self.poll_end(cx).map(Expired::Failed);
        }
        let (begun, most) = (self.begun.take(), limit.duration().unwrap_or(CENTURY));
        let begin = || Wait::new(phase, begun.unwrap_or_else(Instant::now), most);
        let Wait { since, deadline, .. } = *self.wait.get_or_insert_with(begin);
        if let Some(trickles) = hesitates.map(|hesitates| since + hesitates)
            && trickles < deadline
            && self.end.is_none_or(|end| trickles < end)
        {
            return self.alarm.poll(trickles, cx).map(|()| Expired::Trickles);
        }
        match self.end {
            Some(end) if end < deadline => self.poll_end(cx).map(Expired::Failed),
            _ => self.alarm.poll(deadline, cx).map(|()| Expired::Failed(self.expired(phase, most))),
        }
    }

    /// Bytes may trickle for as long again.
    pub(crate) fn wait_on(&mut self) {
        if let (Some(wait), Some(left)) = (&self.wait, &mut self.hesitates) {
            *left = wait.since.elapsed() + HESITATE;
        }
    }

    /// Waits for something else than the upstream: only the request's deadline counts.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let Some(end) = self.end else { return Poll::Pending };
        self.alarm.poll(end, cx).map(|()| Error::new(Kind::Timeout, "the deadline of the request has passed"))
    }

    fn expired(&self, phase: Phase, limit: Duration) -> Error {
        if phase == Phase::Upload {
            return Error::new(Kind::SlowBody, "the request's body came too slowly for the time of the call");
        }
        let detail = match phase {
            _ if self.call == Timeout::After(limit) => "the call took too long",
            Phase::Upload | Phase::FirstByte => "the upstream did not answer in time",
            Phase::Body => "the upstream stopped in the middle of its answer",
        };
        Error::new(Kind::Timeout, detail).caused_by(std::io::Error::from(std::io::ErrorKind::TimedOut))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::super::clock::*;

    fn clock(first_byte: u64, idle: u64, call: u64) -> Clock {
        let limit = |seconds| Timeout::After(Duration::from_secs(seconds));
        Clock::new(
            &Timeouts { connect: Timeout::Never, first_byte: limit(first_byte), idle: limit(idle), call: limit(call) },
            None,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_send_is_charged() {
        // Two seconds of ten are used up before a body that trickles, and a body that comes is not charged at all.
        let mut clock = clock(2, 5, 10);
        wait(&mut clock, Phase::Body, 2).await;
        for _ in 0..1000 {
            let waiting = tokio::time::timeout(Duration::from_secs(1), expire(&mut clock, Phase::Upload));
            assert!(waiting.await.is_err());
            clock.moved(500);
        }
        for _ in 0..7 {
            let waiting = tokio::time::timeout(Duration::from_secs(1), expire(&mut clock, Phase::Upload));
            assert!(waiting.await.is_err());
            clock.moved(1);
        }
        let left = expire(&mut clock, Phase::Upload).await;
        assert!(left >= Duration::from_secs(1) && left < Duration::from_millis(1_050), "{left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_trickle_are_noticed() {
        let mut clock = clock(2, 5, 60);
        clock.hesitate();
        let trickles = |expired: &Expired| matches!(expired, Expired::Trickles);
        let start = Instant::now();
        assert!(trickles(&poll_fn(|cx| clock.poll_expired(Phase::Body, cx)).await));
        assert!(start.elapsed() >= HESITATE && start.elapsed() < HESITATE * 2);
        clock.wait_on();
        assert!(trickles(&poll_fn(|cx| clock.poll_expired(Phase::Body, cx)).await));
        assert!(start.elapsed() >= HESITATE * 2);
        clock.accept();
        assert!(!trickles(&poll_fn(|cx| clock.poll_expired(Phase::Body, cx)).await));
    }

    async fn expire(clock: &mut Clock, phase: Phase) -> Duration {
        let start = Instant::now();
        poll_fn(|cx| clock.poll_expired(phase, cx)).await;
        start.elapsed()
    }

    async fn wait(clock: &mut Clock, phase: Phase, seconds: u64) {
        let waiting = tokio::time::timeout(Duration::from_secs(seconds), expire(clock, phase));
        assert!(waiting.await.is_err());
        clock.pause();
    }

    // The timer counts whole milliseconds and rounds up.
    fn about(waited: Duration, seconds: u64) {
        assert_eq!(waited.as_millis() / 10, u128::from(seconds) * 100);
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_own_limit() {
        about(expire(&mut clock(2, 5, 60), Phase::FirstByte).await, 2);
        about(expire(&mut clock(2, 5, 60), Phase::Body).await, 5);
        about(expire(&mut clock(90, 90, 60), Phase::Body).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_of_another_call_does_not_end_this_one() {
        let (mut first, mut second, mut timer) = (clock(2, 5, 60), clock(3, 5, 60), Alarm::default());
        wait(&mut first, Phase::FirstByte, 1).await;
        first.give_back(&mut timer);
        second.borrow(&mut timer);
        about(expire(&mut second, Phase::FirstByte).await, 3);
        let mut third = clock(1, 5, 60);
        wait(&mut clock(9, 9, 9), Phase::Body, 1).await;
        second.give_back(&mut timer);
        third.borrow(&mut timer);
        about(expire(&mut third, Phase::FirstByte).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_starts_the_wait_anew() {
        let mut clock = clock(9, 5, 60);
        wait(&mut clock, Phase::FirstByte, 8).await;
        wait(&mut clock, Phase::Body, 4).await;
        about(expire(&mut clock, Phase::Body).await, 5);
    }

    #[tokio::test(start_paused = true)]
    async fn only_waiting_for_the_upstream_counts() {
        let mut clock = clock(9, 9, 10);
        wait(&mut clock, Phase::Body, 6).await;
        tokio::time::advance(Duration::from_secs(600)).await;
        about(expire(&mut clock, Phase::Body).await, 4);
    }
    #[tokio::test(start_paused = true)]
    async fn a_consumer_that_comes_back_late_is_not_charged() {
        let mut clock = clock(9, 5, 60);
        let asked = poll_fn(|cx| Poll::Ready(clock.poll_expired(Phase::Body, cx).is_pending()));
        assert!(asked.await);
        tokio::time::advance(Duration::from_secs(59)).await;
        clock.pause();
        about(expire(&mut clock, Phase::Body).await, 5);
    }
}
