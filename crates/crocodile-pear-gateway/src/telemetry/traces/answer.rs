//! The answer to a request, as spans tell it.

use std::time::Duration;

use crocodile_pear::unstable::error::ErrorType;
use http::StatusCode;

use crate::server::{End, Ending};

/// The head of an answer; nothing, if the client left before there was one.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Its status.
    pub status: Option<StatusCode>,
    /// Why it failed, if it did.
    pub error: Option<ErrorType>,
    /// When it was ready, since the request began.
    pub head: Option<Duration>,
    /// When the answer ended, since the request began.
    pub total: Duration,
}

impl Answer {
    /// Whether the request failed, as servers count it.
    pub(super) fn failed(self, end: &End) -> bool {
        matches!(end.how, Ending::Failed(_)) || self.status.is_some_and(|status| status.is_server_error())
    }
}
