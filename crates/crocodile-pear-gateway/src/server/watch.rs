//! What a connection waits for and since when, told by those who do the work to the one who holds the clock.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::time::Duration;

use tokio::time::Instant;

use super::Settings;
use super::admit::Refusal;

/// Where a connection stands. Shared within one task: the atomics are plain loads and stores.
#[derive(Debug)]
pub struct Watch {
    opened: Instant,
    stage: AtomicU8,
    since: AtomicU64,
    /// Since when the handler has waited for a byte of the request's body; 0: it does not.
    wanting: AtomicU64,
    /// Since when the client has taken no byte; 0: it does, or has none to take.
    stalled: AtomicU64,
    /// Bytes of the next request are here and wait for the answer to this one.
    pub held: AtomicBool,
    /// Bytes of the request's body are still to come.
    pub unread: AtomicBool,
    /// The request's body broke the rules.
    pub broken: AtomicBool,
    /// A deadline of the request has passed.
    pub overdue: AtomicBool,
    /// The client took too long to read its answer.
    pub slow: AtomicBool,
    /// Why the connection's last request is refused.
    pub refusal: OnceLock<Refusal>,
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// It was accepted, and nothing came yet.
    Fresh,
    /// A part of a head came.
    Head,
    /// A request is being answered.
    Serving,
    /// It waits for a further request.
    Idle,
}

/// What took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Nothing was asked.
    Idle,
    /// A head did not become whole.
    Head,
    /// The request's body did not go on.
    Body,
    /// The client did not read.
    Write,
}

impl Watch {
    /// A connection just accepted.
    pub fn new() -> Self {
        Watch {
            opened: Instant::now(),
            stage: AtomicU8::new(Stage::Fresh as u8),
            since: AtomicU64::new(1),
            wanting: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
            held: AtomicBool::new(false),
            unread: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            overdue: AtomicBool::new(false),
            slow: AtomicBool::new(false),
            refusal: OnceLock::new(),
        }
    }

    /// What the connection does.
    pub fn stage(&self) -> Stage {
        match self.stage.load(Relaxed) {
            0 => Stage::Fresh,
            1 => Stage::Head,
            2 => Stage::Serving,
            _ => Stage::Idle,
        }
    }

    /// A part of a head is here. The first head's time runs from the connection's beginning.
    pub fn begin(&self) {
        match self.stage() {
            Stage::Fresh => self.stage.store(Stage::Head as u8, Relaxed),
            Stage::Idle => self.enter(Stage::Head),
            Stage::Head | Stage::Serving => {}
        }
    }

    /// A request is whole: how long its answer takes is the handler's to bound.
    pub fn serve(&self) {
        self.stage.store(Stage::Serving as u8, Relaxed);
    }

    /// The answer has been handed over.
    pub fn finish(&self) {
        self.enter(Stage::Idle);
    }

    fn enter(&self, stage: Stage) {
        self.since.store(self.now(), Relaxed);
        self.stage.store(stage as u8, Relaxed);
    }

    /// The handler waits for the request's body.
    pub fn want(&self) {
        if self.wanting.load(Relaxed) == 0 {
            self.wanting.store(self.now(), Relaxed);
        }
    }

    /// The handler waits no longer.
    pub fn sate(&self) {
        self.wanting.store(0, Relaxed);
    }

    /// The client takes no more bytes for now.
    pub fn stall(&self) {
        if self.stalled.load(Relaxed) == 0 {
            self.stalled.store(self.now(), Relaxed);
        }
    }

    /// The client took bytes.
    pub fn flow(&self) {
        self.stalled.store(0, Relaxed);
    }

    /// Whether nothing is under way in either direction.
    pub fn rests(&self) -> bool {
        self.stage() == Stage::Idle
            && self.stalled.load(Relaxed) == 0
            && !self.held.load(Relaxed)
            && !self.unread.load(Relaxed)
    }

    /// What will be late first, and when.
    pub fn due(&self, settings: &Settings) -> Option<(Instant, Late)> {
        let since = self.since.load(Relaxed);
        let stage = match self.stage() {
            Stage::Fresh => Some((self.at(since, settings.header), Late::Idle)),
            Stage::Head => Some((self.at(since, settings.header), Late::Head)),
            Stage::Idle => Some((self.at(since, settings.keep_alive), Late::Idle)),
            Stage::Serving => None,
        };
        let pending = |since: &AtomicU64, limit, late| match since.load(Relaxed) {
            0 => None,
            since => Some((self.at(since, limit), late)),
        };
        let body = pending(&self.wanting, settings.body, Late::Body);
        let write = pending(&self.stalled, settings.write, Late::Write);
        [stage, body, write].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    fn at(&self, since: u64, limit: Duration) -> Instant {
        self.opened + Duration::from_micros(since) + limit
    }

    /// Microseconds since the connection began, never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_trickle_does_not_put_off_a_head_s_deadline() {
        let settings = Settings::default();
        let watch = Watch::new();
        let end = Instant::now() + settings.header;
        for _ in 0..9 {
            tokio::time::advance(Duration::from_secs(1)).await;
            watch.begin();
            let (at, late) = watch.due(&settings).expect("a deadline");
            assert!(at <= end + Duration::from_millis(1));
            assert_eq!(late, Late::Head);
        }
        watch.serve();
        assert_eq!(watch.due(&settings), None);
        watch.finish();
        assert_eq!(watch.due(&settings).expect("a deadline").1, Late::Idle);
    }
}
