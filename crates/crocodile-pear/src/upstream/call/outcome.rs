//! The outcome of a call to a server: the head of an answer, or why there is none.

use http::StatusCode;

use crate::error::{Error, Kind};
use crate::http::http1::AnswerFields;
use crate::resilience::verdict::Verdict;

/// Why a connection gave no answer.
pub(crate) enum ConnectionFailure {
    /// The connection had been kept, was closed meanwhile, and the request may be sent again.
    Stale,
    /// There is no connection: nothing has been sent.
    Unsent(Error),
    /// The call has failed.
    Final(Error),
}

impl From<Error> for ConnectionFailure {
    fn from(error: Error) -> Self {
        ConnectionFailure::Final(error)
    }
}

/// Status and fields of the final answer.
pub(crate) type ResponseHead = (StatusCode, AnswerFields);

/// The head of an answer, or why there is none.
pub(crate) type AttemptOutcome = Result<ResponseHead, AttemptError>;

/// A call without an answer.
pub(crate) struct AttemptError {
    pub(crate) error: Error,
    /// Whether the server provably has not processed the request.
    pub(crate) unsent: bool,
}

/// The verdict of an outcome about the server; `None` if the failure was not the server's fault.
pub(crate) fn judge(outcome: &AttemptOutcome) -> Option<Verdict> {
    match outcome {
        Ok((status, _)) => Some(if failed(*status) { Verdict::Failure } else { Verdict::Success }),
        Err(lost) => match lost.error.kind() {
            Kind::Unreachable | Kind::Reset | Kind::Cut | Kind::Malformed | Kind::Timeout => Some(Verdict::Failure),
            _ => None,
        },
    }
}

/// Statuses that mean the server has failed. 501 and 505 are about the request.
fn failed(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502..=504)
}

/// The answer ended too early.
pub(crate) fn cut() -> Error {
    cut_by(std::io::ErrorKind::UnexpectedEof.into())
}

/// The same, with the error of the connection.
pub(crate) fn cut_by(error: std::io::Error) -> Error {
    Error::new(Kind::Cut, "the answer ended before it was whole").caused_by(error)
}

/// The connection ended before there was an answer.
pub(crate) fn reset(error: Option<std::io::Error>) -> Error {
    let error = error.unwrap_or_else(|| std::io::ErrorKind::ConnectionReset.into());
    Error::new(Kind::Reset, "the upstream closed the connection before it answered").caused_by(error)
}

/// The status is not one of HTTP.
pub(crate) fn malformed(detail: &'static str) -> Error {
    Error::new(Kind::Malformed, detail)
}
