//! Calls by way of TLS, HTTP/2 and names, with real peers.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

mod call;
mod dns;
mod h2;
mod tls;
mod unix;
mod upgrade;

use crocodile_pear_peers as peers;
