//! The times of calls, cold and kept, in every way that the server offers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::link::{Dial, Got, ProbeConnection};
use crate::progress::ProgressLine;
use crate::trouble::{Trouble, TroubleCause};
use crate::way::ProtocolStack;

/// Failures in a row after which a cell is given up: what always fails would only take time.
const GIVE_UP: u32 = 3;

/// A row of the table.
pub struct Cell {
    pub way: ProtocolStack,
    pub connection: ConnectionKind,
    pub times: Vec<CallTimes>,
    pub failed: u32,
    pub trouble: Option<Trouble>,
    failed_in_a_row: u32,
    link: Option<ProbeConnection>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionKind {
    /// Opened for the call.
    Cold,
    /// Kept from the call before.
    Kept,
}

impl ConnectionKind {
    pub fn word(self) -> &'static str {
        match self {
            ConnectionKind::Cold => "cold",
            ConnectionKind::Kept => "kept",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct CallTimes {
    pub connect: Option<Duration>,
    pub tls: Option<Duration>,
    /// From the request to the head of the answer.
    pub first: Duration,
    /// From the beginning to the end.
    pub total: Duration,
}

/// How often each status was answered.
pub type Statuses = BTreeMap<u16, u32>;

impl Cell {
    pub fn new(way: ProtocolStack, connection: ConnectionKind) -> Self {
        Cell { way, connection, times: Vec::new(), failed: 0, trouble: None, failed_in_a_row: 0, link: None }
    }

    /// Makes a call; `None` if the connection turned out to be closed and there was nothing to measure.
    async fn call(&mut self, dial: &Dial) -> Result<Option<(CallTimes, Got)>, Trouble> {
        match self.connection {
            ConnectionKind::Cold => cold(dial, self.way).await.map(Some),
            ConnectionKind::Kept => self.kept(dial).await,
        }
    }

    async fn kept(&mut self, dial: &Dial) -> Result<Option<(CallTimes, Got)>, Trouble> {
        // Any server may end a kept connection at any time; a fresh one has its first call behind it when it counts.
        for _ in 0..2 {
            let mut link = match self.link.take() {
                Some(link) => link,
                None => {
                    let mut link = dial.open(self.way).await?;
                    link.get(dial).await?;
                    link
                }
            };
            match link.get(dial).await {
                Ok(got) => {
                    self.link = Some(link);
                    return Ok(Some((CallTimes { connect: None, tls: None, first: got.first, total: got.whole }, got)));
                }
                Err(trouble) if trouble.cause == TroubleCause::Ended => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(None)
    }

    fn note(&mut self, trouble: Trouble) {
        self.failed += 1;
        self.failed_in_a_row += 1;
        self.trouble.get_or_insert(trouble);
    }
}

async fn cold(dial: &Dial, way: ProtocolStack) -> Result<(CallTimes, Got), Trouble> {
    // The client's own preparation is not the server's.
    let config = dial.config(way, crate::trust::Sessions::Never);
    let begun = Instant::now();
    let mut link = dial.open_with(way, config.as_ref()).await?;
    let got = link.get(dial).await?;
    let times = CallTimes {
        connect: Some(link.opening.connect),
        tls: link.opening.tls,
        first: got.first,
        total: begun.elapsed(),
    };
    Ok((times, got))
}

/// Calls in rounds, one of each cell, so that what disturbs them disturbs all; until `end`.
pub async fn rounds(dial: &Dial, cells: &mut [Cell], calls: u32, end: Instant, progress: &ProgressLine) -> Statuses {
    let mut statuses = Statuses::new();
    for number in 0..calls {
        progress.count("timing calls", number, calls);
        for cell in cells.iter_mut().filter(|cell| cell.failed_in_a_row < GIVE_UP) {
            if Instant::now() >= end {
                return statuses;
            }
            match cell.call(dial).await {
                Ok(Some((times, got))) => {
                    cell.failed_in_a_row = 0;
                    cell.times.push(times);
                    *statuses.entry(got.status.as_u16()).or_default() += 1;
                }
                Ok(None) => {}
                // A call that the end has cut short says nothing of the server.
                Err(_) if dial.is_over() => return statuses,
                Err(trouble) => cell.note(trouble),
            }
        }
    }
    statuses
}

/// The time that this share of all keeps within.
pub fn part(times: impl Iterator<Item = Duration>, share: f64) -> Option<Duration> {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    let place = (times.len() as f64 * share).ceil() as usize;
    times.get(place.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_one_of_the_times() {
        let part =
            |count, share| part((1..=count).rev().map(Duration::from_millis), share).map(|time| time.as_millis());
        assert_eq!([part(100, 0.5), part(100, 0.99), part(1, 0.99), part(0, 0.5)], [Some(50), Some(99), Some(1), None]);
    }
}
