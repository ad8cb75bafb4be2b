//! The listeners, as written and checked.
//!
//! - `spec`: addresses, TLS and ACME of the listeners for clients. `admin_spec`: the listener for operators.
//! - `certificate_watch`: the files of certificates, read again when they change.
//!
//! Uses `net`, `config`, `runtime` and `server`. Begin at `spec`.
//!
//! Invariants: a certificate that does not fit its key is refused when it is read, never when a client comes.

pub mod admin_spec;
pub(crate) mod certificate_watch;
pub mod spec;
