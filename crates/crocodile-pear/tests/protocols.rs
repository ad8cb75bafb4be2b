//! Calls by way of TLS, HTTP/2 and names, with real peers.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

#[path = "protocols/authority.rs"]
mod authority;
#[path = "protocols/call.rs"]
mod call;
#[path = "protocols/dns.rs"]
mod dns;
#[path = "protocols/h2.rs"]
mod h2;
#[path = "protocols/tls.rs"]
mod tls;
#[path = "protocols/unix.rs"]
mod unix;
#[path = "protocols/upgrade.rs"]
mod upgrade;
