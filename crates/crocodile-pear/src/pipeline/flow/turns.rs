//! A long list in turns: other requests of the core go on while it is read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::Stream;
use futures_util::task::AtomicWaker;

use crate::{offload, runtime};

/// The bytes of items of one turn: a few milliseconds of work.
const TURN: u64 = 256 << 10;

/// The bytes that an item counts beside its own: one without any costs that much.
const ITEM: u64 = 128;

/// The bytes of the items that were read in this turn. The step that makes an item counts it: to look at the item later would copy it.
#[derive(Clone, Default)]
pub struct ReadBytes(Arc<AtomicU64>);

impl ReadBytes {
    /// Counts an item.
    pub fn add(&self, length: u64) {
        // Two operations are enough, because one task reads all lists of a step.
        self.0.store(self.0.load(Ordering::Relaxed).saturating_add(ITEM.saturating_add(length)), Ordering::Relaxed);
    }
}

/// Items that may all be at hand. A step behind may drop every one of them, so that nothing else would end the turn.
pub struct Turns<S> {
    items: S,
    read: ReadBytes,
    /// The units that had been spent on this core when the turn began.
    spent: u64,
    rest: Option<Arc<Rest>>,
}

/// The time in which others have their turn. It ends when the runtime has been at its sockets, not when the list is asked again:
/// what its items become is at hand, too, and makes its consumer ask at once.
#[derive(Default)]
struct Rest {
    over: AtomicBool,
    waker: AtomicWaker,
}

impl Wake for Rest {
    fn wake(self: Arc<Self>) {
        self.over.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Rest {
    fn begin() -> Arc<Self> {
        let rest = Arc::new(Rest::default());
        runtime::wake_after_sockets(&Waker::from(rest.clone()));
        rest
    }

    fn is_over(&self, cx: &mut Context<'_>) -> bool {
        self.waker.register(cx.waker());
        self.over.load(Ordering::Acquire)
    }
}

/// The same items, in turns; `read` counts them.
pub fn turns<S: Stream + Unpin>(items: S, read: ReadBytes) -> Turns<S> {
    Turns { items, read, spent: offload::spent(), rest: None }
}

impl<S> Turns<S> {
    /// Whether other requests have their turn now.
    fn rests(&mut self, cx: &mut Context<'_>) -> bool {
        if self.rest.is_none()
            && (self.read.0.load(Ordering::Relaxed) >= TURN
                || offload::spent().wrapping_sub(self.spent) >= offload::TURN_UNITS)
        {
            self.rest = Some(Rest::begin());
        }
        match &self.rest {
            Some(rest) if !rest.is_over(cx) => return true,
            Some(_) => {
                self.read.0.store(0, Ordering::Relaxed);
                (self.rest, self.spent) = (None, offload::spent());
            }
            None => {}
        }
        false
    }
}

impl<S: Stream + Unpin> Stream for Turns<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        if self.rests(cx) {
            return Poll::Pending;
        }
        Pin::new(&mut self.items).poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures_util::{StreamExt, stream};

    use super::*;
    use crate::runtime::beside;

    /// How often another task has its turn while a list of so many items of so many bytes is read, all at hand and all dropped.
    async fn turns_of_others(count: usize, length: u64) -> usize {
        let read = ReadBytes::default();
        let items = stream::iter(0..count).inspect({
            let read = read.clone();
            move |_| read.add(length)
        });
        // As steps do it: what an item becomes is at hand when the list is asked for the next one.
        let made = turns(items, read).map(|item| async move { item }).buffer_unordered(512);
        let (none, turns) = beside(made.filter(|_| ready(false)).count()).await;
        assert_eq!(none, 0);
        turns
    }

    #[tokio::test]
    async fn others_have_their_turn_while_expressions_work_on_few_bytes() {
        let read = ReadBytes::default();
        let work = |item: usize| {
            let units = || {
                (0..9_000).for_each(|_| offload::charge(1));
                Ok(item)
            };
            offload::evaluate(10_000, 0, units).expect("within its budget")
        };
        let (items, turns) = beside(turns(stream::iter(0..1_000), read).map(work).count()).await;
        assert!((items, turns >= 1_000 * 9_000 / 100_000 / 2) == (1_000, true), "{turns}");
    }

    #[tokio::test]
    async fn others_have_their_turn_while_a_long_list_is_read() {
        let (short, long) = (turns_of_others(500, 0).await, turns_of_others(1_000_000, 0).await);
        assert!(short < 10 && long > 400, "{short} {long}");
        let large = turns_of_others(1_000, 64 << 10).await;
        assert!(large > 200, "{large}");
    }
}
