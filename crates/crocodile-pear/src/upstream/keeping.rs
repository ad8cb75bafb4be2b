//! For which client a call is made, if that affects what the cache keeps of its answer.

use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE, FORWARDED, HeaderMap, HeaderName, HeaderValue, VIA};

use crate::cache::date::Moment;
use crate::cache::policy::{Fetched, Personal};
use crate::cache::{Cache, Entry, Key, Parts, Shelf};
use crate::flow::Answer;
use crate::scope::Scope;

/// For which client a call is made, if that affects the cache.
#[derive(Clone, Default)]
pub struct Keeping {
    /// What the call sends that the client did not.
    pub(super) identity: Vec<u8>,
    /// Whether the identity identifies the client.
    pub(super) private: bool,
    pub(super) personal: Personal,
    /// The answer that it is a part of.
    pub(super) parts: Option<Arc<Parts>>,
    /// Where what is given is left, if it is all that the client gets.
    pub(super) shelf: Option<Arc<Shelf>>,
}

/// Fields of one hop. Answers do not depend on them, or declare it with `vary`.
pub(super) const OF_A_HOP: [HeaderName; 6] = [
    VIA,
    FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("x-request-id"),
];

impl Keeping {
    pub(super) fn add(&mut self, part: &[u8]) {
        self.identity.extend_from_slice(&(part.len() as u64).to_le_bytes());
        self.identity.extend_from_slice(part);
    }

    /// Notes a field of the call. The client's own are for `vary`, but for its credentials; the others are of the key.
    pub(super) fn note(&mut self, scope: &Scope, name: &HeaderName, headers: &HeaderMap) {
        let same = headers.get_all(name).iter().eq(scope.headers().get_all(name).iter());
        match *name {
            AUTHORIZATION if same => self.personal.authorization = true,
            COOKIE if scope.headers().contains_key(COOKIE) => self.personal.cookie = true,
            _ if same => {}
            _ => {
                self.add(name.as_str().as_bytes());
                headers.get_all(name).iter().for_each(|value| self.add(value.as_bytes()));
            }
        }
    }
}

/// The host and the protocol in `forwarded`, without the client.
pub(super) fn asked_place(forwarded: &HeaderValue) -> String {
    let text = forwarded.to_str().unwrap_or_default();
    let last = text.rsplit(',').next().unwrap_or_default();
    let place = |part: &&str| part.trim_start().starts_with("host=") || part.trim_start().starts_with("proto=");
    last.split(';').filter(place).collect::<Vec<_>>().join(";")
}

impl Keeping {
    /// Hands the entry to the layers around, if they want it.
    pub(super) fn leave(&self, cache: &Cache, key: Option<Key>, entry: Option<Arc<Entry>>) {
        if let (Some(shelf), Some(key), Some(entry)) = (&self.shelf, key, entry) {
            shelf.leave(cache.kept(key, entry));
        }
    }

    /// Notes the answer as a part of another one.
    pub(super) fn note_kept(&self, answer: &Answer, entry: Option<&Entry>) {
        let Some(parts) = &self.parts else { return };
        let now = Moment::now();
        let fetched = Fetched { asked: now, came: now };
        parts.note(answer.status, &answer.headers, self.personal, entry, fetched);
    }
}
