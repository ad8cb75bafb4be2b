//! Upstreams that fail, stall, close and come back, behind the real binary: what clients see of it.
//!
//! `OUTAGES=20 cargo test --test outages` makes every load twenty times as long.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "the library's tests use the rest")]
#[path = "../../crocodile-pear/tests/protocols/authority.rs"]
mod authority;
#[path = "outages/closing.rs"]
mod closing;
#[path = "outages/limits.rs"]
mod limits;
#[path = "outages/load.rs"]
mod load;
#[path = "outages/long.rs"]
mod long;
#[path = "outages/loops.rs"]
mod loops;
#[path = "outages/names.rs"]
mod names;
#[path = "outages/scene.rs"]
mod scene;
#[path = "outages/server.rs"]
mod server;
#[path = "outages/services.rs"]
mod services;
#[path = "outages/several.rs"]
mod several;
#[path = "outages/shared.rs"]
mod shared;
#[path = "outages/slow.rs"]
mod slow;
use crocodile_pear_stage as stage;
#[path = "outages/tls.rs"]
mod tls;
