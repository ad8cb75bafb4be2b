//! The header fields of a call, and whose they are: that decides for which clients its answer is kept.

use std::ops::Deref;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::noting::Noting;
use crate::http::loop_detection;

/// The header fields of a call. A field is set by where it comes from, so that none gets past the key of the answer by its name or
/// by its value: what the configuration adds is part of the key, and the client's own fields are for `vary`.
pub struct CallFields {
    headers: HeaderMap,
    noting: Noting,
}

impl Deref for CallFields {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        &self.headers
    }
}

impl CallFields {
    /// The client's own fields, as they came. An answer says with `vary` whether it depends on them.
    pub(crate) fn of_client(headers: HeaderMap, noting: Noting) -> Self {
        CallFields { headers, noting }
    }

    /// Sets a field that is written in the configuration, or leaves it out. It is part of the key, whatever its name and its
    /// value.
    pub fn write(&mut self, name: &HeaderName, value: Option<HeaderValue>) {
        match value {
            Some(value) => drop(self.headers.insert(name, value)),
            None => drop(self.headers.remove(name)),
        }
        self.noting.write(name);
    }

    /// Adds a field of the client's, as it came, unless the call has one of that name.
    pub fn hand_on(&mut self, name: &HeaderName, client: &HeaderMap) {
        if self.headers.contains_key(name) {
            return;
        }
        for value in client.get_all(name) {
            self.headers.append(name, value.clone());
        }
    }

    /// Leaves out a field, for all clients.
    pub fn leave_out(&mut self, name: &HeaderName) {
        self.headers.remove(name);
    }

    /// Hands on the gateways that the client's request came through, as it says itself.
    pub(crate) fn hand_on_way(&mut self, client: &HeaderMap) {
        loop_detection::hand_on(client, &mut self.headers);
    }

    /// Names the client, the host and the scheme that it asked for in fields of the gateway's own. Host and scheme are part of
    /// the key. The address is not: hardly any answer depends on it, and one that does says so with `vary`.
    pub(crate) fn name_client(
        &mut self,
        fields: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        place: [&[u8]; 2],
    ) {
        for (name, value) in fields {
            self.headers.insert(name, value);
        }
        self.noting.name_client(place);
    }

    /// Notes that the call has no credentials: its answer is kept apart from those to calls that have them.
    pub(crate) fn present_nothing(&mut self) {
        self.noting.present_nothing();
    }

    /// Takes the notes about them for a cache.
    pub(crate) fn take_noting(&mut self) -> Noting {
        std::mem::replace(&mut self.noting, Noting::Off)
    }

    pub fn into_map(self) -> HeaderMap {
        self.headers
    }
}
