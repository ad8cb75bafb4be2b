//! A kept answer, as it was given for a request: finds and makes its compressed copies.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::encoded_copies::Copy;
use super::entry::Entry;
use super::shared_body::{BodyWriter, SharedBody};
use super::{Reservation, Store};
use crate::cache::rules::key::Key;
use crate::message::body::AnswerBody;

/// A kept answer, as it was given for one request.
pub struct Kept {
    store: Arc<Store>,
    key: Key,
    entry: Arc<Entry>,
}

/// A copy that is being made. If it is dropped before its end, it is discarded, and another may begin.
pub struct Making {
    kept: Kept,
    coding: &'static str,
    body: SharedBody,
    writer: BodyWriter,
    /// `None` if there is no room for it.
    room: Option<Reservation>,
    written: u64,
}

/// The memory of a piece of a body, besides its bytes.
const PIECES: usize = 32;

impl Kept {
    /// This entry, as it was found under this key.
    pub(crate) fn new(store: Arc<Store>, key: Key, entry: Arc<Entry>) -> Self {
        Kept { store, key, entry }
    }

    pub fn is_all_of(&self, body: &AnswerBody) -> bool {
        match body {
            AnswerBody::Bytes(bytes) => self.entry.body.whole().is_some_and(|kept| kept.as_ptr() == bytes.as_ptr()),
            // A body that a step made is never pulled if its length is known.
            AnswerBody::Pulled(pulled) => {
                pulled.size_hint().exact().is_some_and(|has| self.entry.body.length() == Some(has))
            }
            _ => false,
        }
    }

    pub fn copy(&self, coding: &str) -> Option<Copy> {
        let copy = self.entry.copies.find(coding)?;
        if let Copy::Made(_) = copy {
            self.store.count_copied();
        }
        Some(copy)
    }

    /// Begins a copy; `None` if another one is being made, or the body is not kept.
    pub fn begin(&self, coding: &'static str) -> Option<Making> {
        if !self.entry.body.is_complete() || !self.entry.copies.begin(coding) {
            return None;
        }
        let (body, writer) = SharedBody::arriving(None);
        let kept = Kept { store: self.store.clone(), key: self.key.clone(), entry: self.entry.clone() };
        let room = Some(Reservation::new(self.store.clone()));
        Some(Making { kept, coding, body, writer, room, written: 0 })
    }
}

impl Making {
    /// The next bytes of it. What finds no room is not kept.
    pub fn push(&mut self, bytes: &Bytes) {
        let Some(room) = &mut self.room else { return };
        self.written += bytes.len() as u64;
        if room.grow(bytes.len() + bytes.len() / PIECES) {
            return self.writer.push(bytes.clone());
        }
        // The written bytes are freed at once, not when the client has read them.
        (self.body, self.writer) = SharedBody::arriving(None);
        self.room = None;
    }

    /// The last of it has come. It is kept if the body is still kept.
    pub fn finish(mut self, trailers: Option<HeaderMap>) {
        let Some(room) = self.room.take() else { return };
        let (body, writer) = SharedBody::arriving(None);
        let writer = std::mem::replace(&mut self.writer, writer);
        let body = std::mem::replace(&mut self.body, body);
        writer.finish(trailers);
        let smaller = self.kept.entry.body.length().is_some_and(|length| self.written < length);
        let copy = if smaller { Copy::Made(body) } else { Copy::Useless };
        let Kept { store, key, entry } = &self.kept;
        store.keep_copy(key, entry, self.coding, copy, room);
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.kept.entry.copies.give_up(self.coding);
    }
}
