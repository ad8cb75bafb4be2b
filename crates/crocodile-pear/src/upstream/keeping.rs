//! For which client a call is made, if that affects what the cache keeps of its answer.

use std::sync::{Arc, LazyLock};

use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, COOKIE, FORWARDED, HeaderMap, HeaderName, MAX_FORWARDS, TE, VARY, VIA,
};

use crate::cache::date::Moment;
use crate::cache::policy::{Fetched, Personal};
use crate::cache::vary::Vary;
use crate::cache::{AskedWith, Audience, Cache, Distinction, Entry, Identity, KeptPart, Key, Parts, Shelf};
use crate::error::Error;
use crate::flow::Answer;
use crate::http1::{Fields, NameSet};
use crate::scope::Scope;

/// For which client a call is made, if that affects the cache.
#[derive(Clone, Default)]
pub struct Keeping {
    /// What the call sends that the client did not.
    pub(super) identity: Identity,
    /// The fields that are written in the configuration.
    pub(super) written: Vec<HeaderName>,
    /// Whether the identity identifies the client.
    pub(super) audience: Audience,
    pub(super) personal: Personal,
    /// Whether the call names the client's address.
    pub(super) addressed: bool,
    /// The answer that it is a part of.
    pub(super) parts: Option<Arc<Parts>>,
    /// The client's fields that the call sends as they came; only for a part.
    pub(super) forwarded: Vec<HeaderName>,
    /// Where what is given is left, if it is all that the client gets.
    pub(super) shelf: Option<Arc<Shelf>>,
}

impl Keeping {
    /// Notes that the call names the client's address, and the host and the scheme that it asked for.
    pub(super) fn name_client(&mut self, place: [&[u8]; 2]) {
        self.addressed = true;
        self.identity.add(Distinction::Host, place);
    }

    /// Notes the fields, now that all are set: those that are written are part of the key, and of the client's own its
    /// credentials make the answer personal.
    pub(super) fn note_fields(&mut self, scope: &Scope, headers: &HeaderMap) {
        let mut written = std::mem::take(&mut self.written);
        written.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        written.dedup();
        for name in &written {
            let values = headers.get_all(name).iter().map(http::HeaderValue::as_bytes);
            self.identity.add(Distinction::Field, std::iter::once(name.as_str().as_bytes()).chain(values));
        }
        let own = |name: &HeaderName| headers.contains_key(name) && !written.contains(name);
        let checked = scope.facts().credentials().is_some_and(|checked| checked.headers.iter().any(own));
        self.personal.authorization = own(&AUTHORIZATION) || checked || !scope.facts().granted().is_empty();
        self.personal.cookie = own(&COOKIE);
        if self.parts.is_some() {
            let own = |name: &&HeaderName| own(name) && scope.headers().contains_key(*name) && !is_neutral(name);
            self.forwarded = headers.keys().filter(own).cloned().collect();
        }
    }

    /// Hands the entry to the layers around, if they want it.
    pub(super) fn leave(&self, cache: &Cache, key: Option<Key>, entry: Option<Arc<Entry>>) {
        if let (Some(shelf), Some(key), Some(entry)) = (&self.shelf, key, entry) {
            shelf.leave(cache.kept(key, entry));
        }
    }

    /// Notes the answer as a part of another one.
    pub(super) fn note_kept(&self, answer: &Answer, kept: Option<KeptPart<'_>>) {
        let Some(parts) = &self.parts else { return };
        let now = Moment::now();
        let fetched = Fetched { asked: now, came: now };
        let personal = Personal { address: self.addressed && varies_by_address(&answer.headers), ..self.personal };
        let asked = AskedWith { personal: personal != Personal::default(), forwarded: self.forwarded.clone() };
        parts.note(answer.status, &answer.headers, (personal, &asked), kept, fetched);
    }

    /// Notes what became of a call that no cache answers as a part of another one.
    pub(super) fn note_outcome(&self, outcome: &Result<Answer, Error>) {
        match outcome {
            Ok(answer) => self.note_kept(answer, None),
            Err(_) => self.parts.iter().for_each(|parts| parts.lack()),
        }
    }
}

/// Whether a field says nothing that an answer depends on but where it says so: codings are undone where an answer is read, and
/// `via` and traces are about the way of the request.
fn is_neutral(name: &HeaderName) -> bool {
    [ACCEPT_ENCODING, VIA, TE, MAX_FORWARDS].contains(name) || matches!(name.as_str(), "traceparent" | "tracestate")
}

/// Whether an answer depends on the client's address. The caches around see other fields than the call had.
fn varies_by_address(headers: &Fields) -> bool {
    static VARYING: LazyLock<NameSet> = LazyLock::new(|| NameSet::of([VARY]));
    let names = |name: &HeaderName| *name == FORWARDED || name.as_str() == "x-forwarded-for";
    // Most answers need not be read for it.
    headers.has_any(&VARYING) && matches!(Vary::of(headers), Vary::On(varied) if varied.iter().any(names))
}
