//! The files that a configuration names.

pub use crate::config::carried_state::Files;
