//! Items that wait while those before them fill the room of their bodies.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::message::room::Room;

/// How long an item waits for the one before it. A call that waits for a place at its upstream may wait for that of an item behind it,
/// so nobody waits for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// The items of one step, in the order in which they began.
#[derive(Clone, Default)]
pub struct Gate {
    room: Arc<Room>,
    line: Arc<Mutex<Line>>,
}

/// The items from the oldest one that has not ended.
#[derive(Default)]
struct Line {
    oldest: u64,
    ended: VecDeque<bool>,
}

impl Gate {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An item behind those that have begun.
    pub fn pass<F: Future + Unpin>(&self, item: F) -> Gated<F> {
        let mut line = self.line();
        let number = line.oldest + line.ended.len() as u64;
        line.ended.push_back(false);
        drop(line);
        Gated { item, gate: self.clone(), number, waits: None }
    }
}

/// An item that waits where the room is full and it is not the oldest.
pub struct Gated<F> {
    item: F,
    gate: Gate,
    number: u64,
    waits: Option<Pin<Box<Sleep>>>,
}

impl<F> Gated<F> {
    /// How many items before it have not ended.
    fn rank(&self) -> usize {
        let line = self.gate.line();
        let before = usize::try_from(self.number - line.oldest).unwrap_or(usize::MAX);
        line.ended.iter().take(before).filter(|ended| !**ended).count()
    }

    fn must_wait(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.gate.room.is_full() {
            return false;
        }
        let rank = self.rank();
        if rank == 0 {
            return false;
        }
        let longest = PATIENCE * u32::try_from(rank).unwrap_or(u32::MAX);
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(longest)));
        if waits.as_mut().poll(cx).is_ready() {
            return false;
        }
        self.gate.room.wait(cx.waker());
        // The room may have become free in between.
        self.gate.room.is_full()
    }
}

impl<F: Future + Unpin> Future for Gated<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.must_wait(cx) {
            return Poll::Pending;
        }
        let Gated { item, gate, .. } = &mut *self;
        gate.room.within(|| Pin::new(item).poll(cx))
    }
}

impl<F> Drop for Gated<F> {
    fn drop(&mut self) {
        let mut line = self.gate.line();
        let at = usize::try_from(self.number - line.oldest).unwrap_or(usize::MAX);
        if let Some(ended) = line.ended.get_mut(at) {
            *ended = true;
        }
        let before = line.oldest;
        while line.ended.front() == Some(&true) {
            line.ended.pop_front();
            line.oldest += 1;
        }
        let moved = line.oldest > before;
        drop(line);
        if moved && self.gate.room.is_full() {
            self.gate.room.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::stream::{FuturesOrdered, StreamExt};
    use tokio::time::Instant;

    use super::*;
    use crate::message::room::Place;

    /// Items that each hold 20 MiB until their output is dropped; the first of them waits for so long.
    fn items(
        count: usize,
        first: Duration,
        gate: &Gate,
    ) -> FuturesOrdered<Gated<futures_util::future::BoxFuture<'static, (usize, Place)>>> {
        let item = |number| async move {
            let place = Place::of(20 << 20);
            if number == 0 {
                sleep(first).await;
            }
            (number, place)
        };
        (0..count).map(|number| gate.pass(item(number).boxed())).collect()
    }

    fn held(gate: &Gate) -> u64 {
        gate.line().ended.iter().filter(|ended| **ended).count() as u64
    }

    #[tokio::test(start_paused = true)]
    async fn items_behind_one_that_hangs_do_not_fill_the_memory() {
        let gate = Gate::default();
        let mut items = items(100, Duration::from_secs(3_600), &gate);
        let began = Instant::now();
        assert!(items.next().now_or_never().is_none());
        assert_eq!(held(&gate), 3, "with the first one 80 MiB");
        // Nobody waits for ever: one more each five seconds.
        assert!(tokio::time::timeout(Duration::from_secs(11), items.next()).await.is_err());
        assert_eq!((held(&gate), began.elapsed().as_secs()), (5, 11));
        assert!(tokio::time::timeout(Duration::from_secs(10), items.next()).await.is_err());
        assert_eq!(held(&gate), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn all_items_go_on_when_those_before_them_have_ended() {
        let gate = Gate::default();
        let mut items = items(100, Duration::from_secs(1), &gate);
        let began = Instant::now();
        let mut numbers = Vec::new();
        while let Some((number, _place)) = items.next().await {
            numbers.push(number);
        }
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        assert_eq!(began.elapsed().as_secs(), 1);
        assert!(!gate.room.is_full() && gate.line().ended.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_given_up_lets_the_next_one_go_on() {
        let gate = Gate::default();
        let mut first = gate.pass(Box::pin(async {
            Place::of(65 << 20);
            std::future::pending::<()>().await;
        }));
        let _place = gate.room.within(|| Place::of(65 << 20));
        let mut second = gate.pass(Box::pin(async {}));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        drop(first);
        tokio::time::timeout(Duration::from_millis(1), second).await.expect("it is the oldest now");
    }
}
