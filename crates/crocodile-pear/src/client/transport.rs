//! A tower service instead of sockets.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;

use super::body::Body;
use super::foreign::{Foreign, explain};
use crate::error::{BoxError, Error, Kind};
use crate::message::body::PulledBody;
use crate::upstream::program::{ResponseFuture, Transport};

/// A service, cloned for each call.
pub struct Tower<S>(Mutex<S>);

impl<S> Tower<S> {
    pub fn new(service: S) -> Self {
        Tower(Mutex::new(service))
    }
}

impl<S, B> Transport for Tower<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    fn send(&self, request: Request<PulledBody>) -> ResponseFuture {
        let mut service = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(|error| failed(error.into()))?;
            let response = service.call(request.map(Body::of_pulled)).await.map_err(|error| failed(error.into()))?;
            Ok(response.map(|body| Box::pin(Foreign::answer(body)) as PulledBody))
        })
    }
}

fn failed(error: BoxError) -> Error {
    explain(error, Kind::Unreachable, "the transport failed")
}
