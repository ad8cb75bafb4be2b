//! The answers that move between steps: a head and a body that is pulled.
//!
//! - `answer`: a head, a body, and what is known beside them. `body`: bytes, JSON or a stream. `names`: what later
//!   expressions may use.
//! - `side_channel`: what a proxied request has beside its body: interim answers, upgrades, trailers.
//! - `xml_lists`: the elements of XML that are lists also with one item.
//!
//! Uses `http` and `json`. Begin at `answer::Answer`.
//!
//! Invariants: nothing is read before somebody polls for it; dropping a body cancels its source.

pub mod answer;
pub mod body;
pub mod names;
pub mod side_channel;
pub mod xml_lists;
