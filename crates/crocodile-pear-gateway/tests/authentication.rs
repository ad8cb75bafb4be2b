//! Authentication from outside: forged tokens, keys that change, what is told and what is kept secret.

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
mod tokens;
mod upstream;
