//! Authentication from outside: forged tokens, keys that change, what is told and what is kept secret.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

#[path = "authentication/forged.rs"]
mod forged;
#[path = "authentication/issuer.rs"]
mod issuer;
#[path = "authentication/keys.rs"]
mod keys;
#[path = "authentication/scene.rs"]
mod scene;
#[allow(dead_code, reason = "the scenarios use the rest")]
#[path = "stage/stage.rs"]
mod stage;
#[path = "authentication/tokens.rs"]
mod tokens;
