//! Answers that are kept: one call for many, and nothing for anybody else.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

mod composed;
mod copies;
mod crowd;
mod downstream;
mod fields;
mod identities;
mod keys;
mod once;
mod personal;
mod strangers;
use crocodile_pear_stage as stage;
