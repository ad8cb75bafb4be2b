//! Resources that clients may use up: descriptors, memory, the time of a core. Other clients are served on.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test measures it prints.
#![allow(clippy::print_stdout)]

mod descriptors;
mod resets;
mod schemas;
mod validation;

use crocodile_pear_stage as stage;
