//! HTTP as clients of a gateway see it, without its layers.
//!
//! - `route`: hosts and paths, and which endpoint a request is for. `version`: which version of an API it asks for.
//! - `response`: the one place that makes a response of an answer or an error. `compress`: its coding on the way out.
//! - `upgrade`: connections that change their protocol.
//!
//! Uses `server`. Begin at `route`, then `response`.
//!
//! Invariants: every error becomes a problem document here, with a status from the library's one table.

pub mod compress;
pub mod response;
pub(crate) mod route;
pub mod upgrade;
pub mod version;
