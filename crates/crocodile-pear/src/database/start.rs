//! How a statement begins: it is prepared if needed, its values are bound, and the server accepts it.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_postgres::RowStream;

use super::failure::{Again, Failure, garbled, stuck};
use super::in_flight::Running;
use super::parameter::{Parameter, Unfit};
use super::pipelined_connection::{Lines, ReadPlace, Seat};
use super::pool::Lease;
use super::query::{Prepared, Query};
use super::run::Run;
use crate::error::{Error, Kind};
use crate::jq::Data;

type Started = (RowStream, Arc<Prepared>, Running);

/// Sends it, and waits until the server has taken it. A read that may share its connection has it shared among these lines.
pub(super) async fn start(place: ReadPlace, run: &Run, lines: Option<&Lines>) -> Result<Started, Failure> {
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
        (ReadPlace::Shared(_), None) => return Err(Failure::elsewhere(garbled())),
    };
    let parameters = parameters(&run.values, &run.names, &prepared).map_err(Failure::lasting)?;
    let place = match (place, lines) {
        (ReadPlace::Alone(lease), Some(lines)) if run.query.is_short() => lines.open(lease),
        (place, _) => place,
    };
    let mut running = Running::new(place);
    let first = running.seat().is_none_or(Seat::send);
    let begun = Instant::now();
    let started = {
        let Some(client) = running.client() else { return Err(Failure::lasting(garbled())) };
        let sent = client.query_raw(&prepared.statement, parameters);
        match running.shared() {
            Some(seat) if !first => tokio::select! {
                biased;
                started = sent => started,
                () = seat.stuck() => return Err(Failure::elsewhere(stuck())),
            },
            _ => sent.await,
        }
    };
    match started {
        Ok(stream) => {
            if first && lines.is_some() {
                run.query.took(begun.elapsed());
            }
            Ok((stream, prepared, running))
        }
        Err(failed) => {
            let failure = Failure::of(&failed, &run.query);
            running.end(failure.broken);
            Err(failure)
        }
    }
}

/// Prepares a statement on its first use.
pub(super) async fn prepare(lease: Lease, query: &Query) -> Result<(Lease, Arc<Prepared>), Failure> {
    let mut running = Running::new(ReadPlace::Alone(lease));
    let Some(client) = running.client() else { return Err(Failure::lasting(garbled())) };
    match Prepared::make(client, query).await {
        Ok(Ok(prepared)) => {
            let prepared = Arc::new(prepared);
            let lease = running.prepared(query, &prepared);
            lease.map(|lease| (lease, prepared)).ok_or_else(|| Failure::lasting(garbled()))
        }
        Ok(Err(unfit)) => {
            query.unfit(&unfit);
            running.end(false);
            Err(Failure::answered(Error::new(Kind::Internal, "a statement cannot be used")))
        }
        Err(failed) => {
            // Nothing has been run.
            let mut failure = Failure::of(&failed, query);
            if failure.again == Again::IfReading {
                failure.again = Again::Always;
            }
            running.end(failure.broken);
            Err(failure)
        }
    }
}

/// The values, as the statement takes them.
pub(super) fn parameters(values: &[Data], names: &[Box<str>], prepared: &Prepared) -> Result<Vec<Parameter>, Error> {
    let kinds = prepared.parameters().iter();
    let values = values.iter().zip(kinds).enumerate();
    values
        .map(|(at, (value, kind))| {
            Parameter::of(value.clone(), kind).map_err(|Unfit(reason)| {
                let name = names.get(at).map_or("a value", |name| name);
                Error::new(Kind::BadRequest, format!("{name} {reason}"))
            })
        })
        .collect()
}
