//! The wait for `100 Continue` (RFC 9110, 10.1.1): a client that expects it sends no body before the upstream asks for one.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// How long a body stays back. RFC 9110, 10.1.1 wants no client to wait for ever: a server may not know the field.
const WAIT: Duration = Duration::from_secs(1);

/// A body that stays back until the server asks for it, has answered, or has been silent for a second.
#[derive(Debug, Default)]
pub(crate) struct Expecting(Option<Pin<Box<Sleep>>>);

impl Expecting {
    /// Ready when the body leaves without being asked for. The time runs from the first poll.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.get_or_insert_with(|| Box::pin(sleep(WAIT))).as_mut().poll(cx)
    }
}
