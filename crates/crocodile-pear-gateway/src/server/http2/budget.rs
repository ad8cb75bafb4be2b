//! What a client may make the connection do that moves no request on: acknowledge, count, and throw away.
//!
//! Frames that serve requests earn credit, all others cost some. A client that runs out of it is at work on the server,
//! not on its requests.

use tokio::time::{Duration, Instant};

use super::frames::{END_STREAM, Passing, kind};

/// What a connection begins with, more than any client needs before its first answer.
const START: i64 = 1_000;
/// What can be saved up.
const MOST: i64 = 4_000;
/// What comes back each second, for pings that keep a connection alive.
const PER_SECOND: i64 = 20;

/// The credit of one connection.
#[derive(Debug)]
pub struct Budget {
    credit: i64,
    /// Up to when what comes back with time was added.
    filled: Instant,
}

impl Budget {
    pub fn new(now: Instant) -> Self {
        Budget { credit: START, filled: now }
    }

    /// A frame of the client's has begun.
    pub fn received(&mut self, frame: &Passing) {
        self.add(match frame.kind {
            // Each request may come with a priority and with window updates of its own.
            kind::HEADERS => 8,
            kind::DATA if frame.length == 0 && !frame.has(END_STREAM) => -10,
            kind::DATA => 1,
            // Each is applied to every stream, and clients send one or two.
            kind::SETTINGS => -20,
            kind::CONTINUATION => -4,
            kind::PRIORITY | kind::RST_STREAM | kind::PING | kind::WINDOW_UPDATE => -1,
            // GOAWAY comes once or twice; what is unknown is passed over.
            kind::GOAWAY => -10,
            _ => -2,
        });
    }

    /// A frame of ours has left. Clients answer data with window updates, and measure the line with pings meanwhile.
    pub fn sent(&mut self, frame: &Passing) {
        match frame.kind {
            kind::DATA => self.add(16),
            kind::HEADERS => self.add(2),
            _ => {}
        }
    }

    /// A request was given up just after it came: its work was in vain.
    pub fn given_up(&mut self) {
        self.add(-24);
    }

    fn add(&mut self, credit: i64) {
        self.credit = (self.credit + credit).min(MOST);
    }

    /// Whether the client has run out of credit.
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

    fn frame(kind: u8, length: usize) -> Passing {
        Passing { kind, flags: 0, stream: 1, length, passed: 0, begins: true, ends: false }
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
