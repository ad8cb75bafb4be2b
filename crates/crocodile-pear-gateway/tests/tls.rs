//! TLS with clients, through the real binary.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]

#[allow(dead_code, reason = "the library's tests use the rest")]
#[path = "../../crocodile-pear/tests/protocols/authority.rs"]
mod authority;
#[path = "tls/clients.rs"]
mod clients;
#[path = "tls/listeners.rs"]
mod listeners;
#[path = "tls/names.rs"]
mod names;
#[path = "tls/proxies.rs"]
mod proxies;
#[path = "tls/refusals.rs"]
mod refusals;
#[path = "tls/scene.rs"]
mod scene;
#[path = "tls/sessions.rs"]
mod sessions;
use crocodile_pear_stage as stage;
#[path = "tls/swaps.rs"]
mod swaps;
