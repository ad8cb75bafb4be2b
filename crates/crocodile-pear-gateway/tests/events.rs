//! Events of a real PostgreSQL and a real Redis: what they say has changed is not given out any more.
//!
//! `EVENTS=10000 cargo test --test gateway events::` makes so many updates where the usual number is smaller.

// What a test measures it prints.
#![allow(clippy::print_stdout)]

mod connections;
use crocodile_pear_stage::database;
mod shop;
mod soak;
mod trigger;
mod updates;
