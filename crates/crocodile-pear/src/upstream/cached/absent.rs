//! A build without the cache: no upstream has one. The settings refuse it where they are read.

use std::sync::Arc;

use super::authenticated_caller::{AuthenticatedCall, Caller};
use super::call::UpstreamCall;
use super::call::cache_scope::CacheScope;
use super::environment::UpstreamEnvironment;
use crate::cache::{AnswerParts, CacheSpec, Dependence};
use crate::config::problem::Problems;
use crate::error::Error;
use crate::request::context::Scope;

/// The cache of an upstream. A build without the cache has no value of this type.
#[derive(Debug)]
pub enum UpstreamCache {}

impl UpstreamCache {
    /// Compiles to no cache: `off` is the only setting that can be read.
    pub(super) fn compile(
        CacheSpec::Off: &CacheSpec,
        _: &str,
        _: &UpstreamEnvironment<'_>,
        _: &mut Problems,
    ) -> Option<Option<Arc<Self>>> {
        Some(None)
    }

    pub(super) fn scope(&self, _: Option<Arc<AnswerParts>>, _: &Scope) -> Box<CacheScope> {
        match *self {}
    }

    pub(super) fn identify(&self, _: &mut CacheScope, _: &Scope) -> Result<(), Error> {
        match *self {}
    }

    pub(super) fn dependence(&self) -> Dependence {
        match *self {}
    }

    pub(super) fn outline(&self) -> &str {
        match *self {}
    }
}

/// Never runs: a call for a cache needs a [`CacheScope`], and there is none.
#[allow(clippy::boxed_local, reason = "a build with the cache has it so")]
pub(super) fn start(
    _: Option<Arc<UpstreamCache>>,
    _: Caller,
    _: Box<UpstreamCall>,
    keeping: Box<CacheScope>,
) -> AuthenticatedCall {
    match *keeping {}
}
