//! Several statements, all or nothing.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use http::StatusCode;
use tokio_postgres::Client;

use super::answer::{json, missing, several};
use super::failure::{Again, Failure, garbled};
use super::in_flight::Running;
use super::pool::Lease;
use super::query::{Access, Prepared, Query};
use super::run::{Run, Wanted};
use super::start::{parameters, prepare};
use super::statement_record::{Noted, StatementEnd};
use crate::error::{Error, Kind};
use crate::jq::Data;
use crate::message::answer::Answer;

/// The most bytes of the last statement's result that are held until the transaction is done.
const HOLD: usize = 16 << 20;

/// Runs the statements; the answer is that of the last.
pub(super) async fn run(mut lease: Lease, run: &Run, mut noted: Noted) -> Result<Answer, Failure> {
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
    let mut running = Running::in_transaction(lease);
    let Some(client) = running.client() else { return Err(Failure::lasting(garbled())) };
    let done = all(client, run, &plans).await;
    let clean = match &done {
        Ok(_) => true,
        Err(failure) if failure.broken => false,
        Err(_) => client.batch_execute("rollback").await.is_ok(),
    };
    running.end(!clean);
    noted.head(done.as_ref().map_or_else(|failure| failure.error.status(), |_| StatusCode::OK));
    noted.end(done.as_ref().err().map_or(StatementEnd::Done, |failure| StatementEnd::Failed(failure.error.kind())));
    done
}

async fn all(client: &Client, run: &Run, plans: &[Arc<Prepared>]) -> Result<Answer, Failure> {
    let whole = |mut failure: Failure| {
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
    client.batch_execute(begin).await.map_err(|failed| whole(Failure::of(&failed, &run.query)))?;
    for (before, plan) in run.before.iter().zip(plans) {
        one(client, &before.query, plan, (&before.values, &before.names), before.wanted).await.map_err(whole)?;
    }
    let last = plans.last().ok_or_else(|| Failure::lasting(garbled()))?;
    let answer = one(client, &run.query, last, (&run.values, &run.names), run.wanted).await.map_err(whole)?;
    client.batch_execute("commit").await.map_err(|failed| Failure::of(&failed, &run.query))?;
    Ok(answer)
}

async fn one(
    client: &Client,
    query: &Query,
    plan: &Prepared,
    (values, names): (&[Data], &[Box<str>]),
    wanted: Wanted,
) -> Result<Answer, Failure> {
    let parameters = parameters(values, names, plan).map_err(Failure::lasting)?;
    let failed = |failed| Failure::of(&failed, query);
    let mut stream = Box::pin(client.query_raw(&plan.statement, parameters).await.map_err(failed)?);
    let (mut out, mut number) = (Vec::new(), 0_u64);
    while let Some(row) = stream.try_next().await.map_err(failed)? {
        out.push(if number == 0 { b'[' } else { b',' });
        plan.write(&row, &mut out).map_err(|_| Failure::answered(garbled()))?;
        number += 1;
        if out.len() > HOLD {
            let detail = "a transaction gives more than 16 MiB";
            return Err(Failure::answered(Error::new(Kind::Oversized, detail)));
        }
    }
    let affected = if plan.has_rows() { number } else { stream.rows_affected().unwrap_or(0) };
    let json = |out: Vec<u8>| json(Bytes::from(out), plan.deep);
    match (wanted, plan.has_rows()) {
        (Wanted::One, _) if affected == 0 => Err(Failure::answered(missing())),
        (Wanted::One, true) if number > 1 => Err(Failure::answered(several())),
        (Wanted::One, true) => json(out.split_off(1)),
        (_, false) => json(format!("{{\"rows\":{affected}}}").into_bytes()),
        (Wanted::List, true) if number == 0 => json(b"[]".to_vec()),
        (Wanted::List, true) => {
            out.push(b']');
            json(out)
        }
    }
}
