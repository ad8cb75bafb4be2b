//! Calls over real sockets, by way of TLS, HTTP/2 and names, with real peers.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

mod call;
mod dns;
mod exchange;
mod h2;
mod record;
mod resilience;
mod tls;
mod unix;
mod upgrade;
mod words;

use crocodile_pear_peers as peers;
