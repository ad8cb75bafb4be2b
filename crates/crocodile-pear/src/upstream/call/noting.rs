//! The facts about a call that caches must know: none, that its answer is a part of another one, or for which client it is made.

use http::header::HeaderName;

use super::cache_scope::CacheScope;
use super::composed_part::{ComposedPart, PartFields};

/// The facts about a call that caches must know, while its fields are set.
pub(crate) enum Noting {
    /// No facts: its answer is not kept, and is no part of another one.
    Off,
    /// Its answer is a part of another one, and no cache of its upstream keeps it.
    Part(PartFields),
    /// Its upstream has a cache. Boxed: most have none.
    Kept(Box<CacheScope>),
}

impl Noting {
    /// Notes a field that is written in the configuration.
    pub(crate) fn write(&mut self, name: &HeaderName) {
        match self {
            Noting::Off => {}
            Noting::Part(part) => part.written.push(name.clone()),
            Noting::Kept(keeping) => keeping.write(name),
        }
    }

    /// Notes that the call names the client's address, and the host and the scheme that it asked for.
    pub(crate) fn name_client(&mut self, place: [&[u8]; 2]) {
        match self {
            Noting::Off => {}
            Noting::Part(part) => part.addressed = true,
            Noting::Kept(keeping) => keeping.name_client(place),
        }
    }

    /// Notes that the call has no credentials: its answer is kept apart from those to calls that have them.
    pub(crate) fn present_nothing(&mut self) {
        if let Noting::Kept(keeping) = self {
            keeping.present_nothing();
        }
    }
}

/// The same, now that the fields are set.
#[derive(Clone, Default)]
pub enum ForCaches {
    /// No facts.
    #[default]
    Nothing,
    /// Its answer is a part of another one, and no cache of its upstream keeps it.
    Part(ComposedPart),
    Kept(Box<CacheScope>),
}

impl ForCaches {
    /// The part that the answer is, if no cache notes it.
    pub(crate) fn take_part(&mut self) -> Option<ComposedPart> {
        match std::mem::take(self) {
            ForCaches::Part(part) => Some(part),
            other => {
                *self = other;
                None
            }
        }
    }
}
