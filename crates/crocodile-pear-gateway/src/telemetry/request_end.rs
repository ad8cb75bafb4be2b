//! The end of a request, as counters, lines, spans and figures report it.

use std::time::Duration;

use crocodile_pear::unstable::error::{ErrorType, Kind};
use crocodile_pear::unstable::request::context::Scope;
use http::{Method, StatusCode};

use crate::server::{Ending, ResponseEnd, Unfinished};

/// A request that has ended: its answer ended, whole or early, or the client left before there was one.
pub struct RequestEnd<'a> {
    /// The request, and what is known of it.
    pub scope: &'a Scope,
    /// The status of the answer; `None` if the client left before there was one.
    pub status: Option<StatusCode>,
    /// The kind of failure, if the gateway answered because it or an upstream failed.
    pub failure: Option<Kind>,
    /// The time from the start of the request until the head of the answer was ready.
    pub head: Option<Duration>,
    /// The time from the start of the request until the answer ended.
    pub total: Duration,
    /// How the answer ended, and how many bytes were sent.
    pub end: &'a ResponseEnd,
}

/// The status that logs and metrics show if the client left before its answer, as in nginx.
const CLIENT_CLOSED_REQUEST: u16 = 499;

impl<'a> RequestEnd<'a> {
    /// The method; `None` if the request could not be read.
    pub fn method(&self) -> Option<&'a Method> {
        self.scope.path().map(|_| self.scope.method())
    }

    /// The status of the answer; 499 if the client left before there was one.
    pub fn code(&self) -> u16 {
        self.status.map_or(CLIENT_CLOSED_REQUEST, |status| status.as_u16())
    }

    /// Whether the gateway or an upstream failed: a status of 500 or above, or an answer that was cut off.
    pub fn failed(&self) -> bool {
        matches!(self.end.how, Ending::Failed(_)) || self.code() >= 500
    }

    /// The `error.type` of OpenTelemetry: our name of the failure, or the status; `None` if the request did not fail.
    pub fn error_type(&self) -> Option<ErrorType> {
        match (&self.end.how, self.failure) {
            (Ending::Failed(error), _) => Some(ErrorType::Kind(error.kind())),
            _ if !self.failed() => None,
            (_, Some(kind)) => Some(ErrorType::Kind(kind)),
            (_, None) => Some(ErrorType::Status(self.code())),
        }
    }

    /// How the answer ended, in one word.
    pub fn how(&self) -> &'static str {
        self.end.how.unfinished().map_or("whole", Unfinished::name)
    }
}

/// The end of a request for the tests of its readers.
#[cfg(test)]
pub(crate) fn ended<T>(code: u16, total: Duration, sent: u64, read: impl FnOnce(&RequestEnd<'_>) -> T) -> T {
    use crocodile_pear::unstable::message::body::AnswerBody;

    let scope = Scope::new(Method::GET, None, http::HeaderMap::new(), AnswerBody::empty());
    let end = ResponseEnd { bytes: sent, how: Ending::Whole };
    let status = StatusCode::from_u16(code).ok();
    read(&RequestEnd { scope: &scope, status, failure: None, head: None, total, end: &end })
}

#[cfg(test)]
mod tests {
    use crocodile_pear::unstable::error::Error;

    use super::super::request_end::*;

    /// The report about an answer with this status that ended like this.
    fn reported(status: Option<u16>, how: Ending) -> (u16, bool, Option<String>, &'static str) {
        ended(200, Duration::ZERO, 0, |whole| {
            let status = status.and_then(|status| StatusCode::from_u16(status).ok());
            let end = ResponseEnd { bytes: 0, how };
            let other = RequestEnd { status, end: &end, ..*whole };
            (other.code(), other.failed(), other.error_type().map(|error| error.to_string()), other.how())
        })
    }

    #[test]
    fn a_client_that_leaves_is_no_failure() {
        assert_eq!(reported(None, Ending::ClientGone), (499, false, None, "client-gone"));
        assert_eq!(reported(Some(200), Ending::ClientSlow), (200, false, None, "client-slow"));
        assert_eq!(reported(Some(404), Ending::Whole), (404, false, None, "whole"));
    }

    #[test]
    fn a_status_of_5xx_and_an_answer_that_is_cut_off_are_failures() {
        let cut = Ending::Failed(Error::new(Kind::Cut, "cut"));
        assert_eq!(reported(Some(200), cut), (200, true, Some("cut".to_owned()), "failed"));
        assert_eq!(reported(Some(502), Ending::Whole), (502, true, Some("502".to_owned()), "whole"));
        assert_eq!(reported(Some(502), Ending::ClientGone), (502, true, Some("502".to_owned()), "client-gone"));
    }
}
