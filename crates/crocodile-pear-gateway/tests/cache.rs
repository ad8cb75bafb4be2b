//! Answers that are kept: one call for many, and nothing for anybody else.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

#[path = "cache/composed.rs"]
mod composed;
#[path = "cache/copies.rs"]
mod copies;
#[path = "cache/crowd.rs"]
mod crowd;
#[path = "cache/fields.rs"]
mod fields;
#[path = "cache/identities.rs"]
mod identities;
#[path = "cache/scene.rs"]
mod scene;
use crocodile_pear_stage as stage;
