//! A timer for deadlines that mostly move away before they come.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

/// A timer that fires this much too late shows that the process did not run meanwhile: it was stopped, or its machine was.
const LATE: Duration = Duration::from_millis(25);

/// The time for reading the bytes that are in the sockets by then, before the deadline counts.
const GRACE: Duration = Duration::from_millis(25);

/// A timer, made at the first wait. Setting it anew costs less than making another.
#[derive(Debug, Default)]
pub struct Alarm(Option<Pin<Box<DeadlineTimer>>>);

pin_project! {
    #[derive(Debug)]
    struct DeadlineTimer {
        #[pin]
        sleep: Sleep,
        // Whether it has fired too late, and fires once more after the grace. It stands here so that a waiting call stays small.
        late: bool,
    }
}

impl Alarm {
    /// Waits for a moment. A timer that fires early is set again then; after one that fires much too late, the runtime
    /// looks at its sockets first.
    pub fn poll(&mut self, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let begin = || Box::pin(DeadlineTimer { sleep: tokio::time::sleep_until(due), late: false });
        let mut timer = self.0.get_or_insert_with(begin).as_mut().project();
        if *timer.late && timer.sleep.deadline() < due {
            *timer.late = false;
        }
        if !*timer.late && timer.sleep.deadline() > due {
            timer.sleep.as_mut().reset(due);
        }
        while timer.sleep.as_mut().poll(cx).is_ready() {
            if timer.sleep.deadline() < due {
                timer.sleep.as_mut().reset(due);
            } else if !*timer.late && due.elapsed() > LATE {
                *timer.late = true;
                timer.sleep.as_mut().reset(Instant::now() + GRACE);
            } else {
                *timer.late = false;
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Takes over the timer of another one, unless it has its own.
    pub fn take_from(&mut self, other: &mut Alarm) {
        if self.0.is_none() {
            self.0 = other.0.take();
            if let Some(timer) = &mut self.0 {
                *timer.as_mut().project().late = false;
            }
        }
    }
}

/// The output of a future by a moment; `None` if it is late. Unlike tokio's `timeout_at`, a process that was stopped until
/// after the moment looks at its sockets first.
pub async fn by<F: Future>(due: Instant, future: F) -> Option<F::Output> {
    let (mut future, mut alarm) = (pin!(future), Alarm::default());
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => alarm.poll(due, cx).map(|()| None),
    })
    .await
}

pub async fn within<F: Future>(time: Duration, future: F) -> Option<F::Output> {
    match Instant::now().checked_add(time) {
        Some(due) => by(due, future).await,
        None => Some(future.await),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::super::deadline_timer::*;

    async fn seconds(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_comes_in_time_is_not_extended() {
        let begun = Instant::now();
        assert_eq!(within(Duration::from_secs(2), pending::<()>()).await, None);
        assert!(begun.elapsed() < Duration::from_secs(2) + LATE, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_time_in_which_nothing_ran_sockets_come_first() {
        let mut alarm = Alarm::default();
        let due = Instant::now() + Duration::from_secs(2);
        let fires = |alarm: &mut Alarm, due| {
            let polled = alarm.poll(due, &mut Context::from_waker(std::task::Waker::noop()));
            polled.is_ready()
        };
        assert!(!fires(&mut alarm, due));
        seconds(10).await;
        // However often it is looked at, there is one grace.
        assert!(!fires(&mut alarm, due) && !fires(&mut alarm, due));
        tokio::time::advance(GRACE + Duration::from_millis(1)).await;
        assert!(fires(&mut alarm, due));
        // The next deadline is one of its own.
        let next = Instant::now() + Duration::from_secs(2);
        assert!(!fires(&mut alarm, next));
        tokio::time::advance(Duration::from_millis(2001)).await;
        assert!(fires(&mut alarm, next));
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_deadline_ends_the_grace() {
        let mut alarm = Alarm::default();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let due = Instant::now() + Duration::from_secs(2);
        assert!(alarm.poll(due, &mut cx).is_pending());
        seconds(10).await;
        assert!(alarm.poll(due, &mut cx).is_pending());
        let later = Instant::now() + Duration::from_secs(3);
        assert!(alarm.poll(later, &mut cx).is_pending());
        seconds(2).await;
        assert!(alarm.poll(later, &mut cx).is_pending());
        tokio::time::advance(Duration::from_millis(1001)).await;
        assert!(alarm.poll(later, &mut cx).is_ready());
    }
}
