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

/// No build without the cache has one.
#[derive(Debug)]
pub enum Cached {}

impl Cached {
    /// No cache: the only settings that can be read are `off`.
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

/// Begins no call: none is made for a cache.
#[allow(clippy::boxed_local, reason = "a build with the cache has it so")]
pub(super) fn begin(
    _: Option<Arc<Cached>>,
    _: Caller,
    _: Box<UpstreamCall>,
    keeping: Box<CacheScope>,
) -> AuthenticatedCall {
    match *keeping {}
}
