//! A request that has ended, as it is kept.

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::telemetry::request_record::Record;
use crocodile_pear::unstable::telemetry::timeline::TimelineMark;
use http::Method;

use crate::telemetry::request_end::RequestEnd;

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

/// A request that has ended, as it is kept.
pub struct ServedRequest {
    /// When it ended, since the gateway began.
    pub at: Duration,
    pub route: RouteNumber,
    /// When it ended, since it began.
    pub total: Duration,
    /// Whether the gateway or an upstream failed.
    pub failed: bool,
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
    pub marks: Vec<TimelineMark>,
    /// The calls that were made for it.
    pub record: Option<Arc<Record>>,
}

/// Bytes of a path that are kept.
const PATH: usize = 256;

impl ServedRequest {
    /// The entry of a request that ended at this time, since the gateway began.
    pub(super) fn new(ended: &RequestEnd<'_>, at: Duration, route: RouteNumber) -> Self {
        let scope = ended.scope;
        let path = scope.path().unwrap_or_default();
        ServedRequest {
            at,
            route,
            total: ended.total,
            failed: ended.failed(),
            id: scope.facts().id().into(),
            method: scope.method().clone(),
            // A path is ASCII; nothing is cut in two if it were not.
            path: path.get(..PATH).unwrap_or(path).into(),
            status: ended.code(),
            ended: ended.how(),
            bytes: ended.end.bytes,
            head: ended.head,
            marks: scope.timeline().marks(),
            record: scope.record().cloned(),
        }
    }

    /// The memory that it takes, about.
    pub(super) fn size(&self) -> usize {
        let record = self.record.as_ref().map_or(0, |record| record.size());
        size_of::<Self>() + self.id.len() + self.path.len() + self.marks.len() * size_of::<TimelineMark>() + record
    }
}
