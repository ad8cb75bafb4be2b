//! Why an order failed, for the log and for the time of the next one.

use std::fmt;
use std::time::Duration;

use instant_acme::{Error, Problem};

use super::transport;

/// More of an authority's words is not logged.
const LONGEST: usize = 1000;

/// Problems that concern the authority and not the order: they pass, and do not count against its limits.
const PASSING: [&str; 2] = ["badNonce", "serverInternal"];

/// Why an order failed.
#[derive(Clone, Debug)]
pub struct OrderFailure {
    pub cause: FailureCause,
    pub text: String,
    /// How long the authority wants to be left alone.
    pub after: Option<Duration>,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The authority cannot be called.
    Unreachable,
    /// The authority has refused; another request counts against its limits.
    Refused,
    /// The certificate cannot be stored.
    Disk,
    /// The authority does not know the requested feature.
    Unsupported,
}

impl OrderFailure {
    pub fn new(cause: FailureCause, text: impl Into<String>) -> Self {
        OrderFailure { cause, text: text.into(), after: None }
    }

    /// In the words of the authority.
    pub fn of_problem(problem: &Problem) -> Self {
        let detail = problem.detail.as_deref().unwrap_or("no detail");
        let kind = problem.r#type.as_deref().unwrap_or("about:blank");
        let kind = kind.trim_start_matches("urn:ietf:params:acme:error:");
        let below = problem.subproblems.iter().filter_map(|below| below.detail.as_deref());
        let mut text = std::iter::once(detail).chain(below).collect::<Vec<_>>().join("; ");
        if let Some((end, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(end);
        }
        let cause = if PASSING.contains(&kind) { FailureCause::Unreachable } else { FailureCause::Refused };
        OrderFailure::new(cause, format!("{text} ({kind})"))
    }
}

impl From<Error> for OrderFailure {
    fn from(error: Error) -> Self {
        let mut failure = match &error {
            Error::Api(problem) => OrderFailure::of_problem(problem),
            Error::Unsupported(_) => OrderFailure::new(FailureCause::Unsupported, error.to_string()),
            Error::Json(_) => {
                OrderFailure::new(FailureCause::Unreachable, format!("its answer cannot be read: {error}"))
            }
            _ => OrderFailure::new(FailureCause::Unreachable, error.to_string()),
        };
        failure.after = transport::retry_after();
        failure
    }
}

impl fmt::Display for OrderFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_apart_from_what_is_refused() {
        for (kind, cause) in [
            ("badNonce", FailureCause::Unreachable),
            ("serverInternal", FailureCause::Unreachable),
            ("unauthorized", FailureCause::Refused),
            ("rateLimited", FailureCause::Refused),
        ] {
            let problem = serde_json::json!({"type": format!("urn:ietf:params:acme:error:{kind}"), "detail": "no"});
            let problem = serde_json::from_value(problem).expect("a problem");
            let failure = OrderFailure::of_problem(&problem);
            assert_eq!((failure.cause, failure.to_string()), (cause, format!("no ({kind})")));
        }
    }
}
