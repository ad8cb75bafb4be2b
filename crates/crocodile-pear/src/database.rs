//! PostgreSQL databases: their connections, their statements, and what comes back as JSON. The one way that a statement takes.

mod address;
mod cell;
mod failure;
mod form;
mod moment;
mod note;
mod parameter;
mod pool;
mod query;
mod rows;
mod spec;
mod tls;
mod transaction;
mod verify;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::time::Instant;
use tokio_postgres::RowStream;

pub use self::address::{Address, told};
use self::failure::{Again, Failure, garbled, slow};
pub use self::note::StatementEnd;
use self::note::{Noted, Times};
use self::parameter::{Parameter, Unfit};
use self::pool::{Bounds, Lease, Pool};
use self::query::Prepared;
pub use self::query::Query;
use self::rows::{ListBody, Progress, Rows, Running};
pub use self::spec::DatabaseSpec;
pub use self::tls::Encrypted;
use crate::error::{Error, Kind};
use crate::flow::{Answer, Body};
use crate::format::json::Raw;
use crate::histogram::Snapshot;
use crate::jq::Data;
use crate::problem::Problems;
use crate::record::CallNote;
use crate::spec::{Located, Timeout};
use crate::upstream::Files;

/// How often a statement is run again that has changed nothing.
const ATTEMPTS: usize = 4;

/// How deep a row nests whose columns hold no JSON: a list has at most six dimensions.
const ROW_DEPTH: u8 = 8;

/// A database, ready: shared by all cores.
pub struct Database {
    pool: Arc<Pool>,
    timeout: Timeout,
    times: Arc<Times>,
    url: crate::problem::Span,
    /// The statements of the configuration, for the start.
    queries: Mutex<Vec<Arc<Query>>>,
}

/// What is wanted of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The one row that there is.
    One,
    /// A list of all rows.
    List,
}

/// One run of a statement.
pub struct Run {
    /// The statement.
    pub query: Arc<Query>,
    /// Its values.
    pub values: Vec<Data>,
    /// What each value is called towards the client.
    pub names: Arc<[Box<str>]>,
    /// What is wanted.
    pub wanted: Wanted,
    /// The statements before it in one transaction; with none it is one of its own.
    pub before: Vec<Before>,
    /// How long it may take, if not as long as others.
    pub timeout: Option<Timeout>,
    /// When the client's time is over.
    pub deadline: Option<Instant>,
    /// Where it is noted, if somebody looks.
    pub note: Option<CallNote>,
    /// Whether it may be run again when what became of it is not known.
    pub repeatable: bool,
}

/// A statement before another in one transaction. What it gives is looked at, and not answered.
#[derive(Clone)]
pub struct Before {
    /// The statement.
    pub query: Arc<Query>,
    /// Its values.
    pub values: Vec<Data>,
    /// What each value is called towards the client.
    pub names: Arc<[Box<str>]>,
    /// What is wanted.
    pub wanted: Wanted,
}

impl DatabaseSpec {
    /// Checks it.
    pub fn compile(&self, name: &str, files: Files<'_>, problems: &mut Problems) -> Option<Arc<Database>> {
        let address = Address::compile(&self.url, self.ca.as_ref(), files, problems)?;
        let most = self.connections.get();
        let bounds = Bounds { most, waiting: self.waiting, wait: self.wait, connect: self.connect };
        Some(Arc::new(Database {
            pool: Arc::new(Pool::new(name.into(), address, bounds)),
            timeout: self.timeout,
            times: Arc::default(),
            url: self.url.span,
            queries: Mutex::default(),
        }))
    }
}

impl Database {
    /// Its name in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.pool.name
    }

    /// A statement of the configuration. The same text is prepared once a connection, however often it is written.
    pub fn query(&self, text: &Located<String>, values: usize) -> Arc<Query> {
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = queries.iter().find(|known| known.is(&text.value, values)) {
            return known.clone();
        }
        let query = Arc::new(Query::new(self.name().clone(), text.clone(), queries.len(), values));
        queries.push(query.clone());
        query
    }

    /// The times of its statements, by how they ended; nothing, for ends that are counted together.
    pub fn times(&self) -> impl Iterator<Item = (Option<StatementEnd>, Snapshot)> {
        self.times.all().snapshots()
    }

    /// How many connections are in use, how many are not, and how many statements wait for one.
    pub fn connections(&self) -> (usize, usize, usize) {
        self.pool.counts()
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// What the client is told: `BadRequest` for values that do not fit, `Refused` for what the database refuses, `Unavailable` and
    /// `Busy` where it cannot be asked, `Timeout`, `Internal` for what the operator must mend.
    pub async fn run(&self, run: Run) -> Result<Answer, Error> {
        let timeout = run.timeout.unwrap_or(self.timeout);
        let until = match timeout {
            Timeout::After(time) => Some(Instant::now() + time),
            Timeout::Never => None,
        };
        let until = until.into_iter().chain(run.deadline).min();
        let answer = match until {
            Some(until) => {
                tokio::time::timeout_at(until, self.attempts(&run, timeout)).await.unwrap_or_else(|_| Err(slow()))
            }
            None => self.attempts(&run, timeout).await,
        };
        answer.map_err(|error| error.of_upstream(self.name()))
    }

    async fn attempts(&self, run: &Run, idle: Timeout) -> Result<Answer, Error> {
        let mut attempt = 1;
        loop {
            let note = run.note.clone().map(|note| CallNote { attempt: attempt as u16, ..note });
            let mut noted = Noted::begin(note, &self.pool, &run.query, &self.times);
            let lease = match self.pool.lease().await {
                Ok(lease) => lease,
                Err(error) => {
                    noted.end(StatementEnd::Failed(error.kind()));
                    return Err(error);
                }
            };
            noted.connected();
            let failure = match attempt_on(lease, run, idle, noted).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let again = match failure.again {
                Again::Never => false,
                Again::Always => true,
                Again::IfReading => run.repeatable,
            };
            if !again || attempt == ATTEMPTS {
                return Err(failure.error);
            }
            attempt += 1;
        }
    }
}

/// Runs it on a connection.
async fn attempt_on(lease: Lease, run: &Run, idle: Timeout, mut noted: Noted) -> Result<Answer, Failure> {
    if !run.before.is_empty() {
        return Box::pin(transaction::run(lease, run, noted)).await;
    }
    match start(lease, run).await {
        Ok((stream, prepared, running)) => {
            let rows = Rows::new(stream, prepared, run.query.clone(), running, noted);
            answer(rows, run.wanted, idle).await
        }
        Err(failure) => {
            noted.end(StatementEnd::Failed(failure.error.kind()));
            Err(failure)
        }
    }
}

type Started = (RowStream, Arc<Prepared>, Running);

/// Sends it, and waits until the server has taken it.
async fn start(mut lease: Lease, run: &Run) -> Result<Started, Failure> {
    let prepared = match lease.link().prepared(&run.query) {
        Some(prepared) => prepared,
        None => {
            // Boxed: a statement is prepared once a connection, and all would carry the room.
            let made;
            (lease, made) = Box::pin(prepare(lease, &run.query)).await?;
            made
        }
    };
    let parameters = parameters(&run.values, &run.names, &prepared).map_err(Failure::lasting)?;
    let mut running = Running::new(lease);
    let Some(lease) = running.lease() else { return Err(Failure::lasting(garbled())) };
    let started = lease.link().client.query_raw(&prepared.statement, parameters).await;
    match started {
        Ok(stream) => Ok((stream, prepared, running)),
        Err(failed) => {
            let failure = Failure::of(&failed, &run.query);
            running.end(failure.broken);
            Err(failure)
        }
    }
}

/// Prepares a statement on its first use.
async fn prepare(lease: Lease, query: &Query) -> Result<(Lease, Arc<Prepared>), Failure> {
    let mut running = Running::new(lease);
    let Some(lease) = running.lease() else { return Err(Failure::lasting(garbled())) };
    match Prepared::make(&lease.link().client, query).await {
        Ok(Ok(prepared)) => {
            let prepared = Arc::new(prepared);
            lease.link().keep(query, prepared.clone());
            running.take().map(|lease| (lease, prepared)).ok_or_else(|| Failure::lasting(garbled()))
        }
        Ok(Err(unfit)) => {
            query.unfit(&unfit);
            running.end(false);
            Err(Failure::lasting(Error::new(Kind::Internal, "a statement cannot be used")))
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
fn parameters(values: &[Data], names: &[Box<str>], prepared: &Prepared) -> Result<Vec<Parameter>, Error> {
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

/// The answer that rows make.
async fn answer(mut rows: Rows, wanted: Wanted, idle: Timeout) -> Result<Answer, Failure> {
    if !rows.has_rows() {
        return changed(rows, wanted).await;
    }
    let deep = rows.is_deep();
    if wanted == Wanted::One {
        let mut row = Vec::with_capacity(256);
        if !rows.row(&mut row).await? {
            return Err(Failure::lasting(missing()));
        }
        rows.noted().head(StatusCode::OK);
        rows.noted().bytes(row.len());
        // To its end: before, what it changed is not there to stay.
        if rows.row(&mut Vec::new()).await? {
            return Err(Failure::lasting(several()));
        }
        return json(row.into(), deep);
    }
    rows.noted().head(StatusCode::OK);
    let mut list = ListBody::new(rows, idle);
    match list.begin().await? {
        Progress::Whole(list) => json(list, deep),
        Progress::Begun => {
            let media = HeaderValue::from_static("application/json");
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, media)]);
            Ok(Answer::new(StatusCode::OK, headers, Body::Pulled(Box::pin(list))))
        }
    }
}

/// The answer of a statement without rows: how many it has changed.
async fn changed(mut rows: Rows, wanted: Wanted) -> Result<Answer, Failure> {
    while rows.row(&mut Vec::new()).await? {}
    rows.noted().head(StatusCode::OK);
    match (wanted, rows.affected()) {
        (Wanted::One, 0) => Err(Failure::lasting(missing())),
        (_, affected) => json(format!("{{\"rows\":{affected}}}").into(), false),
    }
}

fn several() -> Error {
    Error::new(Kind::Internal, "the statement gives several rows where one is wanted")
}

fn missing() -> Error {
    Error::new(Kind::Refused(StatusCode::NOT_FOUND), "there is no such row")
}

fn json(bytes: Bytes, deep: bool) -> Result<Answer, Failure> {
    let raw = match deep {
        true => Raw::check(&bytes).map_err(Failure::lasting)?,
        false => Raw::sound(bytes, ROW_DEPTH),
    };
    Ok(Answer::of_value(raw))
}
