//! Upstreams that fail, stall, close and come back, behind the real binary: what clients see of it.
//!
//! `OUTAGES=20 cargo test --test gateway outages::` makes every load twenty times as long.

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
mod tls;
mod waiting;
