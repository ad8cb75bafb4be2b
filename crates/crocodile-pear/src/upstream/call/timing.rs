//! When what happened to one exchange, for the record of its request.

use std::time::Duration;

use http::{Method, StatusCode};
use tokio::time::Instant;

use crate::error::Kind;
use crate::telemetry::request_record::{CacheResult, CallEntry, CallNote, CallPlace, CallRecord, Opening, Record};

/// The moments of one exchange. They are written to the record when its head is there and when it ends.
pub(crate) struct Moments {
    began: Instant,
    /// When it might be in flight.
    admitted: Instant,
    connected: Option<Instant>,
    opening: Option<Box<Opening>>,
    reused: bool,
    head: Option<Instant>,
    status: Option<StatusCode>,
    /// Why it has no answer, so far.
    error: Option<(Kind, Instant)>,
    pub(crate) bytes: u64,
    over: bool,
    /// Whether it is a call, and no check of a server's health.
    counts: bool,
    entry: Option<CallEntry>,
}

/// The request line of a call, for its record.
pub(crate) struct CallLine {
    pub(crate) method: Method,
    pub(crate) target: String,
    /// Its span in the trace of the request.
    pub(crate) span: u64,
}

/// How a call to a server ended, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// With an answer of this status, even if it was not read to its end.
    Answered(StatusCode),
    /// Without an answer, or within it.
    Failed(Kind),
    /// The call was cancelled before there was an answer.
    Dropped,
}

/// How an exchange ended.
#[derive(Clone, Copy)]
pub(crate) enum Ended {
    Whole,
    Failed(Kind),
    /// The rest was not wanted.
    Dropped,
}

impl Moments {
    pub(crate) fn begin() -> Self {
        let began = Instant::now();
        Moments {
            began,
            admitted: began,
            connected: None,
            opening: None,
            reused: false,
            head: None,
            status: None,
            error: None,
            bytes: 0,
            over: false,
            counts: true,
            entry: None,
        }
    }

    /// The moments of a health check, which does not count as a call.
    pub(crate) fn of_check() -> Self {
        Moments { counts: false, ..Moments::begin() }
    }

    /// Keeps them in a record.
    pub(crate) fn note(&mut self, note: CallNote, place: CallPlace<'_>, said: CallLine) {
        let CallLine { method, target, span } = said;
        self.entry = Some(note.begin(place, &method, target, self.began, span));
    }

    /// When it might be in flight.
    pub(crate) fn admitted(&self) -> Instant {
        self.admitted
    }

    /// Notes that the call waited until it might be in flight.
    pub(crate) fn admit(&mut self) {
        self.admitted = Instant::now();
    }

    /// Notes that the call has a connection: how long it waited for that, if it did.
    pub(crate) fn connect(&mut self, at: Instant, reused: bool, opening: Option<Box<Opening>>) -> Option<Duration> {
        (self.connected, self.reused, self.opening) = (Some(at), reused, opening);
        Some(at.saturating_duration_since(self.began)).filter(|waited| self.counts && !waited.is_zero())
    }

    /// There is no answer so far.
    pub(crate) fn fail(&mut self, kind: Kind) {
        if !self.over {
            self.error = Some((kind, Instant::now()));
        }
    }

    /// The head of its answer is there.
    pub(crate) fn answer(&mut self, status: StatusCode, at: Instant) {
        (self.head, self.status, self.error) = (Some(at), Some(status), None);
    }

    /// Notes that the call continues after the head.
    pub(crate) fn go_on(&mut self) {
        if !self.over
            && let Some(entry) = &self.entry
        {
            entry.revise(|call, record| self.write(call, record, None));
        }
    }

    /// Notes that the call is over, if it was not before: how, and how long it took.
    pub(crate) fn end(&mut self, how: Ended, at: impl FnOnce() -> Instant) -> Option<(CallEnd, Duration)> {
        if std::mem::replace(&mut self.over, true) {
            return None;
        }
        let (how, at) = match (how, self.error) {
            (Ended::Dropped, Some((kind, at))) => (Ended::Failed(kind), at),
            _ => (how, at()),
        };
        let time = at.saturating_duration_since(self.began);
        if let Some(entry) = self.entry.take() {
            entry.revise(|call, record| {
                call.ended = Some(call.began + time);
                self.write(call, record, Some(at));
                match how {
                    Ended::Whole => {}
                    Ended::Failed(kind) => call.error = Some(kind),
                    Ended::Dropped => call.dropped = true,
                }
            });
        }
        let end = match (how, self.status) {
            (Ended::Failed(kind), _) => CallEnd::Failed(kind),
            (_, Some(status)) => CallEnd::Answered(status),
            (_, None) => CallEnd::Dropped,
        };
        self.counts.then_some((end, time))
    }

    /// `ended`: when it ended, if it has. Mostly its connection was there when it began, and its answer came whole with its head.
    fn write(&self, call: &mut CallRecord, record: &Record, ended: Option<Instant>) {
        let since = |at: Instant| match at {
            at if at == self.began => call.began,
            at if Some(at) == ended => call.ended.unwrap_or_default(),
            at => record.at(at),
        };
        (call.connected, call.head) = (self.connected.map(since), self.head.map(since));
        (call.opening, call.reused) = (self.opening.clone(), self.reused);
        (call.status, call.bytes) = (self.status, self.bytes);
        if call.cache == Some(CacheResult::Miss) && self.status == Some(StatusCode::NOT_MODIFIED) {
            call.cache = Some(CacheResult::Revalidated);
        }
    }
}
