//! A timer for deadlines that mostly move away before they come.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};

/// A timer, made at the first wait. Setting it anew costs less than making another.
#[derive(Debug, Default)]
pub struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Waits for a moment. A timer that fires early is set again then.
    pub fn poll(&mut self, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= due {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }

    /// Takes over the timer of another one, unless it has its own.
    pub fn take_from(&mut self, other: &mut Alarm) {
        if self.0.is_none() {
            self.0 = other.0.take();
        }
    }
}
