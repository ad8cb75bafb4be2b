//! The tests of the gateway from outside: with real sockets, real servers and the program itself. Each module tests one part.
//! `cargo test -p crocodile-pear-gateway --test gateway cache::` runs the tests of one.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

mod access;
mod acme;
mod amounts;
mod analytics;
mod answers;
mod attempts;
mod authentication;
mod bytes;
mod cache;
mod choices;
mod cli;
mod clients;
mod codings;
mod contrib;
mod databases;
mod detached;
mod documents;
mod events;
mod examples;
mod faults;
mod files;
mod handover;
mod http2;
mod identities;
mod items;
mod krakend;
mod matrix;
mod metrics;
mod mutations;
mod nginx;
mod operators;
mod outages;
mod page;
mod probe;
mod reload;
mod server;
mod store;
mod tls;
mod traces;
mod trust;
mod unix;
mod upgrade;

use crocodile_pear_stage as stage;
