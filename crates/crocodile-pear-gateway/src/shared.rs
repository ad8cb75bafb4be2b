//! State that several gateways share, and state that a reload keeps.
//!
//! - `redis`: a Redis server, its TLS and connections. `redis_tier`: the second tier of caches, and shared limits.
//! - `events`: messages of PostgreSQL and Redis that something has changed. `purge`, `purge_log`: what is purged, here
//!   and by others.
//! - `persistent_state`: counters, caches and files that outlive a reload.
//!
//! Uses `telemetry`. Begin at `redis_tier`.
//!
//! Invariants: a request waits for a store at most as long as is configured; a store that is away costs no more.

pub mod events;
pub mod persistent_state;
pub mod purge;
pub(crate) mod purge_log;
pub(crate) mod redis;
pub(crate) mod redis_tier;
