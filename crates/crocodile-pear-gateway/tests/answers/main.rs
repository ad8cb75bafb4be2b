//! Answers that are made of several: what they say of themselves, and what becomes of the parts that failed.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

mod errors;
use crocodile_pear_stage as stage;
