//! Upstreams that fail, stall, close and come back, behind the real binary: what clients see of it.
//!
//! `OUTAGES=20 cargo test --test outages` makes every load twenty times as long.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

mod closing;
mod ends;
mod limits;
mod load;
mod long;
mod loops;
mod names;
mod scene;
mod services;
mod several;
mod shared;
mod slow;
use crocodile_pear_stage as stage;
mod tls;
