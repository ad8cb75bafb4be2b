//! A connection on which something runs, alone or beside others. If the caller leaves before the end, the server is
//! asked to cancel it.

use std::sync::Arc;

use tokio_postgres::Client;

use super::pipelined_connection::{ReadPlace, Seat};
use super::pool::DatabaseLease;
use super::query::{PreparedStatement, Query};
use super::stop;

/// A connection on which something runs.
pub(super) struct BusyConnection {
    /// The place on a connection; `None` once it has ended.
    place: Option<ReadPlace>,
    /// Whether a transaction is open: the connection is not used again if it is left before its end.
    transaction: bool,
}

impl BusyConnection {
    pub(super) fn new(place: ReadPlace) -> Self {
        BusyConnection { place: Some(place), transaction: false }
    }

    pub(super) fn in_transaction(lease: DatabaseLease) -> Self {
        BusyConnection { place: Some(ReadPlace::Alone(lease)), transaction: true }
    }

    /// The connection.
    pub(super) fn client(&self) -> Option<&Client> {
        self.place.as_ref().map(|place| match place {
            ReadPlace::Alone(lease) => lease.client(),
            ReadPlace::Shared(seat) => seat.client(),
        })
    }

    /// Its place beside others, if it has one.
    pub(super) fn seat(&mut self) -> Option<&mut Seat> {
        match &mut self.place {
            Some(ReadPlace::Shared(seat)) => Some(seat),
            _ => None,
        }
    }

    /// The same, to look at.
    pub(super) fn shared(&self) -> Option<&Seat> {
        match &self.place {
            Some(ReadPlace::Shared(seat)) => Some(seat),
            _ => None,
        }
    }

    /// Keeps what was prepared, and gives the connection on: nothing runs on it any more.
    pub(super) fn prepared(mut self, query: &Query, prepared: &Arc<PreparedStatement>) -> Option<DatabaseLease> {
        match self.place.take() {
            Some(ReadPlace::Alone(mut lease)) => {
                lease.keep(query, prepared.clone());
                Some(lease)
            }
            other => {
                self.place = other;
                None
            }
        }
    }

    pub(super) fn end(&mut self, broken: bool) {
        match self.place.take() {
            Some(ReadPlace::Alone(lease)) if broken => lease.discard(),
            Some(ReadPlace::Shared(seat)) => seat.end(broken),
            Some(ReadPlace::Alone(_)) | None => {}
        }
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        match self.place.take() {
            Some(ReadPlace::Alone(lease)) => stop::begin(lease, self.transaction),
            // It goes, and others may still be there.
            Some(ReadPlace::Shared(seat)) => drop(seat),
            None => {}
        }
    }
}
