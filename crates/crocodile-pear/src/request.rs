//! A client's request, as expressions and steps see it.
//!
//! - `context`: the request with its deadline and what layers keep. `facts`: client, claims, route.
//! - `body`: the client's body, read at most once, within a bound. `credentials`: what the gateway has checked.
//! - `fetch_memo`: what was fetched for this request, so that one link is one call.
//!
//! Uses `jq` and `message`. Begin at `context`.
//!
//! Invariants: the body is not touched until an expression or a call needs it.
//! Bounds: `max_body` of the endpoint, where the body is read whole.

pub(crate) mod body;
pub mod context;
pub mod credentials;
pub mod facts;
pub mod fetch_memo;
