//! A build without HTTP/2: no connection is shared.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::io::Io;
use crate::error::{Error, Kind};

/// The same bound as with HTTP/2.
pub(crate) const MOST_STREAMS: usize = 1024;

/// No build without HTTP/2 has one.
pub(crate) enum Session {}

/// No build without HTTP/2 has one.
pub(crate) enum StreamSlot {}

/// No build without HTTP/2 has one.
pub(crate) enum Driver {}

/// How long a session is kept.
pub(crate) struct SessionSpan {
    pub(crate) idle: Duration,
    pub(crate) lifetime: Duration,
}

/// The limits that other connections have learned.
pub(crate) struct StreamLimits {
    pub(crate) freed: Arc<Notify>,
    pub(crate) most: Option<usize>,
}

impl Session {
    /// # Errors
    /// Always.
    pub(crate) async fn open(_: Io, _: usize, _: SessionSpan, _: StreamLimits) -> Result<(Arc<Self>, Driver), Error> {
        Err(Error::new(Kind::Unreachable, crate::net::protocol::UNBUILT))
    }

    pub(crate) fn most(&self) -> usize {
        match *self {}
    }

    pub(crate) fn is_full(&self) -> bool {
        match *self {}
    }

    pub(crate) fn ready(&self, _: Duration) -> Option<Infallible> {
        match *self {}
    }

    pub(crate) fn reserve(self: &Arc<Self>, sender: Infallible) -> Option<StreamSlot> {
        match sender {}
    }

    pub(crate) fn first(self: &Arc<Self>) -> Option<StreamSlot> {
        match **self {}
    }
}

impl Driver {
    pub(crate) async fn until_over(&mut self) {
        match *self {}
    }

    pub(crate) async fn until_end(&mut self) {
        match *self {}
    }
}
