//! A request that has ended, as it is kept.

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::telemetry::request_record::Record;
use crocodile_pear::unstable::telemetry::timeline::Mark;
use http::Method;

/// The route of requests that no endpoint serves.
pub const UNSERVED: RouteNumber = RouteNumber(0);

/// A route by its number: counting needs no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouteNumber(pub(super) u32);

impl RouteNumber {
    /// The number that operators see.
    pub fn number(self) -> u32 {
        self.0
    }

    /// From what operators were told.
    pub fn read(text: &str) -> Option<Self> {
        text.parse().ok().map(RouteNumber)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The end of a request, as it is counted.
#[derive(Clone, Copy)]
pub struct Finish {
    /// When it ended, since the gateway began.
    pub at: Duration,
    /// Which route.
    pub route: RouteNumber,
    /// When it ended, since it began.
    pub total: Duration,
    /// Whether the gateway or an upstream failed.
    pub failed: bool,
}

/// A request that has ended, as it is kept.
pub struct Served {
    /// Its end.
    pub finish: Finish,
    /// Its id, as in the log.
    pub id: Box<str>,
    /// The client's method.
    pub method: Method,
    /// The beginning of the path, without the query, which may hold secrets.
    pub path: Box<str>,
    /// The status that the client got; 499 if it left before.
    pub status: u16,
    /// How it ended, as in the log.
    pub ended: &'static str,
    /// Bytes of the body.
    pub bytes: u64,
    /// When the head of the answer was ready.
    pub head: Option<Duration>,
    /// The marks of timers.
    pub marks: Vec<Mark>,
    /// The calls that were made for it.
    pub record: Option<Arc<Record>>,
}

impl Served {
    /// The memory that it takes, about.
    pub(super) fn size(&self) -> usize {
        let record = self.record.as_ref().map_or(0, |record| record.size());
        size_of::<Self>() + self.id.len() + self.path.len() + self.marks.len() * size_of::<Mark>() + record
    }
}
