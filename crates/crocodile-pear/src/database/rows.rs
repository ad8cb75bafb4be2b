//! The result of a statement, while it arrives: a row is read when it is needed, so a slow client holds a connection
//! and no memory. A reader that leaves before the end cancels the statement in the server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use http_body::Frame;
use tokio::time::Instant;
use tokio_postgres::RowStream;

use super::failure::{StatementFailure, garbled, slow};
use super::in_flight::BusyConnection;
use super::query::{PreparedStatement, Query};
use super::statement_record::{RunRecord, StatementEnd};
use crate::config::spec::Timeout;
use crate::error::{Error, Kind};
use crate::runtime::deadline_timer::Alarm;

/// A piece of a list: large enough to be worth a write, small enough to be soon there.
const PIECE: usize = 16 << 10;

/// The most bytes that are held until a statement that changes something is done.
const HOLD: usize = 1 << 20;

/// The rows of a statement that runs.
pub(super) struct Rows {
    stream: Pin<Box<RowStream>>,
    prepared: Arc<PreparedStatement>,
    query: Arc<Query>,
    running: BusyConnection,
    record: RunRecord,
}

impl Rows {
    pub(super) fn new(
        stream: RowStream,
        prepared: Arc<PreparedStatement>,
        query: Arc<Query>,
        running: BusyConnection,
        record: RunRecord,
    ) -> Self {
        Rows { stream: Box::pin(stream), prepared, query, running, record }
    }

    pub(super) fn record(&mut self) -> &mut RunRecord {
        &mut self.record
    }

    pub(super) fn has_rows(&self) -> bool {
        self.prepared.has_rows()
    }

    /// Whether the statement certainly changes nothing.
    fn are_only_read(&self) -> bool {
        self.query.reads
    }

    /// Whether they may nest to an unknown depth.
    pub(super) fn is_deep(&self) -> bool {
        self.prepared.deep
    }

    /// Appends the next row as an object; returns whether there was one. At the end, the statement is done, and its
    /// changes are permanent.
    pub(super) fn poll_row(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, StatementFailure>> {
        Poll::Ready(match ready!(self.stream.as_mut().poll_next(cx)) {
            Some(Ok(row)) => match self.prepared.write(&row, out) {
                Ok(()) => Ok(true),
                Err(_) => Err(StatementFailure::answered(garbled())),
            },
            Some(Err(failed)) => {
                let failure = StatementFailure::from_error(&failed, &self.query);
                self.running.end(failure.broken);
                self.record.end(StatementEnd::Failed(failure.error.kind()));
                Err(failure)
            }
            None => {
                self.running.end(false);
                self.record.end(StatementEnd::Done);
                Ok(false)
            }
        })
    }

    /// The same, awaited.
    pub(super) async fn row(&mut self, out: &mut Vec<u8>) -> Result<bool, StatementFailure> {
        std::future::poll_fn(|cx| self.poll_row(cx, out)).await
    }

    /// How many rows the statement has read or changed, once it is done.
    pub(super) fn affected(&self) -> u64 {
        self.stream.rows_affected().unwrap_or(0)
    }
}

/// A list whose rows are read as the client takes them.
pub(super) struct ListBody {
    /// The rows; `None` once all of them were read.
    rows: Option<Rows>,
    begun: bool,
    /// Written and not yet handed on.
    piece: Vec<u8>,
    /// Why it ends early, reported after the piece.
    failed: Option<Error>,
    /// How long the server may be silent while the client waits.
    idle: Timeout,
    due: Option<Instant>,
    alarm: Alarm,
}

/// How far a list has come.
pub(super) enum Progress {
    /// There is more.
    Begun,
    Whole(Bytes),
}

impl ListBody {
    /// A list that begins.
    pub(super) fn new(rows: Rows, idle: Timeout) -> Self {
        let rows = Some(rows);
        ListBody { rows, begun: false, piece: vec![b'['], failed: None, idle, due: None, alarm: Alarm::default() }
    }

    /// Waits until all of it is there, or enough for a write.
    pub(super) async fn begin(&mut self) -> Result<Progress, StatementFailure> {
        let hold = if self.rows.as_ref().is_some_and(Rows::are_only_read) { 0 } else { HOLD };
        std::future::poll_fn(|cx| match self.fill(hold.max(PIECE), cx) {
            Poll::Ready(Ok(())) if self.rows.is_none() => {
                Poll::Ready(Ok(Progress::Whole(std::mem::take(&mut self.piece).into())))
            }
            Poll::Ready(filled) => Poll::Ready(filled.map(|()| Progress::Begun)),
            Poll::Pending if self.begun && hold == 0 => Poll::Ready(Ok(Progress::Begun)),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Reads rows until there are this many bytes, or to the end.
    fn fill(&mut self, enough: usize, cx: &mut Context<'_>) -> Poll<Result<(), StatementFailure>> {
        while self.piece.len() < enough {
            let Some(rows) = &mut self.rows else { break };
            self.piece.reserve(PIECE);
            let before = self.piece.len();
            if self.begun {
                self.piece.push(b',');
            }
            let polled = rows.poll_row(cx, &mut self.piece);
            if let Poll::Ready(Ok(true)) = polled {
                rows.record.bytes(self.piece.len() - before);
                self.begun = true;
                continue;
            }
            self.piece.truncate(before);
            match ready!(polled) {
                Ok(_) => self.piece.push(b']'),
                Err(failure) => {
                    self.rows = None;
                    return Poll::Ready(Err(failure));
                }
            }
            self.rows = None;
        }
        Poll::Ready(Ok(()))
    }

    fn give(&mut self) -> Option<Result<Frame<Bytes>, Error>> {
        self.due = None;
        if !self.piece.is_empty() {
            return Some(Ok(Frame::data(std::mem::take(&mut self.piece).into())));
        }
        self.failed.take().map(Err)
    }

    /// Waits for the server no longer than it may be silent.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Timeout::After(idle) = self.idle else { return Poll::Pending };
        let due = *self.due.get_or_insert_with(|| Instant::now() + idle);
        ready!(self.alarm.poll(due, cx));
        self.rows.iter_mut().for_each(|rows| rows.record.end(StatementEnd::Failed(Kind::Timeout)));
        self.rows = None;
        Poll::Ready(Some(Err(slow())))
    }
}

impl http_body::Body for ListBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        match this.fill(PIECE, cx) {
            Poll::Ready(Ok(())) => Poll::Ready(this.give()),
            Poll::Ready(Err(failure)) => {
                this.failed = Some(failure.error);
                Poll::Ready(this.give())
            }
            Poll::Pending if !this.piece.is_empty() => Poll::Ready(this.give()),
            Poll::Pending => this.wait(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rows.is_none() && self.piece.is_empty() && self.failed.is_none()
    }
}
