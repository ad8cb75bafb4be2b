//! APIs on a real PostgreSQL: what clients send is stored as it came or refused, what is acknowledged is there whatever happens to the
//! server, and a long list costs no memory.
//!
//! `WRITES=100000 cargo test --test items` makes so many writes where the usual number is smaller.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test measures it prints.
#![allow(clippy::print_stdout)]

mod hostile;
mod killed;
mod outage;
mod rows;
use crocodile_pear_stage as stage;

use crocodile_pear_demo::postgres::{Failure, Postgres};

/// A PostgreSQL of the test's own; nothing, where none is installed.
fn postgres(settings: &[&str]) -> Option<Postgres> {
    let usual = ["fsync=off", "log_min_messages=fatal"];
    match Postgres::start(&[&usual[..], settings].concat()) {
        Ok(postgres) => Some(postgres),
        Err(Failure::Failed(why)) => panic!("PostgreSQL does not start: {why}"),
        Err(Failure::Missing) => {
            println!("skipped: install postgresql to run this test");
            assert!(std::env::var_os("CI").is_none(), "nothing is skipped in CI");
            None
        }
    }
}
