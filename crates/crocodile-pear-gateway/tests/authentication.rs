//! Authentication from outside: forged tokens, keys that change, what is told and what is kept secret.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

#[path = "authentication/asked.rs"]
mod asked;
#[path = "authentication/forged.rs"]
mod forged;
#[path = "authentication/issuer.rs"]
mod issuer;
#[path = "authentication/keys.rs"]
mod keys;
#[path = "authentication/passwords.rs"]
mod passwords;
#[path = "authentication/scene.rs"]
mod scene;
#[path = "authentication/secrets.rs"]
mod secrets;
use crocodile_pear_stage as stage;
#[path = "authentication/tokens.rs"]
mod tokens;
#[path = "authentication/upstream.rs"]
mod upstream;
