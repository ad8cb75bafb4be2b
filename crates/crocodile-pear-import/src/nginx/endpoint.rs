//! An endpoint of the configuration that an import writes.

use super::settings::LocationPhase;
use crate::yaml::{Map, Yaml};

/// An endpoint, before it is written.
#[derive(Clone, Debug)]
pub struct EndpointDraft {
    /// `/api/{*path}`, or `GET /api`.
    pub name: String,
    pub settings: Map,
    /// A call in the short form, a pipeline, or none.
    pub body: Option<Yaml>,
    pub phase: LocationPhase,
    /// Whether its requests are not logged.
    pub is_silent: bool,
    pub comment: Option<String>,
}
