//! A build without the cache: no call is made for one.

use http::header::{HeaderMap, HeaderName};

use crate::request::context::Scope;

/// The facts for a cache. A build without the cache has no value of this type.
#[derive(Clone)]
pub enum CacheScope {}

impl CacheScope {
    pub(crate) fn write(&mut self, _: &HeaderName) {
        match *self {}
    }

    pub(crate) fn name_client(&mut self, _: [&[u8]; 2]) {
        match *self {}
    }

    pub(crate) fn present_nothing(&mut self) {
        match *self {}
    }

    pub(crate) fn note_fields(&mut self, _: &Scope, _: &HeaderMap) {
        match *self {}
    }
}
