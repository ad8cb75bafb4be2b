//! How a statement begins: it is prepared if needed, its values are bound, and the server accepts it.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_postgres::RowStream;

use super::failure::{Again, StatementFailure, garbled, stuck};
use super::in_flight::BusyConnection;
use super::parameter::{Parameter, UnfitParameter};
use super::pipelined_connection::{ReadPlace, Seat, SharedConnections};
use super::pool::DatabaseLease;
use super::query::{PreparedStatement, Query};
use super::run::StatementRun;
use crate::error::{Error, Kind};
use crate::jq::Data;

type Started = (RowStream, Arc<PreparedStatement>, BusyConnection);

/// Sends it, and waits until the server has taken it. A read that may share its connection has it shared among these connections.
pub(super) async fn start(
    place: ReadPlace,
    run: &StatementRun,
    shared: Option<&SharedConnections>,
) -> Result<Started, StatementFailure> {
    let known = match &place {
        ReadPlace::Alone(lease) => lease.prepared(&run.query),
        ReadPlace::Shared(seat) => seat.prepared(&run.query),
    };
    let (place, prepared) = match (place, known) {
        (place, Some(prepared)) => (place, prepared),
        (ReadPlace::Alone(lease), None) => {
            // Boxed: a statement is prepared once a connection, and all would carry the room.
            let (lease, prepared) = Box::pin(prepare(lease, &run.query)).await?;
            (ReadPlace::Alone(lease), prepared)
        }
        (ReadPlace::Shared(_), None) => return Err(StatementFailure::elsewhere(garbled())),
    };
    let parameters = parameters(&run.values, &run.names, &prepared).map_err(StatementFailure::permanent)?;
    let place = match (place, shared) {
        (ReadPlace::Alone(lease), Some(shared)) if run.query.is_short() => shared.open(lease),
        (place, _) => place,
    };
    let mut running = BusyConnection::new(place);
    let first = running.seat().is_none_or(Seat::send);
    let begun = Instant::now();
    let started = {
        let Some(client) = running.client() else { return Err(StatementFailure::permanent(garbled())) };
        let sent = client.query_raw(&prepared.statement, parameters);
        match running.shared() {
            Some(seat) if !first => tokio::select! {
                biased;
                started = sent => started,
                () = seat.stuck() => return Err(StatementFailure::elsewhere(stuck())),
            },
            _ => sent.await,
        }
    };
    match started {
        Ok(stream) => {
            if first && shared.is_some() {
                run.query.took(begun.elapsed());
            }
            Ok((stream, prepared, running))
        }
        Err(failed) => {
            let failure = StatementFailure::from_error(&failed, &run.query);
            running.end(failure.broken);
            Err(failure)
        }
    }
}

/// Prepares a statement on its first use.
pub(super) async fn prepare(
    lease: DatabaseLease,
    query: &Query,
) -> Result<(DatabaseLease, Arc<PreparedStatement>), StatementFailure> {
    let mut running = BusyConnection::new(ReadPlace::Alone(lease));
    let Some(client) = running.client() else { return Err(StatementFailure::permanent(garbled())) };
    match PreparedStatement::make(client, query).await {
        Ok(Ok(prepared)) => {
            let prepared = Arc::new(prepared);
            let lease = running.prepared(query, &prepared);
            lease.map(|lease| (lease, prepared)).ok_or_else(|| StatementFailure::permanent(garbled()))
        }
        Ok(Err(unfit)) => {
            query.unfit(&unfit);
            running.end(false);
            Err(StatementFailure::answered(Error::new(Kind::Internal, "a statement cannot be used")))
        }
        Err(failed) => {
            // Nothing has been run.
            let mut failure = StatementFailure::from_error(&failed, query);
            if failure.again == Again::IfReading {
                failure.again = Again::Always;
            }
            running.end(failure.broken);
            Err(failure)
        }
    }
}

/// The values, as the statement takes them.
pub(super) fn parameters(
    values: &[Data],
    names: &[Box<str>],
    prepared: &PreparedStatement,
) -> Result<Vec<Parameter>, Error> {
    let kinds = prepared.parameters().iter();
    let values = values.iter().zip(kinds).enumerate();
    values
        .map(|(at, (value, kind))| {
            Parameter::from_data(value.clone(), kind).map_err(|UnfitParameter(reason)| {
                let name = names.get(at).map_or("a value", |name| name);
                Error::new(Kind::BadRequest, format!("{name} {reason}"))
            })
        })
        .collect()
}
