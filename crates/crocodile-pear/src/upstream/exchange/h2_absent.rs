//! A build without HTTP/2: no call has a stream.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Frame;

use super::request::OutboundRequest;
use crate::error::Error;
use crate::upstream::connect::h2_connection::StreamSlot;

/// No build without HTTP/2 has one.
pub(crate) enum H2Stream {}

/// How far sending has come.
pub(crate) enum StreamProgress {
    /// Everything has left.
    All,
    /// The body has nothing for now.
    Starved,
}

/// Why a stream gave no answer.
pub(crate) enum StreamFault {
    /// The server provably has not processed it.
    Unprocessed,
    /// The connection ended.
    Ended,
    /// The upstream failed the stream.
    Failed(Error),
}

impl H2Stream {
    pub(crate) fn new(slot: StreamSlot, _: http::Request<()>, _: &mut OutboundRequest) -> Result<Self, StreamFault> {
        match slot {}
    }

    pub(crate) fn poll_send(&mut self, _: &mut OutboundRequest, _: &mut Context<'_>) -> Result<StreamProgress, Error> {
        match *self {}
    }

    pub(crate) fn poll_head(
        &mut self,
        _: &mut OutboundRequest,
        _: &mut Context<'_>,
    ) -> Poll<Result<(StatusCode, HeaderMap), StreamFault>> {
        match *self {}
    }

    pub(crate) fn poll_body(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match *self {}
    }

    pub(crate) fn done(&self) -> bool {
        match *self {}
    }

    pub(crate) fn left(&self) -> Option<u64> {
        match *self {}
    }
}
