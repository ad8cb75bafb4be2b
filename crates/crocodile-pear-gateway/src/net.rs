//! Addresses of machines: where to listen, which networks there are, who a client is.
//!
//! - `address`: an address to listen at, as written. `cidr`: networks, and who is in one.
//! - `trusted_proxies`: the address of a client behind proxies that are trusted.
//!
//! Uses the library alone. Begin at `trusted_proxies`.
//!
//! Invariants: a field of a client that is not trusted never becomes an address.

pub mod address;
pub(crate) mod cidr;
pub(crate) mod trusted_proxies;
