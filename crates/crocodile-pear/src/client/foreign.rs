//! Bodies and errors that a program brings.

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::error::{BoxError, Error, Kind};

/// A body of another crate.
pub struct Foreign<B> {
    body: Pin<Box<B>>,
    explain: fn(BoxError) -> Error,
}

impl<B> Foreign<B> {
    /// The body of a request: what breaks it is the program's own.
    pub fn request(body: B) -> Self {
        Foreign { body: Box::pin(body), explain: own }
    }

    pub fn answer(body: B) -> Self {
        Foreign {
            body: Box::pin(body),
            explain: |error| explain(error, Kind::Cut, "the answer ended before it was whole"),
        }
    }
}

impl<B> http_body::Body for Foreign<B>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>>,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(self.body.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(|error| (self.explain)(error.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn own(error: BoxError) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(error) => Error::new(Kind::Closure, "the body of the request failed").with_source(error),
    }
}

/// An error of a transport, by the error of a socket among its causes.
pub fn explain(error: BoxError, otherwise: Kind, detail: &'static str) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(error) => return *error,
        Err(error) => error,
    };
    let (kind, detail) = match io_kind(&*error) {
        Some(io::ErrorKind::TimedOut) => (Kind::Timeout, "the upstream did not answer in time"),
        Some(io::ErrorKind::ConnectionRefused) => (Kind::Unreachable, "connection refused"),
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::NotFound) => {
            (Kind::Unreachable, "connection failed")
        }
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe) => {
            (if otherwise == Kind::Cut { Kind::Cut } else { Kind::Reset }, "the upstream closed the connection")
        }
        Some(io::ErrorKind::UnexpectedEof) => (Kind::Cut, "the answer ended before it was whole"),
        _ => (otherwise, detail),
    };
    Error::new(kind, detail).with_source(error)
}

fn io_kind(error: &(dyn StdError + 'static)) -> Option<io::ErrorKind> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}
