//! The record of a run: its call in the record of the request, and its time among those of the database.

use std::sync::Arc;

use http::{Method, StatusCode};
use tokio::time::Instant;

use super::pool::DatabasePool;
use super::query::Query;
use crate::error::Kind;
use crate::telemetry::histogram::{DATABASE, Histograms};
use crate::telemetry::request_record::{CallEntry, CallKind, CallNote, CallPlace};

/// The times of statements, by how they ended.
pub(super) struct StatementTimes(Histograms<StatementEnd>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementEnd {
    Done,
    Failed(Kind),
    /// The rest was not wanted.
    Dropped,
}

impl Default for StatementTimes {
    fn default() -> Self {
        StatementTimes(Histograms::new(DATABASE))
    }
}

impl StatementTimes {
    pub(super) fn all(&self) -> &Histograms<StatementEnd> {
        &self.0
    }
}

/// A run in progress.
pub(super) struct RunRecord {
    entry: Option<CallEntry>,
    times: Arc<StatementTimes>,
    began: Instant,
    /// When its answer must have begun.
    until: Option<Instant>,
    ended: bool,
}

impl RunRecord {
    /// Notes that the statement begins to wait for a connection.
    pub(super) fn begin(
        note: Option<CallNote>,
        pool: &DatabasePool,
        query: &Query,
        times: &Arc<StatementTimes>,
        until: Option<Instant>,
    ) -> Self {
        let began = Instant::now();
        let begin = |note: CallNote| {
            let place =
                CallPlace { kind: CallKind::Database, upstream: &pool.name, server: Some(&pool.shown), tls: false };
            // It is what an operator sees: the word before the statement.
            let method = Method::from_bytes(b"SQL").unwrap_or(Method::POST);
            let span = note.span().map_or(0, |(_, span)| span);
            note.begin(place, &method, query.shown().to_owned(), began, span)
        };
        RunRecord { entry: note.map(begin), times: times.clone(), began, until, ended: false }
    }

    /// Notes that the statement has a connection.
    pub(super) fn connected(&self) {
        self.revise(|call, at| call.connected = Some(at));
    }

    /// Its answer begins.
    pub(super) fn head(&mut self, status: StatusCode) {
        self.until = None;
        self.revise(|call, at| (call.head, call.status) = (Some(at), Some(status)));
    }

    /// So many bytes of its answer are made.
    pub(super) fn bytes(&self, more: usize) {
        if let Some(entry) = &self.entry {
            entry.revise(|call, _| call.bytes += more as u64);
        }
    }

    pub(super) fn end(&mut self, end: StatementEnd) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.times.0.count(end, self.began.elapsed());
        self.revise(|call, at| {
            call.ended = Some(at);
            match end {
                StatementEnd::Done => {}
                StatementEnd::Failed(kind) => call.error = Some(kind),
                StatementEnd::Dropped => call.dropped = true,
            }
        });
    }

    fn revise(&self, change: impl FnOnce(&mut crate::telemetry::request_record::CallRecord, std::time::Duration)) {
        if let Some(entry) = &self.entry {
            let now = Instant::now();
            entry.revise(|call, record| change(call, record.at(now)));
        }
    }
}

impl Drop for RunRecord {
    fn drop(&mut self) {
        // Dropped by its caller: the time was over, or the client has left.
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        self.end(if late { StatementEnd::Failed(Kind::Timeout) } else { StatementEnd::Dropped });
    }
}
