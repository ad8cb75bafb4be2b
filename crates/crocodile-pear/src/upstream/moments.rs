//! When what happened to one exchange, for the record of its request.

use http::{Method, StatusCode};
use tokio::time::Instant;

use super::Upstream;
use crate::error::Kind;
use crate::record::{CacheResult, CallNote, CallRecord, Entry, Opening, Place, Record};

/// The moments of one exchange. They are written to the record when its head is there and when it ends.
pub(super) struct Moments {
    began: Instant,
    /// When it might be in flight.
    admitted: Instant,
    connected: Option<Instant>,
    opening: Option<Opening>,
    reused: bool,
    head: Option<Instant>,
    status: Option<StatusCode>,
    /// Why it has no answer, so far.
    error: Option<(Kind, Instant)>,
    pub(super) bytes: u64,
    over: bool,
    entry: Option<Entry>,
}

/// How an exchange ended.
#[derive(Clone, Copy)]
pub(super) enum Ended {
    Whole,
    Failed(Kind),
    /// Nobody wanted more of it.
    Dropped,
}

impl Moments {
    pub(super) fn begin() -> Self {
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
            entry: None,
        }
    }

    /// Keeps them in a record.
    pub(super) fn note(&mut self, note: CallNote, upstream: &Upstream, at: usize, method: &Method, target: &str) {
        let place = Place { upstream: &upstream.name, server: Some(&upstream.servers[at].address) };
        self.entry = Some(note.begin(place, method, target, self.began));
    }

    /// When it might be in flight.
    pub(super) fn admitted(&self) -> Instant {
        self.admitted
    }

    /// It waited until it might be in flight.
    pub(super) fn admit(&mut self) {
        self.admitted = Instant::now();
    }

    /// It has a connection.
    pub(super) fn connect(&mut self, at: Instant, reused: bool, opening: Option<Opening>) {
        (self.connected, self.reused, self.opening) = (Some(at), reused, opening);
    }

    /// There is no answer, at least for now.
    pub(super) fn fail(&mut self, kind: Kind) {
        if !self.over {
            self.error = Some((kind, Instant::now()));
        }
    }

    /// The head of its answer is there.
    pub(super) fn answer(&mut self, status: StatusCode, at: Instant) {
        (self.head, self.status, self.error) = (Some(at), Some(status), None);
    }

    /// It goes on after the head, for a while.
    pub(super) fn go_on(&mut self) {
        if !self.over
            && let Some(entry) = &self.entry
        {
            entry.revise(|call, record| self.write(call, record));
        }
    }

    /// It is over, if it was not before.
    pub(super) fn end(&mut self, how: Ended, at: impl FnOnce() -> Instant) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let (how, at) = match (how, self.error) {
            (Ended::Dropped, Some((kind, at))) => (Ended::Failed(kind), at),
            _ => (how, at()),
        };
        let Some(entry) = self.entry.take() else { return };
        entry.revise(|call, record| {
            self.write(call, record);
            call.ended = Some(record.at(at));
            match how {
                Ended::Whole => {}
                Ended::Failed(kind) => call.error = Some(kind),
                Ended::Dropped => call.dropped = true,
            }
        });
    }

    fn write(&self, call: &mut CallRecord, record: &Record) {
        call.connected = self.connected.map(|at| record.at(at));
        call.head = self.head.map(|at| record.at(at));
        (call.opening, call.reused) = (self.opening, self.reused);
        (call.status, call.bytes) = (self.status, self.bytes);
        if call.cache == Some(CacheResult::Miss) && self.status == Some(StatusCode::NOT_MODIFIED) {
            call.cache = Some(CacheResult::Revalidated);
        }
    }
}
