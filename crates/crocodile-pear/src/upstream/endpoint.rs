//! One of an upstream's addresses, with what belongs to it alone: its connections and how it fares.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;

use super::connect::Place;
use super::pool::Pool;

/// One address of an upstream.
pub(super) struct Endpoint {
    pub(super) place: Place,
    /// As it stands in `host`.
    pub(super) authority: Box<str>,
    /// The path before every call's own.
    pub(super) base: Box<str>,
    pub(super) pool: Arc<Pool>,
}

impl Endpoint {
    /// Keeps at most `most` connections per core, each for `idle`.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub(super) fn new(url: &Uri, idle: Duration, most: usize) -> Result<Self, &'static str> {
        if url.scheme_str() != Some("http") {
            return Err("the url of an upstream begins with http://");
        }
        let authority = url.authority().ok_or("the url of an upstream names a host")?;
        if authority.as_str().contains('@') {
            return Err("the url of an upstream holds no credentials");
        }
        if url.query().is_some() {
            return Err("the url of an upstream has no query");
        }
        Ok(Endpoint {
            place: Place::new(authority.host(), authority.port_u16().unwrap_or(80)),
            authority: authority.as_str().into(),
            base: url.path().trim_end_matches('/').into(),
            pool: Arc::new(Pool::new(idle, most)),
        })
    }
}
