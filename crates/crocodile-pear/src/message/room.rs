//! The bytes of bodies that the items of one request hold at the same time.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use bytes::Bytes;

/// The bytes of bodies of one request. Beyond that, only the oldest of its items goes on.
const MOST: usize = 64 << 20;

/// A smaller body is not counted.
const COUNTED: usize = 64 << 10;

/// The bodies of the items that go through one step.
#[derive(Default)]
pub struct Room {
    held: AtomicUsize,
    waiting: Mutex<Vec<Waker>>,
}

thread_local! {
    /// The room of the item that is polled.
    static CURRENT: RefCell<Option<Arc<Room>>> = const { RefCell::new(None) };
}

impl Room {
    /// Does something for an item: the bodies that it reads have their places here.
    pub fn within<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        struct Outer(Option<Arc<Room>>);

        impl Drop for Outer {
            fn drop(&mut self) {
                CURRENT.replace(self.0.take());
            }
        }

        let _outer = Outer(CURRENT.replace(Some(self.clone())));
        work()
    }

    pub fn is_full(&self) -> bool {
        self.held.load(Ordering::Relaxed) > MOST
    }

    /// Wakes a task when there may be room again.
    pub fn wait(&self, waker: &Waker) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(waker.clone());
    }

    /// Wakes all that wait.
    pub fn wake(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// The place of a body in the room of its item, if it has one.
#[derive(Default)]
pub struct Place {
    room: Option<Arc<Room>>,
    bytes: usize,
}

impl Place {
    /// A place in the room of the item that is polled.
    pub fn here() -> Self {
        Place { room: CURRENT.with_borrow(Clone::clone), bytes: 0 }
    }

    /// The place of a text that is whole, which needs none if it is short.
    pub fn of(length: usize) -> Self {
        if length < COUNTED {
            return Place::default();
        }
        let mut place = Place::here();
        place.grow_to(length);
        place
    }

    /// Makes it large enough for so many bytes.
    pub fn grow_to(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.bytes);
        if let (Some(room), true) = (&self.room, more > 0) {
            room.held.fetch_add(more, Ordering::Relaxed);
            self.bytes += more;
        }
    }

    /// The same bytes, which have this place as long as any part of them is used.
    pub fn keep(mut self, bytes: Bytes) -> Bytes {
        struct Kept(Bytes, #[expect(dead_code)] Place);

        impl AsRef<[u8]> for Kept {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        self.grow_to(bytes.len());
        if self.bytes < COUNTED { bytes } else { Bytes::from_owner(Kept(bytes, self)) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(room) = &self.room else { return };
        if self.bytes > 0 && room.held.fetch_sub(self.bytes, Ordering::Relaxed) > MOST {
            room.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_their_place_as_long_as_they_are_used() {
        let room = Arc::new(Room::default());
        let held = || room.held.load(Ordering::Relaxed);
        let kept = room.within(|| Place::here().keep(vec![7; 1 << 20].into()));
        let part = kept.slice(5..9);
        drop(kept);
        assert_eq!((held(), &part[..]), (1 << 20, &[7; 4][..]));
        drop(part);
        assert_eq!(held(), 0);
        let text = room.within(|| (Place::of(MOST), Place::of(COUNTED - 1), Place::of(COUNTED)));
        assert_eq!((held(), room.is_full()), (MOST + COUNTED, true));
        drop(text);
        assert!(held() == 0 && !room.is_full());
        let _nobodys = Place::of(MOST);
        assert_eq!(held(), 0, "outside of items nothing is counted");
    }

    #[test]
    fn an_item_within_an_item_is_counted_for_itself() {
        let (outer, inner) = (Arc::new(Room::default()), Arc::new(Room::default()));
        let places = outer.within(|| (inner.within(|| Place::of(COUNTED)), Place::of(2 * COUNTED)));
        let held = [&inner, &outer].map(|room| room.held.load(Ordering::Relaxed));
        assert_eq!(held, [COUNTED, 2 * COUNTED]);
        drop(places);
    }
}
