//! A run: a statement with its values, or several in one transaction.

use std::sync::Arc;

use tokio::time::Instant;

use super::query::Query;
use crate::config::spec::Timeout;
use crate::jq::Data;
use crate::telemetry::request_record::CallNote;

/// The expected result of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The one row that there is.
    One,
    /// A list of all rows.
    List,
}

pub struct StatementRun {
    /// The statement.
    pub query: Arc<Query>,
    pub values: Vec<Data>,
    /// The name of each value towards the client.
    pub names: Arc<[Box<str>]>,
    /// The expected result.
    pub wanted: Wanted,
    /// The statements before it in one transaction; with none it is one of its own.
    pub before: Vec<EarlierStatement>,
    /// How long it may take, if not as long as others.
    pub timeout: Option<Timeout>,
    /// When the client's time is over.
    pub deadline: Option<Instant>,
    /// Where it is noted, if it is.
    pub note: Option<CallNote>,
    /// Whether it may be run again when what became of it is not known.
    pub repeatable: bool,
}

/// A statement before another in one transaction. Its result is checked, and not sent to the client.
#[derive(Clone)]
pub struct EarlierStatement {
    /// The statement.
    pub query: Arc<Query>,
    pub values: Vec<Data>,
    /// The name of each value towards the client.
    pub names: Arc<[Box<str>]>,
    /// The expected result.
    pub wanted: Wanted,
}

impl StatementRun {
    /// Whether it certainly changes nothing.
    pub(super) fn only_reads(&self) -> bool {
        self.query.only_reads() && self.before.iter().all(|before| before.query.only_reads())
    }

    /// Whether it may share a connection: it can be run again elsewhere, and all that it gives is taken at once.
    pub(super) fn may_share(&self) -> bool {
        self.repeatable && self.wanted == Wanted::One && self.before.is_empty()
    }
}
