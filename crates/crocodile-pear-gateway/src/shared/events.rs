//! `events`: messages of a database or of Redis that say what has changed. What the cache holds of it is not given out any
//! more.
//!
//! `postgres` and `redis` listen, `reaction` says what of the cache a message means, `trust` what holds while nobody
//! listens, and `follow` keeps listening, over lost connections and over reloads.

mod follow;
mod postgres;
mod reaction;
mod redis;
mod source;
pub mod trigger;
mod trust;

pub use self::follow::EventSources;
pub use self::source::{EventSource, EventSourceSpec, compile};
