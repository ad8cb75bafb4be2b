//! Errors of a server, as the client sees them: never the statement, never the name of a table.

use std::time::Duration;

use http::StatusCode;
use tokio_postgres::Error as Failed;
use tokio_postgres::error::SqlState;

use super::address::error_text;
use super::query::{Access, Query};
use crate::error::{Error, Kind};
use crate::resilience::verdict::Verdict;

/// A statement that failed.
#[derive(Debug)]
pub(super) struct StatementFailure {
    pub(super) error: Error,
    /// Whether it may be run again.
    pub(super) again: Again,
    /// Whether the connection cannot be used again.
    pub(super) broken: bool,
    /// The verdict about the server's health; `None` if the server did not answer.
    pub(super) verdict: Option<Verdict>,
    /// Whether the server does not know a statement that was prepared on this connection, or knows another: a pooler
    /// gives the connection to others.
    pub(super) renamed: bool,
    /// Whether the server does not accept writes: another connection may find the one that does.
    pub(super) only_reads: bool,
}

/// Whether a statement that failed may be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// A second run would fail, too.
    Never,
    /// The statement has not changed anything.
    Always,
    /// The same, and it has not failed: there is a better place for it.
    Elsewhere,
    /// The outcome is not known: only if the statement changes nothing.
    IfReading,
}

/// When it is worth asking again: a server that restarts takes about as long.
const SOON: Duration = Duration::from_secs(1);

/// There is no connection, and none can be opened.
pub(super) fn away() -> Error {
    Error::new(Kind::Unavailable, "the database cannot be reached").after(SOON)
}

/// The breaker stays open for this time.
pub(super) fn open(left: Duration) -> Error {
    Error::new(Kind::Busy, "the circuit breaker of the database is open").after(left)
}

/// All connections are in use.
pub(super) fn busy() -> Error {
    Error::new(Kind::Busy, "too many statements wait for a connection to the database").after(SOON)
}

/// The statement took too long.
pub(super) fn slow() -> Error {
    Error::new(Kind::Timeout, "the database took too long")
}

/// The same, for a statement that may change something and was sent.
pub(super) fn unknown() -> Error {
    Error::new(Kind::Timeout, "the database took too long; whether the statement was done is not known")
}

/// The statements before it on a shared connection take too long: it is run elsewhere.
pub(super) fn stuck() -> Error {
    Error::new(Kind::Timeout, "other statements before it took too long")
}

/// The server sent bytes that cannot be parsed.
pub(super) fn garbled() -> Error {
    Error::new(Kind::Malformed, "the database sent a value that cannot be read")
}

/// A connection that is another client's for the next statement.
const POOLER: &str = "a connection pooler in transaction mode seems to be in front of the database; \
                      write `statements: unnamed` beside its URL";

fn refused(status: StatusCode, detail: &'static str) -> Error {
    Error::new(Kind::Refused(status), detail)
}

impl StatementFailure {
    /// A failure that a second run would repeat.
    pub(super) fn permanent(error: Error) -> Self {
        StatementFailure { error, again: Again::Never, broken: false, verdict: None, renamed: false, only_reads: false }
    }

    /// The same for what the server has answered.
    pub(super) fn answered(error: Error) -> Self {
        StatementFailure { verdict: Some(Verdict::Success), ..StatementFailure::permanent(error) }
    }

    /// A statement that has not failed, and runs elsewhere.
    pub(super) fn elsewhere(error: Error) -> Self {
        StatementFailure { again: Again::Elsewhere, ..StatementFailure::permanent(error) }
    }

    /// The server answers nothing: a read runs elsewhere.
    pub(super) fn silent() -> Self {
        StatementFailure {
            again: Again::Always,
            broken: true,
            verdict: Some(Verdict::Failure),
            ..StatementFailure::permanent(away())
        }
    }

    /// Translates an error of the client library. What the operator must correct is logged.
    pub(super) fn from_error(failed: &Failed, query: &Query) -> Self {
        let Some(code) = failed.code() else {
            query.warn("the connection to the database was lost", failed);
            let detail = "the connection to the database was lost; whether the statement was done is not known";
            let error = Error::new(Kind::Unavailable, detail).after(SOON);
            return StatementFailure {
                error,
                again: Again::IfReading,
                broken: true,
                verdict: Some(Verdict::Failure),
                ..StatementFailure::permanent(garbled())
            };
        };
        let failure = match *code {
            SqlState::READ_ONLY_SQL_TRANSACTION if query.access == Access::ReadOnly => StatementFailure::answered(
                Error::new(Kind::Internal, "a statement that may only read changes something"),
            ),
            _ => StatementFailure::of_code(code),
        };
        match failure.error.kind() {
            _ if failure.renamed => query.warn(POOLER, failed),
            Kind::Internal => query.error("a statement failed", failed),
            Kind::Unavailable => query.warn("the database cannot serve", failed),
            _ => {
                tracing::debug!(database = %query.database, query = query.line(), reason = error_text(failed), "refused");
            }
        }
        failure
    }

    fn of_code(code: &SqlState) -> Self {
        let permanent = StatementFailure::answered;
        let again = |error| StatementFailure { again: Again::Always, ..StatementFailure::answered(error) };
        let broken = |again| {
            let error = Error::new(Kind::Unavailable, "the database cannot serve this now").after(SOON);
            StatementFailure {
                again,
                broken: true,
                verdict: Some(Verdict::Failure),
                ..StatementFailure::permanent(error)
            }
        };
        let unprocessable = |detail| permanent(refused(StatusCode::UNPROCESSABLE_ENTITY, detail));
        match *code {
            SqlState::UNIQUE_VIOLATION => {
                permanent(refused(StatusCode::CONFLICT, "a value that must be unique is there already"))
            }
            SqlState::EXCLUSION_VIOLATION => {
                permanent(refused(StatusCode::CONFLICT, "this is in conflict with what is there already"))
            }
            SqlState::FOREIGN_KEY_VIOLATION => {
                unprocessable("what this refers to is not there, or something refers to it")
            }
            SqlState::RESTRICT_VIOLATION => unprocessable("something refers to it"),
            SqlState::NOT_NULL_VIOLATION => unprocessable("a value is missing"),
            SqlState::CHECK_VIOLATION => unprocessable("a value is not allowed"),
            SqlState::RAISE_EXCEPTION => unprocessable("the database refused this"),
            SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => {
                again(Error::new(Kind::Busy, "another transaction changed the same data").after(SOON))
            }
            SqlState::LOCK_NOT_AVAILABLE => {
                permanent(Error::new(Kind::Busy, "another transaction took too long").after(SOON))
            }
            SqlState::QUERY_CANCELED => StatementFailure { verdict: Some(Verdict::Failure), ..permanent(slow()) },
            // A primary that is one no longer.
            SqlState::READ_ONLY_SQL_TRANSACTION => StatementFailure {
                broken: false,
                only_reads: true,
                verdict: Some(Verdict::Success),
                ..broken(Again::Always)
            },
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE => bad("a number is out of range"),
            SqlState::STRING_DATA_RIGHT_TRUNCATION => bad("a text is too long"),
            SqlState::DATETIME_FIELD_OVERFLOW | SqlState::INVALID_DATETIME_FORMAT => {
                bad("there is no such date or time")
            }
            SqlState::DIVISION_BY_ZERO => bad("a number is divided by zero"),
            SqlState::UNTRANSLATABLE_CHARACTER => bad("a text has a character that cannot be stored"),
            _ => StatementFailure::of_class(code, again, broken),
        }
    }

    fn of_class(code: &SqlState, again: impl Fn(Error) -> Self, broken: impl Fn(Again) -> Self) -> Self {
        let internal = || Error::new(Kind::Internal, "a statement failed");
        match code.code() {
            // The plan, or the statement itself, differs from what was prepared.
            "0A000" => StatementFailure { broken: true, ..again(internal()) },
            // There is no such statement, or there is one of this name: it has not been run.
            "26000" | "42P05" => StatementFailure { broken: true, renamed: true, ..again(internal()) },
            // Other parameters than were described, or a pooler that says so in its own words.
            "08P01" => StatementFailure { renamed: true, ..broken(Again::IfReading) },
            code if code.starts_with("22") => bad("a value does not fit"),
            code if code.starts_with("23") => {
                StatementFailure::answered(refused(StatusCode::UNPROCESSABLE_ENTITY, "a value is not allowed"))
            }
            code if code.starts_with("08") || code.starts_with("57P") => broken(Again::IfReading),
            code if code.starts_with("53") => broken(Again::Always),
            _ => StatementFailure::answered(internal()),
        }
    }
}

fn bad(detail: &'static str) -> StatementFailure {
    StatementFailure::answered(Error::new(Kind::BadRequest, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_status() {
        let cases = [
            ("23505", 409, Again::Never, Verdict::Success),
            ("23503", 422, Again::Never, Verdict::Success),
            ("23514", 422, Again::Never, Verdict::Success),
            ("22003", 400, Again::Never, Verdict::Success),
            ("22P02", 400, Again::Never, Verdict::Success),
            ("42703", 500, Again::Never, Verdict::Success),
            ("42501", 500, Again::Never, Verdict::Success),
            ("40001", 503, Again::Always, Verdict::Success),
            ("53300", 503, Again::Always, Verdict::Failure),
            ("57P01", 503, Again::IfReading, Verdict::Failure),
            ("57P03", 503, Again::IfReading, Verdict::Failure),
            ("25006", 503, Again::Always, Verdict::Success),
            ("57014", 504, Again::Never, Verdict::Failure),
        ];
        for (code, status, again, verdict) in cases {
            let failure = StatementFailure::of_code(&SqlState::from_code(code));
            let outcome = (failure.error.status().as_u16(), failure.again, failure.verdict);
            assert_eq!(outcome, (status, again, Some(verdict)), "{code}");
        }
    }
}
