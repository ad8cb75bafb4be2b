//! What upstreams need from outside their own configuration.

use std::sync::Arc;

use super::resolve::Resolver;
use crate::cache::Store;
use crate::spec::Located;

/// Reads a file that the configuration names. The error is the reason why it cannot be read.
pub type Files<'a> = &'a dyn Fn(&Located<String>) -> Result<Vec<u8>, String>;

/// What upstreams need from outside their own configuration.
#[derive(Clone)]
pub struct Given<'a> {
    /// Reads their files.
    pub files: Files<'a>,
    /// The DNS resolver; the system's unless set.
    pub resolver: Option<Resolver>,
    /// Where their answers are kept, if they are.
    pub cache: Option<Arc<Store>>,
}
