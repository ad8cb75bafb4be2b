//! The cache in use: one call for many requests, answers from the store, refreshes.
//!
//! - `cache`: a cache with its rules. `front`: who is asked for, and which answers depend on the client.
//! - `lookup`: answers from what is stored. `request_coalescing`: one call for equal requests at the same time.
//! - `fetch_task`: the call, which goes on when the client that began it leaves. `spec`: the settings.
//!
//! Uses `cache::rules` and `cache::store`. Begin at `cache::Cache`.
//!
//! Invariants: an answer for one client is never given to another; a waiter that leaves takes nothing with it.

pub mod cache;
pub(crate) mod fetch_task;
pub mod front;
pub(crate) mod lookup;
pub(crate) mod request_coalescing;
pub(crate) mod silence;
pub mod spec;
