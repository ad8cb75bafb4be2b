//! The things that upstreams need from outside their own configuration.

use std::sync::Arc;

use super::connect::resolve::Resolver;
use crate::cache::Store;
use crate::config::carried_state::Carry;
use crate::config::files::Files;

/// The things that upstreams need from outside their own configuration.
#[derive(Clone)]
pub struct UpstreamEnvironment<'a> {
    pub files: Files<'a>,
    /// The DNS resolver; the system's unless set.
    pub resolver: Option<Resolver>,
    /// Where their answers are kept, if they are.
    pub cache: Option<Arc<Store>>,
    /// The state that they take over from the configuration before.
    pub carry: Carry,
}
