//! The way to another machine: URLs, TLS, protocols.
//!
//! - `url`: where an address leads, and whether it crosses a network in clear. `protocol`: HTTP/1.1 or HTTP/2.
//! - `tls`: client settings, certificates and why one is refused. `connect_error`: why there is no connection.
//!
//! Uses `config` and `runtime`. Begin at `tls`.
//!
//! Invariants: a server whose certificate is not trusted is sent nothing.

pub(crate) mod connect_error;
pub mod protocol;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(not(feature = "tls"))]
#[path = "net/tls/absent.rs"]
pub mod tls;
pub mod url;
