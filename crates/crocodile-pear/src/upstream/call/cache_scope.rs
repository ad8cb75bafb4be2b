//! For which client a call is made, if that affects what the cache keeps of its answer.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName};

use super::composed_part::{note, own, with_address};
use crate::cache::rules::policy::CredentialUse;
use crate::cache::{AnswerParts, AskedWith, Audience, Cache, Distinction, Entry, Identity, KeptPart, Key, Shelf};
use crate::error::Error;
use crate::message::answer::Answer;
use crate::request::context::Scope;

/// For which client a call is made, if that affects the cache.
#[derive(Clone, Default)]
pub struct CacheScope {
    /// The values that the call sends and the client did not.
    pub(crate) identity: Identity,
    /// The fields that are written in the configuration.
    pub(crate) written: Vec<HeaderName>,
    /// Whether the identity identifies the client.
    pub(crate) audience: Audience,
    pub(crate) personal: CredentialUse,
    /// Whether the call names the client's address.
    pub(crate) addressed: bool,
    pub(crate) parts: Option<Arc<AnswerParts>>,
    /// The client's fields that the call sends as they came; only for a part.
    pub(crate) forwarded: Vec<HeaderName>,
    /// Where what is given is left, if it is all that the client gets.
    pub(crate) shelf: Option<Arc<Shelf>>,
}

impl CacheScope {
    /// Notes a field that is written in the configuration.
    pub(crate) fn write(&mut self, name: &HeaderName) {
        self.written.push(name.clone());
    }

    /// Notes that the call names the client's address, and the host and the scheme that it asked for.
    pub(crate) fn name_client(&mut self, place: [&[u8]; 2]) {
        self.addressed = true;
        self.identity.add(Distinction::Host, place);
    }

    /// Notes that the call has no credentials: its answer is kept apart from those to calls that have them.
    pub(crate) fn present_nothing(&mut self) {
        self.identity.add(Distinction::Anonymous, [b""]);
    }

    /// Notes the fields, now that all are set: those that are written are part of the key, and of the client's own its
    /// credentials make the answer personal.
    pub(crate) fn note_fields(&mut self, scope: &Scope, headers: &HeaderMap) {
        let mut written = std::mem::take(&mut self.written);
        written.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        written.dedup();
        for name in &written {
            let values = headers.get_all(name).iter().map(http::HeaderValue::as_bytes);
            self.identity.add(Distinction::Field, std::iter::once(name.as_str().as_bytes()).chain(values));
        }
        (self.personal, self.forwarded) = own(scope, headers, &written, self.parts.is_some());
    }

    /// Hands the entry to the layers around, if they want it.
    pub(crate) fn put(&self, cache: &Cache, key: Option<Key>, entry: Option<Arc<Entry>>) {
        if let (Some(shelf), Some(key), Some(entry)) = (&self.shelf, key, entry) {
            shelf.put(cache.kept(key, entry));
        }
    }

    /// Notes the answer as a part of another one.
    pub(crate) fn record_part(&self, answer: &Answer, kept: Option<KeptPart<'_>>) {
        let Some(parts) = &self.parts else { return };
        let personal = with_address(self.personal, self.addressed, answer);
        let asked = AskedWith { personal: personal != CredentialUse::default(), forwarded: self.forwarded.clone() };
        note(parts, answer, (personal, &asked), kept);
    }

    /// Notes what became of a call that no cache answers as a part of another one.
    pub(crate) fn note_outcome(&self, outcome: &Result<Answer, Error>) {
        match outcome {
            Ok(answer) => self.record_part(answer, None),
            Err(_) => self.parts.iter().for_each(|parts| parts.lack()),
        }
    }
}
