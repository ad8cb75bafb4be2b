//! The figures of the last hour, by the second.

use std::collections::VecDeque;
use std::time::Duration;

use super::latency::Latency;

/// Seconds that are kept.
const SECONDS: u64 = 3_600;

/// The requests that were served in a time: a second, or several together.
#[derive(Clone, Default)]
pub struct Second {
    /// Requests that ended.
    pub requests: u64,
    /// The number of failures of the gateway or an upstream.
    pub failed: u64,
    /// How long they took.
    pub latency: Latency,
}

impl Second {
    /// The memory that one takes.
    pub const WEIGHT: usize = size_of::<Self>() + size_of::<u64>() + Latency::WEIGHT;

    /// Counts a request.
    pub fn count(&mut self, total: Duration, failed: bool) {
        self.requests += 1;
        self.failed += u64::from(failed);
        self.latency.count(total);
    }

    /// Adds another.
    pub fn add(&mut self, other: &Second) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.latency.add(&other.latency);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        (self.requests, self.failed) = (0, 0);
        self.latency.clear();
    }
}

/// The seconds in which something was served, in their order.
#[derive(Default)]
pub struct Hour(VecDeque<(u64, Second)>);

impl Hour {
    /// Adds what a core served in a second.
    pub fn add(&mut self, second: u64, figures: &Second) {
        let at = self.0.partition_point(|(known, _)| *known < second);
        match self.0.get_mut(at) {
            Some((known, sum)) if *known == second => sum.add(figures),
            _ => self.0.insert(at, (second, figures.clone())),
        }
        while self.0.front().is_some_and(|(oldest, _)| oldest + SECONDS < second) {
            self.0.pop_front();
        }
    }

    /// The memory that it takes, about.
    pub fn weight(&self) -> usize {
        self.0.len() * Second::WEIGHT
    }

    /// The `seconds` before `now`, `step` together, oldest first.
    pub fn sum(&self, now: u64, seconds: u64, step: u64) -> Vec<Second> {
        let count = seconds / step;
        let mut sums = vec![Second::default(); usize::try_from(count).unwrap_or_default()];
        // Steps begin at round times, so that a column of a chart keeps its seconds while it moves.
        let end = now / step * step;
        let begin = end.saturating_sub(seconds);
        let from = self.0.partition_point(|(known, _)| *known < begin);
        for (second, figures) in self.0.range(from..).take_while(|(second, _)| *second < end) {
            // From the end: a gateway that is younger than the chart has nothing at its beginning.
            let back = usize::try_from((end - 1 - second) / step).unwrap_or_default();
            if let Some(at) = sums.len().checked_sub(back + 1) {
                sums[at].add(figures);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::super::hour::*;

    fn one() -> Second {
        let mut second = Second::default();
        second.count(Duration::from_millis(5), false);
        second
    }

    #[test]
    fn seconds_add_up_and_those_older_than_an_hour_go() {
        let mut hour = Hour::default();
        for second in [10, 11, 11, 9, 40] {
            hour.add(second, &one());
        }
        let requests = |hour: &Hour, now, seconds, step| {
            hour.sum(now, seconds, step).iter().map(|sum| sum.requests).collect::<Vec<_>>()
        };
        assert_eq!(requests(&hour, 12, 4, 1), [0, 1, 1, 2]);
        assert_eq!(requests(&hour, 41, 40, 10), [1, 3, 0, 0]);
        hour.add(SECONDS + 11, &one());
        assert_eq!(hour.0.len(), 3, "11, 40 and the latest");
    }
}
