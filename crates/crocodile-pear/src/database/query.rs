//! A statement as it is written, and what each connection knows of it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error as Failed, Row, Statement};

use super::address::error_text;
use super::cell::{Cell, lead};
use super::moment::Garbled;
use crate::config::spec::Located;
use crate::telemetry::log_limiter::LogLimiter;

/// The rights of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    ReadWrite,
    /// The statement may only read: the server refuses the rest.
    ReadOnly,
}

/// A statement of the configuration.
pub struct Query {
    /// The name of its database.
    pub(super) database: Arc<str>,
    /// The SQL, with its place.
    pub(super) text: Located<String>,
    /// The known facts about it, also those of the configuration before.
    pub(super) known: Arc<KnownQuery>,
    /// How many values it is given.
    pub(super) values: usize,
    /// Its rights in the server.
    pub(super) access: Access,
    /// Whether it certainly changes nothing.
    pub(super) reads: bool,
    /// The SQL on one line, for operators.
    shown: Box<str>,
    logged: LogLimiter,
}

/// The places of the statements of a database, in what its connections know of them.
#[derive(Default)]
pub(super) struct StatementSlots(Mutex<Vec<bool>>);

impl StatementSlots {
    fn take(&self) -> usize {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = taken.iter().position(|taken| !taken).unwrap_or(taken.len());
        if index == taken.len() {
            taken.push(true);
        }
        taken[index] = true;
        index
    }
}

/// The known facts about a statement.
pub(super) struct KnownQuery {
    slots: Arc<StatementSlots>,
    /// Where connections keep what they know of it.
    pub(super) index: usize,
    /// No other statement has this number, though it may have had the place.
    pub(super) number: u64,
    /// How many microseconds it took in the server recently; 0 if that is not known.
    usual: AtomicU32,
    /// Whether all servers were able to run it.
    pub(super) sound: AtomicBool,
}

impl KnownQuery {
    pub(super) fn new(slots: &Arc<StatementSlots>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (index, number) = (slots.take(), NEXT.fetch_add(1, Relaxed));
        KnownQuery { slots: slots.clone(), index, number, usual: AtomicU32::new(0), sound: AtomicBool::new(false) }
    }
}

impl Drop for KnownQuery {
    fn drop(&mut self) {
        self.slots.0.lock().unwrap_or_else(PoisonError::into_inner)[self.index] = false;
    }
}

/// A statement that usually takes longer does not share a connection with others.
const SHORT: u32 = 10_000;

/// The most bytes of a statement that are shown.
const SHOWN: usize = 200;

impl Query {
    pub(super) fn new(
        database: Arc<str>,
        text: Located<String>,
        known: Arc<KnownQuery>,
        values: usize,
        access: Access,
    ) -> Self {
        let reads = access == Access::ReadOnly || reads(&text.value);
        // With the names of variables, whose values may be secrets.
        let line = text.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = match line.char_indices().nth(SHOWN) {
            Some((at, _)) => format!("{}…", &line[..at]).into(),
            None => line.into(),
        };
        Query { database, text, shown, known, values, access, reads, logged: LogLimiter::default() }
    }

    /// Whether it is this text, with this number of values.
    pub(super) fn is(&self, text: &str, values: usize, access: Access) -> bool {
        self.text.value == text && self.values == values && self.access == access
    }

    /// The SQL on one line, shortened: for operators, never for clients.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Its rights in the server.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether it certainly changes nothing, judged by its keywords.
    pub fn only_reads(&self) -> bool {
        self.reads
    }

    /// Notes how long it took where nothing was before it.
    pub(super) fn took(&self, time: Duration) {
        let took = u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1);
        let next = match self.known.usual.load(Relaxed) {
            0 => took,
            // Short times count more: on a busy machine, a short statement waits for its turn.
            usual if took < usual => usual.midpoint(took),
            usual => usual + (took - usual) / 64,
        };
        self.known.usual.store(next.max(1), Relaxed);
    }

    /// Whether it usually takes long.
    pub(super) fn is_long(&self) -> bool {
        self.known.usual.load(Relaxed) > SHORT
    }

    pub(super) fn is_short(&self) -> bool {
        (1..=SHORT).contains(&self.known.usual.load(Relaxed))
    }

    pub(super) fn line(&self) -> u32 {
        self.text.span.line
    }

    pub(super) fn warn(&self, what: &str, failed: &Failed) {
        if self.logged.allows() {
            tracing::warn!(database = %self.database, query = self.line(), reason = error_text(failed), "{what}");
        }
    }

    pub(super) fn error(&self, what: &str, failed: &Failed) {
        if self.logged.allows() {
            tracing::error!(database = %self.database, query = self.line(), reason = error_text(failed), "{what}");
        }
    }

    pub(super) fn unfit(&self, unfit: &UnfitStatement) {
        if self.logged.allows() {
            let reason = unfit.message();
            tracing::error!(database = %self.database, query = self.line(), reason, "a statement cannot be used");
        }
    }
}

/// Words of statements that change something, or may.
const CHANGES: [&str; 12] =
    ["insert", "update", "delete", "merge", "into", "call", "nextval", "setval", "lock", "share", "do", "pg_notify"];

/// Whether a statement certainly changes nothing, judged by its keywords: functions may do anything.
fn reads(sql: &str) -> bool {
    let mut words = sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default().to_ascii_lowercase();
    let begins = matches!(first.as_str(), "select" | "with" | "values" | "table");
    begins && !words.any(|word| CHANGES.iter().any(|change| word.eq_ignore_ascii_case(change)))
}

/// First words of statements that do nothing but change something.
const WRITES: [&str; 10] =
    ["insert", "update", "delete", "merge", "truncate", "create", "alter", "drop", "set", "reset"];

/// Whether a statement certainly changes something, by its first word.
pub fn writes(sql: &str) -> bool {
    let sql = sql.trim_start();
    let end = sql.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(sql.len());
    WRITES.iter().any(|word| sql[..end].eq_ignore_ascii_case(word))
}

/// A statement as one connection has prepared it.
pub(super) struct PreparedStatement {
    pub(super) statement: Statement,
    columns: Vec<(Vec<u8>, Cell)>,
    /// Whether its rows may nest deeper than anybody knows.
    pub(super) deep: bool,
}

/// Why a statement cannot be used.
#[derive(Debug, PartialEq)]
pub(super) enum UnfitStatement {
    /// The statement has another number of parameters than values.
    Values { wanted: usize, given: usize },
    /// A column is of a type that has no form in JSON here.
    Type { column: String, kind: String },
    /// Two columns have one name.
    Twice(String),
}

impl UnfitStatement {
    pub(super) fn message(&self) -> String {
        match self {
            UnfitStatement::Values { wanted, given } => {
                let s = if *wanted == 1 { "" } else { "s" };
                format!("the statement has {wanted} parameter{s}, and `values` gives {given}")
            }
            UnfitStatement::Type { column, kind } => {
                format!("the column `{column}` is of the type `{kind}`, which has no form in JSON")
            }
            UnfitStatement::Twice(column) => format!("two columns are called `{column}`"),
        }
    }

    pub(super) fn remedy(&self) -> String {
        match self {
            UnfitStatement::Values { wanted: 0, .. } => {
                "leave out `values`, or write `$1` where the first belongs".to_owned()
            }
            UnfitStatement::Values { .. } => "give one value for each of `$1`, `$2` and so on".to_owned(),
            UnfitStatement::Type { column, .. } => format!("write it as text: `{column}::text`"),
            UnfitStatement::Twice(column) => format!("give one of them another name: `… as other_{column}`"),
        }
    }
}

impl PreparedStatement {
    /// Prepares a statement on a connection.
    ///
    /// # Errors
    /// The errors of the server, or why the statement is of no use.
    pub(super) async fn make(client: &Client, query: &Query) -> Result<Result<Self, UnfitStatement>, Failed> {
        client.prepare(&query.text.value).await.map(|statement| PreparedStatement::from_statement(statement, query))
    }

    fn from_statement(statement: Statement, query: &Query) -> Result<Self, UnfitStatement> {
        let wanted = statement.params().len();
        if wanted != query.values {
            return Err(UnfitStatement::Values { wanted, given: query.values });
        }
        let mut columns: Vec<(Vec<u8>, Cell)> = Vec::new();
        for (at, column) in statement.columns().iter().enumerate() {
            let name = column.name().to_owned();
            if statement.columns()[..at].iter().any(|other| other.name() == name) {
                return Err(UnfitStatement::Twice(name));
            }
            match Cell::for_type(column.type_()) {
                Some(cell) => columns.push((lead(at, &name), cell)),
                None => return Err(UnfitStatement::Type { column: name, kind: column.type_().name().to_owned() }),
            }
        }
        let deep = columns.iter().any(|(_, cell)| cell.is_deep());
        Ok(PreparedStatement { statement, columns, deep })
    }

    pub(super) fn parameters(&self) -> &[Type] {
        self.statement.params()
    }

    pub(super) fn has_rows(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Appends a row as an object.
    pub(super) fn write(&self, row: &Row, out: &mut Vec<u8>) -> Result<(), Garbled> {
        for (at, (lead, cell)) in self.columns.iter().enumerate() {
            out.extend_from_slice(lead);
            let bytes = row.try_get::<_, Option<ValueBytes<'_>>>(at).map_err(|_| Garbled)?;
            cell.write_nullable(bytes.map(|ValueBytes(bytes)| bytes), out)?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// The bytes of a value, whatever its type is.
struct ValueBytes<'a>(&'a [u8]);

impl<'a> tokio_postgres::types::FromSql<'a> for ValueBytes<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(ValueBytes(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_certainly_reads_is_taken_for_it() {
        for sql in ["select 1", " SELECT a FROM b", "with a as (select 1) select * from a", "values (1)", "table items"]
        {
            assert!(reads(sql), "{sql}");
        }
        let writes = [
            "insert into a values (1)",
            "with a as (delete from b returning *) select * from a",
            "select * from a for UPDATE",
        ];
        for sql in writes.into_iter().chain(["select nextval('a')", "update a set b = 1", "", "/* */ delete from a"]) {
            assert!(!reads(sql), "{sql}");
        }
    }
}
