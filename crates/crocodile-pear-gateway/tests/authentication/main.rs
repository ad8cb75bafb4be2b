//! Authentication from outside: forged tokens, keys that change, what is told and what is kept secret.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test skips it prints.
#![allow(clippy::print_stdout)]

mod asked;
mod deciding;
mod forged;
mod issuer;
mod keys;
mod passwords;
mod scene;
mod secrets;
mod sso;
use crocodile_pear_stage as stage;
mod tokens;
mod upstream;
