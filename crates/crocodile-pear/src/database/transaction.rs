//! Several statements, all or nothing.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use http::StatusCode;
use tokio_postgres::Client;

use super::answer::{json, missing, several};
use super::failure::{Again, StatementFailure, garbled};
use super::in_flight::BusyConnection;
use super::pool::DatabaseLease;
use super::query::{Access, PreparedStatement, Query};
use super::run::{StatementRun, Wanted};
use super::start::{parameters, prepare};
use super::statement_record::{RunRecord, StatementEnd};
use crate::error::{Error, Kind};
use crate::jq::Data;
use crate::message::answer::Answer;

/// The most bytes of the last statement's result that are held until the transaction is done.
const HOLD: usize = 16 << 20;

/// Runs the statements; the answer is that of the last.
pub(super) async fn run(
    mut lease: DatabaseLease,
    run: &StatementRun,
    mut record: RunRecord,
) -> Result<Answer, StatementFailure> {
    let mut plans = Vec::with_capacity(run.before.len() + 1);
    for query in run.before.iter().map(|before| &before.query).chain([&run.query]) {
        let known = lease.prepared(query);
        let plan = match known {
            Some(plan) => plan,
            None => {
                let made;
                (lease, made) = prepare(lease, query).await?;
                made
            }
        };
        plans.push(plan);
    }
    // Dropped before its end, the connection goes, and what was done with it.
    let mut running = BusyConnection::in_transaction(lease);
    let Some(client) = running.client() else { return Err(StatementFailure::permanent(garbled())) };
    let done = all(client, run, &plans).await;
    let clean = match &done {
        Ok(_) => true,
        Err(failure) if failure.broken => false,
        Err(_) => client.batch_execute("rollback").await.is_ok(),
    };
    running.end(!clean);
    record.head(done.as_ref().map_or_else(|failure| failure.error.status(), |_| StatusCode::OK));
    record.end(done.as_ref().err().map_or(StatementEnd::Done, |failure| StatementEnd::Failed(failure.error.kind())));
    done
}

async fn all(
    client: &Client,
    run: &StatementRun,
    plans: &[Arc<PreparedStatement>],
) -> Result<Answer, StatementFailure> {
    let whole = |mut failure: StatementFailure| {
        // Until it is committed, a lost connection has changed nothing.
        if failure.again == Again::IfReading {
            failure.again = Again::Always;
        }
        failure
    };
    let begin = match run.query.access {
        Access::ReadWrite => "begin",
        Access::ReadOnly => "begin read only",
    };
    client.batch_execute(begin).await.map_err(|failed| whole(StatementFailure::from_error(&failed, &run.query)))?;
    for (before, plan) in run.before.iter().zip(plans) {
        one(client, &before.query, plan, (&before.values, &before.names), before.wanted).await.map_err(whole)?;
    }
    let last = plans.last().ok_or_else(|| StatementFailure::permanent(garbled()))?;
    let answer = one(client, &run.query, last, (&run.values, &run.names), run.wanted).await.map_err(whole)?;
    client.batch_execute("commit").await.map_err(|failed| StatementFailure::from_error(&failed, &run.query))?;
    Ok(answer)
}

async fn one(
    client: &Client,
    query: &Query,
    plan: &PreparedStatement,
    (values, names): (&[Data], &[Box<str>]),
    wanted: Wanted,
) -> Result<Answer, StatementFailure> {
    let parameters = parameters(values, names, plan).map_err(StatementFailure::permanent)?;
    let failed = |failed| StatementFailure::from_error(&failed, query);
    let mut stream = Box::pin(client.query_raw(&plan.statement, parameters).await.map_err(failed)?);
    let (mut out, mut number) = (Vec::new(), 0_u64);
    while let Some(row) = stream.try_next().await.map_err(failed)? {
        out.push(if number == 0 { b'[' } else { b',' });
        plan.write(&row, &mut out).map_err(|_| StatementFailure::answered(garbled()))?;
        number += 1;
        if out.len() > HOLD {
            let detail = "a transaction gives more than 16 MiB";
            return Err(StatementFailure::answered(Error::new(Kind::Oversized, detail)));
        }
    }
    let affected = if plan.has_rows() { number } else { stream.rows_affected().unwrap_or(0) };
    let json = |out: Vec<u8>| json(Bytes::from(out), plan.deep);
    match (wanted, plan.has_rows()) {
        (Wanted::One, _) if affected == 0 => Err(StatementFailure::answered(missing())),
        (Wanted::One, true) if number > 1 => Err(StatementFailure::answered(several())),
        (Wanted::One, true) => json(out.split_off(1)),
        (_, false) => json(format!("{{\"rows\":{affected}}}").into_bytes()),
        (Wanted::List, true) if number == 0 => json(b"[]".to_vec()),
        (Wanted::List, true) => {
            out.push(b']');
            json(out)
        }
    }
}
