//! The items of several lists as one stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, Fuse, SelectAll, Stream};

/// The items of lists that become known one after another. Reads nothing unless it is polled.
pub struct Interleave<S: Stream, T> {
    lists: Fuse<S>,
    open: OpenLists<T>,
}

/// The lists that are being read.
enum OpenLists<T> {
    /// At most this many lists at once; an item comes from any list that has one.
    Arrival(ListSet<T>, usize),
    /// The lists one after the other. While one list is read, the next one is started.
    Request(Option<BoxStream<'static, T>>, Option<BoxStream<'static, T>>),
}

/// Usually there is one list, which needs no queue.
struct ListSet<T> {
    only: Option<BoxStream<'static, T>>,
    more: SelectAll<BoxStream<'static, T>>,
}

impl<T> ListSet<T> {
    fn new() -> Self {
        ListSet { only: None, more: SelectAll::new() }
    }

    fn len(&self) -> usize {
        self.more.len() + usize::from(self.only.is_some())
    }

    fn push(&mut self, list: BoxStream<'static, T>) {
        if self.len() == 0 {
            self.only = Some(list);
            return;
        }
        self.more.extend(self.only.take());
        self.more.push(list);
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(only) = &mut self.only else { return self.more.poll_next_unpin(cx) };
        let polled = only.poll_next_unpin(cx);
        if let Poll::Ready(None) = polled {
            self.only = None;
        }
        polled
    }
}

/// The items in this order. With `Arrival`, at most `at_once` lists are read side by side.
pub fn interleave<S, T>(lists: S, order: Order, at_once: usize) -> Interleave<S, T>
where
    S: Stream<Item = BoxStream<'static, T>>,
{
    let open = match order {
        Order::Arrival => OpenLists::Arrival(ListSet::new(), at_once.max(1)),
        Order::Request => OpenLists::Request(None, None),
    };
    Interleave { lists: lists.fuse(), open }
}

impl<S, T> Stream for Interleave<S, T>
where
    S: Stream<Item = BoxStream<'static, T>> + Unpin,
{
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Interleave { lists, open } = &mut *self;
        match open {
            OpenLists::Arrival(open, at_once) => by_arrival(lists, open, *at_once, cx),
            OpenLists::Request(current, next) => by_request(lists, current, next, cx),
        }
    }
}

fn by_arrival<S, T>(lists: &mut Fuse<S>, open: &mut ListSet<T>, at_once: usize, cx: &mut Context<'_>) -> Poll<Option<T>>
where
    S: Stream<Item = BoxStream<'static, T>> + Unpin,
{
    loop {
        let mut more = true;
        while more && open.len() < at_once {
            match lists.poll_next_unpin(cx) {
                Poll::Ready(Some(list)) => open.push(list),
                Poll::Ready(None) | Poll::Pending => more = false,
            }
        }
        match open.poll_next(cx) {
            // Handed on as it is, because items are large.
            polled @ Poll::Ready(Some(_)) => return polled,
            // A list ended and made room for another one.
            _ if more && open.len() < at_once => {}
            Poll::Ready(None) if lists.is_done() => return Poll::Ready(None),
            _ => return Poll::Pending,
        }
    }
}

fn by_request<S, T>(
    lists: &mut Fuse<S>,
    current: &mut Option<BoxStream<'static, T>>,
    next: &mut Option<BoxStream<'static, T>>,
    cx: &mut Context<'_>,
) -> Poll<Option<T>>
where
    S: Stream<Item = BoxStream<'static, T>> + Unpin,
{
    loop {
        if next.is_none()
            && let Poll::Ready(list) = lists.poll_next_unpin(cx)
        {
            *next = list;
        }
        if current.is_none() {
            *current = next.take();
        }
        match current {
            None if lists.is_done() => return Poll::Ready(None),
            None => return Poll::Pending,
            Some(list) => match list.poll_next_unpin(cx) {
                Poll::Ready(None) => *current = None,
                polled => return polled,
            },
        }
    }
}

/// The order in which a flow gives out its outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The order in which they become ready.
    Arrival,
    /// In the order of the requests. An outcome that is ready early waits, and still counts as running.
    Request,
}

#[cfg(test)]
mod tests {
    use super::super::interleave::*;
    use futures_util::FutureExt;
    use futures_util::stream::{iter, pending};

    fn lists(of: Vec<BoxStream<'static, u32>>) -> impl Stream<Item = BoxStream<'static, u32>> + Unpin {
        iter(of)
    }

    #[test]
    fn one_that_hangs_holds_nobody_up() {
        let of = vec![pending().boxed(), iter([1, 2]).boxed(), iter([]).boxed(), iter([3]).boxed()];
        let mut items = interleave(lists(of), Order::Arrival, 2);
        let mut seen: Vec<u32> = (0..3).map(|_| items.next().now_or_never().flatten().expect("an item")).collect();
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3]);
        assert!(items.next().now_or_never().is_none(), "the one that hangs is not over");
    }

    #[test]
    fn no_more_lists_are_read_than_may_be() {
        let of = vec![pending().boxed(), pending().boxed(), iter([1]).boxed()];
        assert!(interleave(lists(of), Order::Arrival, 2).next().now_or_never().is_none());
    }

    #[test]
    fn lists_of_which_none_hangs_take_turns() {
        let of = vec![iter(0..100).boxed(), iter(100..200).boxed()];
        let items: Vec<u32> =
            interleave(lists(of), Order::Arrival, 8).take(10).collect().now_or_never().expect("at hand");
        assert!(items.iter().any(|item| *item >= 100) && items.iter().any(|item| *item < 100), "{items:?}");
    }

    #[test]
    fn the_order_of_requests_is_kept() {
        let of = vec![iter([1, 2]).boxed(), iter([]).boxed(), iter([3]).boxed()];
        let items: Vec<u32> = interleave(lists(of), Order::Request, 8).collect().now_or_never().expect("at hand");
        assert_eq!(items, [1, 2, 3]);
    }
}
