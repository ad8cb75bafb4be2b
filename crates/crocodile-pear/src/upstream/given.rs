//! What upstreams need from outside their own configuration.

use std::sync::Arc;

use super::files::Files;
use super::resolve::Resolver;
use crate::cache::Store;
use crate::carried::Carry;

/// What upstreams need from outside their own configuration.
#[derive(Clone)]
pub struct Given<'a> {
    /// Reads their files.
    pub files: Files<'a>,
    /// The DNS resolver; the system's unless set.
    pub resolver: Option<Resolver>,
    /// Where their answers are kept, if they are.
    pub cache: Option<Arc<Store>>,
    /// What they take over from the configuration before.
    pub carry: Carry,
}
