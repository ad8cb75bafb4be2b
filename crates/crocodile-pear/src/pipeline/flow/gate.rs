//! Items that wait while those before them hold many bodies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::message::body;

/// The bytes of bodies that the items of one step hold. Beyond that, only the oldest of them goes on.
const MOST: u64 = 64 << 20;

/// How long an item waits for each item before it that has not ended. It does not wait longer, because the oldest item may itself wait for
/// a place at an upstream that a later item holds.
const PATIENCE: Duration = Duration::from_secs(5);

/// The items of one step, in the order in which they began.
#[derive(Clone, Default)]
pub struct Gate(Arc<GateState>);

#[derive(Default)]
struct GateState {
    /// The bytes of their bodies.
    held: AtomicU64,
    order: Mutex<GateOrder>,
}

#[derive(Default)]
struct GateOrder {
    next: u64,
    /// The oldest item that has not ended.
    oldest: u64,
    /// The others that have ended.
    ended: BinaryHeap<Reverse<u64>>,
    waiting: Vec<Waker>,
}

impl Gate {
    /// An item behind those that have begun.
    pub fn pass<F: Future + Unpin>(&self, item: F) -> Gated<F> {
        let mut order = self.0.order();
        let number = order.next;
        order.next += 1;
        drop(order);
        Gated { item, state: self.0.clone(), number, held: 0, waits: None }
    }
}

impl GateState {
    fn order(&self) -> MutexGuard<'_, GateOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self) -> bool {
        self.held.load(Ordering::Relaxed) > MOST
    }

    fn take(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give(&self, bytes: u64) {
        if self.held.fetch_sub(bytes, Ordering::Relaxed) > MOST {
            self.wake();
        }
    }

    fn wake(&self) {
        let waiting = std::mem::take(&mut self.order().waiting);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// How many items before this one have not ended.
    fn rank(&self, number: u64) -> u64 {
        let order = self.order();
        let ended = order.ended.iter().filter(|Reverse(ended)| *ended < number).count();
        number - order.oldest - ended as u64
    }

    fn end(&self, number: u64) {
        let mut order = self.order();
        if number != order.oldest {
            order.ended.push(Reverse(number));
            return;
        }
        order.oldest += 1;
        while order.ended.peek() == Some(&Reverse(order.oldest)) {
            order.ended.pop();
            order.oldest += 1;
        }
        let wakes = !order.waiting.is_empty();
        drop(order);
        if wakes {
            self.wake();
        }
    }
}

/// An item that waits where many bodies are held and it is not the oldest.
pub struct Gated<F> {
    item: F,
    state: Arc<GateState>,
    number: u64,
    /// The bytes of bodies that it has read.
    held: u64,
    waits: Option<Pin<Box<Sleep>>>,
}

/// The bodies of an item that has ended, until its output has been used.
#[derive(Default)]
pub struct HeldBodies(Option<(Arc<GateState>, u64)>);

impl Drop for HeldBodies {
    fn drop(&mut self) {
        if let Some((state, bytes)) = self.0.take() {
            state.give(bytes);
        }
    }
}

impl<F> Gated<F> {
    fn must_wait(&mut self, cx: &mut Context<'_>) -> bool {
        let rank = self.state.rank(self.number);
        if rank == 0 {
            return false;
        }
        let longest = PATIENCE * u32::try_from(rank).unwrap_or(u32::MAX);
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(longest)));
        if waits.as_mut().poll(cx).is_ready() {
            return false;
        }
        self.state.order().waiting.push(cx.waker().clone());
        // There may be room again, or it may have become the oldest.
        self.state.is_full() && self.state.rank(self.number) > 0
    }
}

impl<F: Future + Unpin> Future for Gated<F> {
    type Output = (F::Output, HeldBodies);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.state.is_full() && self.must_wait(cx) {
            return Poll::Pending;
        }
        let before = body::read_whole();
        let polled = Pin::new(&mut self.item).poll(cx);
        let read = body::read_whole().wrapping_sub(before);
        if read > 0 {
            self.held += read;
            self.state.take(read);
        }
        polled.map(|output| {
            let held = std::mem::take(&mut self.held);
            (output, HeldBodies((held > 0).then(|| (self.state.clone(), held))))
        })
    }
}

impl<F> Drop for Gated<F> {
    fn drop(&mut self) {
        if self.held > 0 {
            self.state.give(self.held);
        }
        self.state.end(self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use futures_util::stream::{FuturesOrdered, StreamExt};
    use http_body_util::StreamBody;
    use tokio::time::Instant;

    use super::*;
    use crate::message::body::AnswerBody;

    /// A body of 20 MiB, in chunks.
    async fn read() -> usize {
        let chunk = bytes::Bytes::from(vec![b'x'; 1 << 20]);
        let chunks = futures_util::stream::iter((0..20).map(move |_| Ok(http_body::Frame::data(chunk.clone()))));
        let body = AnswerBody::Pulled(Box::pin(StreamBody::new(chunks)));
        body.collect(32 << 20).await.expect("whole").len()
    }

    /// Items that each read a body, and keep it until their output is used; the first of them then waits for so long.
    fn items(count: usize, first: Duration, gate: &Gate) -> FuturesOrdered<Gated<BoxFuture<'static, usize>>> {
        let item = |number| async move {
            assert_eq!(read().await, 20 << 20);
            if number == 0 {
                sleep(first).await;
            }
            number
        };
        (0..count).map(|number| gate.pass(item(number).boxed())).collect()
    }

    fn ended(gate: &Gate) -> usize {
        gate.0.order().ended.len()
    }

    #[tokio::test(start_paused = true)]
    async fn items_behind_one_that_hangs_do_not_fill_the_memory() {
        let gate = Gate::default();
        let mut items = items(100, Duration::from_secs(3_600), &gate);
        let began = Instant::now();
        let mut after = async |seconds| tokio::time::timeout(Duration::from_secs(seconds), items.next()).await.is_err();
        assert!(after(1).await);
        let held = || gate.0.held.load(Ordering::Relaxed) >> 20;
        assert!((65..=85).contains(&held()), "with the first one's: {}", held());
        assert_eq!(ended(&gate), 0);
        // Nobody waits for ever: one more each five seconds.
        assert!(after(10).await);
        assert_eq!((ended(&gate), began.elapsed().as_secs()), (2, 11));
        assert!(after(10).await);
        assert!((ended(&gate), held() <= 85 + 4 * 20) == (4, true), "{}", held());
    }

    #[tokio::test(start_paused = true)]
    async fn all_items_go_on_when_those_before_them_have_ended() {
        let gate = Gate::default();
        let mut items = items(100, Duration::from_secs(1), &gate);
        let began = Instant::now();
        let mut numbers = Vec::new();
        while let Some((number, _held)) = items.next().await {
            numbers.push(number);
        }
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        assert_eq!(began.elapsed().as_secs(), 1);
        assert!(gate.0.held.load(Ordering::Relaxed) == 0 && gate.0.order().ended.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_given_up_lets_the_next_one_go_on() {
        let gate = Gate::default();
        let mut first = gate.pass(std::future::pending::<()>().boxed());
        let mut last: Vec<_> = (0..4).map(|_| gate.pass(read().boxed())).collect();
        let mut second = gate.pass(async {}.boxed());
        let mut outputs = Vec::new();
        for item in &mut last {
            outputs.push(item.await);
        }
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        drop(last);
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        tokio::time::timeout(Duration::from_millis(1), second).await.expect("it is the oldest now");
        assert!(gate.0.is_full());
        drop(outputs);
        assert!(!gate.0.is_full());
    }
}
