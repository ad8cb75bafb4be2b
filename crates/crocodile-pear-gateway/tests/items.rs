//! APIs on a real PostgreSQL: what clients send is stored as it came or refused, what is acknowledged is there whatever happens to the
//! server, and a long list costs no memory.
//!
//! `WRITES=100000 cargo test --test gateway items::` makes so many writes where the usual number is smaller.

// What a test measures it prints.
#![allow(clippy::print_stdout)]

mod hostile;
mod killed;
mod outage;
mod rows;
