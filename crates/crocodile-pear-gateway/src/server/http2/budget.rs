//! Limits frames that make the server work but do not advance any request: frames to acknowledge, to count, or to drop.
//!
//! Frames that belong to requests earn credit; all others cost some. A client without credit keeps the server busy for
//! no purpose, and its connection is ended.

use tokio::time::{Duration, Instant};

use super::frames::{END_STREAM, FramePart, kind};

/// The initial credit: more than any client needs before its first answer.
const START: i64 = 1_000;
/// The most credit that can be saved up.
const MOST: i64 = 4_000;
/// Credit earned per second, for pings that keep a connection alive.
const PER_SECOND: i64 = 20;

/// The credit of one connection.
#[derive(Debug)]
pub struct Budget {
    credit: i64,
    /// The time up to which the credit per second has been added.
    filled: Instant,
}

impl Budget {
    pub fn new(now: Instant) -> Self {
        Budget { credit: START, filled: now }
    }

    /// A frame from the client has begun.
    pub fn received(&mut self, frame: &FramePart) {
        self.add(match frame.kind {
            // Each request may come with a priority frame and window updates of its own.
            kind::HEADERS => 8,
            kind::DATA if frame.length == 0 && !frame.has(END_STREAM) => -10,
            kind::DATA => 1,
            // Each is applied to every stream, and clients send only one or two.
            kind::SETTINGS => -20,
            kind::CONTINUATION => -4,
            kind::PRIORITY | kind::RST_STREAM | kind::PING | kind::WINDOW_UPDATE => -1,
            // GOAWAY comes once or twice; unknown frames are ignored.
            kind::GOAWAY => -10,
            _ => -2,
        });
    }

    /// A frame to the client has left. Clients answer data with window updates and may send pings to measure the
    /// connection.
    pub fn sent(&mut self, frame: &FramePart) {
        match frame.kind {
            kind::DATA => self.add(16),
            kind::HEADERS => self.add(2),
            _ => {}
        }
    }

    /// A request was given up right after it came, so the work for it was wasted.
    pub fn given_up(&mut self) {
        self.add(-24);
    }

    fn add(&mut self, credit: i64) {
        self.credit = (self.credit + credit).min(MOST);
    }

    /// Whether the client has no credit left.
    pub fn spent(&mut self, now: Instant) -> bool {
        if self.credit >= 0 {
            return false;
        }
        let passed = now.saturating_duration_since(self.filled).as_secs();
        self.filled += Duration::from_secs(passed);
        self.add(i64::try_from(passed).unwrap_or(MOST).saturating_mul(PER_SECOND));
        self.credit < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: usize) -> FramePart {
        FramePart { kind, flags: 0, stream: 1, length, passed: 0, begins: true, ends: false }
    }

    #[test]
    fn a_flood_spends_it_and_time_brings_some_back() {
        let mut now = Instant::now();
        for kind in [kind::PING, kind::SETTINGS, kind::PRIORITY, kind::WINDOW_UPDATE, kind::RST_STREAM, 0x77] {
            let mut budget = Budget::new(now);
            let count = (0..).take_while(|_| {
                budget.received(&frame(kind, 8));
                !budget.spent(now)
            });
            assert!(count.count() <= 1_000, "{kind}");
            now += Duration::from_secs(1);
            assert!(!budget.spent(now), "{kind}");
        }
    }

    #[test]
    fn frames_around_requests_cost_nothing_in_the_end() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        for _ in 0..100_000 {
            budget.received(&frame(kind::HEADERS, 20));
            budget.received(&frame(kind::PRIORITY, 5));
            budget.received(&frame(kind::WINDOW_UPDATE, 4));
            budget.sent(&frame(kind::HEADERS, 20));
            budget.sent(&frame(kind::DATA, 2000));
            budget.received(&frame(kind::WINDOW_UPDATE, 4));
            budget.received(&frame(kind::PING, 8));
            assert!(!budget.spent(now));
        }
    }
}
