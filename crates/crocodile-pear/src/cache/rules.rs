//! The rules of HTTP caching (RFC 9111) as functions of a request and an answer.
//!
//! - `control`, `policy`: what fields say, and whether and for how long an answer may be kept.
//! - `key`, `vary`, `methods`: which requests are equal. `range`: parts of an answer. `tags`: the tags by which a purge finds an answer.
//! - `cache_status`: the field that tells what a cache did (RFC 9211).
//!
//! Only stored answers need `methods`, `range` and `cache_status`; a build without the cache leaves them out.
//!
//! Uses `http` and `message`, and no store. Begin at `policy`.
//!
//! Invariants: no clock is read here, and nothing waits: the moment is an argument.

#[cfg(feature = "cache")]
pub mod cache_status;
pub mod control;
pub mod key;
#[cfg(feature = "cache")]
pub mod methods;
pub mod policy;
#[cfg(feature = "cache")]
pub mod range;
pub mod tags;
pub mod vary;
