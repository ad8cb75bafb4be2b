//! PostgreSQL databases: their connections, their statements, and what comes back as JSON. The one way that a statement takes.

mod address;
mod answer;
mod cell;
mod dial;
mod failure;
mod form;
pub(crate) mod in_flight;
mod moment;
mod parameter;
pub(crate) mod pipelined_connection;
mod pool;
mod query;
mod readers;
mod rows;
mod run;
mod server;
mod silence;
mod spec;
mod start;
pub(crate) mod statement_record;
mod stop;
mod tls;
mod transaction;
mod verify;
mod wire;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

pub use self::address::{Connected, DatabaseAddress, DatabaseConnection, error_text};
use self::failure::{Again, StatementFailure, away, slow, unknown};
use self::pipelined_connection::{ReadPlace, SharedConnections};
use self::pool::{DatabasePool, PoolBounds};
pub use self::query::{Access, Query, writes};
use self::query::{KnownQuery, StatementSlots};
use self::readers::{Chosen, Readers};
use self::rows::Rows;
pub use self::run::{EarlierStatement, StatementRun, Wanted};
pub use self::server::DatabaseServerState;
use self::server::{DatabaseServer, Guard};
pub use self::spec::{DatabaseBreaker, DatabaseSpec, Statements};
pub use self::statement_record::StatementEnd;
use self::statement_record::{RunRecord, StatementTimes};
use crate::config::carried_state::{Carry, MarkedFiles};
use crate::config::files::Files;
use crate::config::problem::{Problems, Span};
use crate::config::spec::{Located, Mark, Secret, Timeout};
use crate::error::{Error, Kind};
use crate::message::answer::Answer;
use crate::resilience::verdict::Verdict;
use crate::runtime::deadline_timer::by;
use crate::telemetry::histogram::Snapshot;
use crate::telemetry::request_record::CallNote;

/// How often a statement is run again that has changed nothing.
const ATTEMPTS: usize = 4;

/// A database, ready: shared by all cores.
pub struct Database {
    /// Where anything is run.
    primary: DatabaseServer,
    /// Where statements are run that only read.
    readers: Readers,
    timeout: Timeout,
    times: Arc<StatementTimes>,
    /// The places of its URL, and of those of the replicas.
    url: Span,
    replica_urls: Vec<Span>,
    /// The statements of the configuration, for the start.
    queries: Mutex<Vec<Arc<Query>>>,
    slots: Arc<StatementSlots>,
    carry: Carry,
}

impl DatabaseSpec {
    /// Checks it. Connections to what has not changed stay open.
    pub fn compile(
        &self,
        name: &str,
        files: Files<'_>,
        carry: &Carry,
        problems: &mut Problems,
    ) -> Option<Arc<Database>> {
        let carry = carry.part(("database", name));
        let addresses: Vec<_> =
            [&self.url].into_iter().chain(&self.replicas).map(|url| self.address(url, files, problems)).collect();
        if let Some(further) = self.replicas.get(readers::MOST) {
            let message = format!("there are more than {} replicas", readers::MOST);
            return problems.error(further.span, message, "leave some out");
        }
        let mut addresses = addresses.into_iter().collect::<Option<Vec<_>>>()?.into_iter();
        let (address, mark) = addresses.next()?;
        let most = self.connections.get();
        let bounds = PoolBounds {
            most,
            waiting: self.waiting,
            wait: self.wait,
            connect: self.connect,
            statements: self.statements,
        };
        let guard = |mark: Mark| {
            let rules = self.breaker.rules()?;
            Some(carry.part((mark, rules.explain())).state(|| Guard::new(rules)))
        };
        let part = |mark: Mark, access: Access| carry.part((mark, access, bounds));
        let pool = |address: &DatabaseAddress, access| {
            let (name, address) = (name.into(), address.clone());
            move || DatabasePool::new(name, address, bounds, access)
        };
        let replica = |(address, mark): (DatabaseAddress, Mark)| {
            DatabaseServer::replica(pool(&address, Access::ReadOnly), guard(mark), &part(mark, Access::ReadOnly))
        };
        let server = |access| DatabaseServer::new(pool(&address, access), guard(mark), &part(mark, access));
        Some(Arc::new(Database {
            primary: server(Access::ReadWrite),
            readers: Readers::new(addresses.map(replica).collect(), server(Access::ReadOnly)),
            timeout: self.timeout,
            times: carry.state(StatementTimes::default),
            url: self.url.span,
            replica_urls: self.replicas.iter().map(|url| url.span).collect(),
            queries: Mutex::default(),
            slots: carry.state(StatementSlots::default),
            carry,
        }))
    }

    /// An address, and what identifies it.
    fn address(
        &self,
        url: &Located<Secret>,
        files: Files<'_>,
        problems: &mut Problems,
    ) -> Option<(DatabaseAddress, Mark)> {
        let reading = MarkedFiles::new(files);
        let files = |written: &_| reading.read(written);
        let address = DatabaseAddress::compile(url, self.ca.as_ref(), &files, problems)?;
        Some((address, Mark::of((url.value.expose(), reading.mark()))))
    }
}

impl Database {
    /// Its name in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.primary.pool.name
    }

    /// A statement of the configuration. The same text is prepared once a connection, however often it is written.
    pub fn query(&self, text: &Located<String>, values: usize, access: Access) -> Arc<Query> {
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = queries.iter().find(|known| known.is(&text.value, values, access)) {
            return known.clone();
        }
        let known = self.carry.part((&text.value, values, access)).state(|| KnownQuery::new(&self.slots));
        let query = Arc::new(Query::new(self.name().clone(), text.clone(), known, values, access));
        queries.push(query.clone());
        query
    }

    /// The times of its statements, by how they ended; nothing, for ends that are counted together.
    pub fn times(&self) -> impl Iterator<Item = (Option<StatementEnd>, Snapshot)> {
        self.times.all().snapshots()
    }

    /// How many connections are in use, how many are not, and how many statements wait for one.
    pub fn connections(&self) -> (usize, usize, usize) {
        let all = self.servers_and_last().map(|server| server.pool.counts());
        all.fold((0, 0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1, sum.2 + more.2))
    }

    /// Whether a connection pooler is in front of it, as far as that is known.
    pub fn is_pooled(&self) -> bool {
        self.primary.pool.is_pooled()
    }

    /// Called when it begins to serve: the log says what was found out at the start.
    pub fn begin(&self) {
        if self.is_pooled() {
            self.primary.pool.tell_pooler();
        }
    }

    /// Another configuration serves: connections that it does not have too are closed.
    pub fn end(&self, next: Option<&Database>) {
        let pools = || self.servers_and_last().map(|server| &server.pool);
        let kept = |pool: &Arc<DatabasePool>| {
            next.is_some_and(|next| next.servers_and_last().any(|server| Arc::ptr_eq(&server.pool, pool)))
        };
        pools().filter(|pool| !kept(pool)).for_each(|pool| pool.retire());
    }

    fn servers_and_last(&self) -> impl Iterator<Item = &DatabaseServer> {
        self.readers.all().chain([&self.primary])
    }

    /// Its servers, as they are now.
    pub fn servers(&self) -> impl Iterator<Item = DatabaseServerState> {
        [&self.primary].into_iter().chain(self.readers.replicas()).map(DatabaseServer::state)
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// The error for the client: `BadRequest` for values that do not fit, `Refused` for what the database refuses,
    /// `Unavailable` and `Busy` if it cannot be reached or has no free connection, `Timeout`, and `Internal` for what
    /// the operator must correct.
    pub async fn run(&self, run: StatementRun) -> Result<Answer, Error> {
        let timeout = run.timeout.unwrap_or(self.timeout);
        let due = match timeout {
            Timeout::After(time) => Some(Instant::now() + time),
            Timeout::Never => None,
        };
        let until = due.into_iter().chain(run.deadline).min();
        let sent = AtomicBool::new(false);
        let attempts = self.attempts(&run, timeout, (due, until), &sent);
        let late = || Err(if sent.load(Relaxed) && !run.only_reads() { unknown() } else { slow() });
        let answer = match until {
            Some(until) => by(until, attempts).await.unwrap_or_else(late),
            None => attempts.await,
        };
        answer.map_err(|error| error.of_upstream(self.name()))
    }

    /// Until the statement's own time is over, and any time.
    async fn attempts(
        &self,
        run: &StatementRun,
        idle: Timeout,
        (due, until): (Option<Instant>, Option<Instant>),
        sent: &AtomicBool,
    ) -> Result<Answer, Error> {
        // The replicas that have failed.
        let mut failed = 0;
        let mut chosen = self.choose(run, due, failed).inspect_err(|_| self.primary.refuse())?;
        let most = ATTEMPTS.max(self.readers.replicas().len() + 1);
        let mut attempt = 1;
        let mut moved = None;
        loop {
            let Chosen { server, mut tried, bit } = chosen;
            let note = || run.note.clone().map(|note| CallNote { attempt: attempt as u16, ..note });
            let mut record = match moved.take() {
                Some(record) => record,
                None => RunRecord::begin(note(), &server.pool, &run.query, &self.times, until),
            };
            // Alone where something has failed: others may be the reason.
            let shared = (attempt == 1 && run.may_share()).then_some(&*server.shared);
            let mut silent = pin!(async {
                match run.repeatable {
                    true => server.silent().await,
                    false => std::future::pending().await,
                }
            });
            let (began, generation) = (Instant::now(), server.pool.generation());
            let place = async {
                match shared {
                    Some(shared) => shared.place(&server.pool, &run.query).await,
                    None => server.pool.lease().await.map(ReadPlace::Alone),
                }
            };
            let place = tokio::select! {
                biased;
                place = place => place,
                () = &mut silent => Err(away()),
            };
            let place = match place {
                Ok(place) => place,
                Err(error) => {
                    record.end(StatementEnd::Failed(error.kind()));
                    if error.kind() == Kind::Busy && server.pool.has_waited(began) {
                        Box::pin(server.waited_in_vain(&mut tried)).await;
                    }
                    tried.unconnected(&error);
                    if bit == 0 || error.kind() != Kind::Unavailable {
                        return Err(error);
                    }
                    server.away();
                    failed |= bit;
                    chosen = self.choose(run, due, failed).map_err(|_| error)?;
                    attempt += 1;
                    continue;
                }
            };
            record.connected();
            tried.connected();
            sent.store(true, Relaxed);
            let failure = tokio::select! {
                biased;
                done = attempt_on(place, run, shared, idle, record, &mut moved) => match done {
                    Ok(answer) => {
                        tried.ended(Some(Verdict::Success));
                        server.back();
                        return Ok(answer);
                    }
                    Err(failure) => failure,
                },
                () = &mut silent => StatementFailure::silent(),
            };
            if failure.verdict == Some(Verdict::Success) {
                server.hear();
            }
            tried.ended(failure.verdict);
            if failure.renamed {
                server.pool.meet_pooler();
            }
            let again = match failure.again {
                Again::Never => false,
                Again::Always if failure.only_reads => server.pool.renew(generation),
                Again::Always | Again::Elsewhere => true,
                Again::IfReading => run.repeatable,
            };
            if !again || attempt >= most {
                return Err(failure.error);
            }
            if failure.error.kind() == Kind::Unavailable {
                server.away();
            }
            let moves = moved.is_some();
            let same = if moves { server.admit(due).ok() } else { None };
            chosen = match same {
                Some(tried) => Chosen { server, tried, bit },
                None => {
                    // Others may have found out meanwhile that the server is silent.
                    if let Some(mut record) = moved.take() {
                        record.end(StatementEnd::Failed(failure.error.kind()));
                    }
                    failed |= bit;
                    self.choose(run, due, failed).map_err(|refused| if moves { refused } else { failure.error })?
                }
            };
            attempt += 1;
        }
    }
}

impl Database {
    /// A server that has not failed yet.
    fn choose(&self, run: &StatementRun, due: Option<Instant>, failed: u32) -> Result<Chosen<'_>, Error> {
        match run.query.access {
            Access::ReadWrite => self.primary.admit(due).map(|tried| Chosen { server: &self.primary, tried, bit: 0 }),
            Access::ReadOnly => self.readers.choose(due, failed),
        }
    }
}

/// Runs it on a connection. If a statement moves to another connection, it is still noted as one.
async fn attempt_on(
    place: ReadPlace,
    run: &StatementRun,
    shared: Option<&SharedConnections>,
    idle: Timeout,
    mut record: RunRecord,
    moved: &mut Option<RunRecord>,
) -> Result<Answer, StatementFailure> {
    let place = match place {
        ReadPlace::Alone(lease) if !run.before.is_empty() => {
            return Box::pin(transaction::run(lease, run, record)).await;
        }
        place => place,
    };
    match start::start(place, run, shared).await {
        Ok((stream, prepared, running)) => {
            let rows = Rows::new(stream, prepared, run.query.clone(), running, record);
            answer::of(rows, run.wanted, idle).await
        }
        Err(failure) => {
            match failure.again {
                Again::Elsewhere => *moved = Some(record),
                _ => record.end(StatementEnd::Failed(failure.error.kind())),
            }
            Err(failure)
        }
    }
}
