//! Bodies, as programs send and receive them.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt};
use http_body::{Frame, SizeHint};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::foreign::Foreign;
use crate::error::{BoxError, Error, Kind};
use crate::message::body::{self as message, BytesBody};
use crate::pipeline::step;

/// The body of a request: bytes in memory, or a stream.
///
/// Bytes are sent again when a call is retried; a stream only if nothing of it was sent.
///
/// ```
/// use crocodile_pear::Body;
///
/// let text = Body::from("item=7");
/// let json = Body::json(&[1, 2])?;
/// assert_eq!(json.as_bytes(), Some(&b"[1,2]"[..]));
/// let file = Body::stream(http_body_util::Full::new(bytes::Bytes::from("as it is read")));
/// # drop((text, file));
/// # Ok::<(), crocodile_pear::Error>(())
/// ```
#[derive(Default)]
pub struct Body(BodyContent);

enum BodyContent {
    Bytes(Bytes),
    Stream(message::PulledBody),
}

impl Default for BodyContent {
    fn default() -> Self {
        BodyContent::Bytes(Bytes::new())
    }
}

impl Body {
    /// A body without bytes.
    ///
    /// ```
    /// use crocodile_pear::Body;
    ///
    /// assert_eq!(Body::empty().as_bytes().map(|bytes| bytes.len()), Some(0));
    /// ```
    pub fn empty() -> Self {
        Body::default()
    }

    /// A body that is read while it is sent: a file, an upload that is handed on.
    pub fn stream<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Body(BodyContent::Stream(Box::pin(Foreign::request(body))))
    }

    /// A value as JSON.
    ///
    /// # Errors
    /// If it cannot be JSON.
    pub fn json(value: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        let unfit = |error: serde_json::Error| {
            Error::new(Kind::InvalidCall, format!("the body cannot be JSON: {error}")).caused_by(error)
        };
        Ok(Body(BodyContent::Bytes(serde_json::to_vec(value).map_err(unfit)?.into())))
    }

    /// The bytes, unless it is a stream.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            BodyContent::Bytes(bytes) => Some(bytes),
            BodyContent::Stream(_) => None,
        }
    }

    pub(super) fn of_message(body: Option<message::AnswerBody>) -> Result<Self, Error> {
        Ok(Body(match body {
            None => BodyContent::default(),
            Some(message::AnswerBody::Bytes(bytes)) => BodyContent::Bytes(bytes),
            Some(message::AnswerBody::Json(raw)) => BodyContent::Bytes(raw.bytes().clone()),
            Some(other) => BodyContent::Stream(other.into_pulled()?),
        }))
    }

    pub(super) fn into_message(self) -> Option<message::AnswerBody> {
        match self.0 {
            BodyContent::Bytes(bytes) if bytes.is_empty() => None,
            BodyContent::Bytes(bytes) => Some(message::AnswerBody::Bytes(bytes)),
            BodyContent::Stream(body) => Some(message::AnswerBody::Pulled(body)),
        }
    }

    pub(super) fn of_pulled(body: message::PulledBody) -> Self {
        Body(BodyContent::Stream(body))
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Body(BodyContent::Bytes(bytes.into()))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match &mut self.0 {
            BodyContent::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            BodyContent::Bytes(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            BodyContent::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyContent::Bytes(bytes) => bytes.is_empty(),
            BodyContent::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyContent::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyContent::Stream(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            BodyContent::Bytes(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            BodyContent::Stream(_) => f.write_str("Body(a stream)"),
        }
    }
}

/// The body of a response. It is pulled: nothing is read before it is polled, and dropping it cancels the calls behind it.
///
/// The type implements [`http_body::Body`], so that axum, hyper and tower send it as it is.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), crocodile_pear::Error> {
/// use crocodile_pear::Client;
///
/// let client = Client::new();
/// let response = client.items([1, 2, 3]).map(|n| n * 2).into_json().await;
/// let doubled: Vec<u8> = response.into_body().json().await?;
/// assert_eq!(doubled, [2, 4, 6]);
/// # Ok(())
/// # }
/// ```
pub struct Pulled(message::PulledBody);

impl Pulled {
    pub(super) fn new(body: message::PulledBody) -> Self {
        Pulled(body)
    }

    pub(super) fn of_bytes(bytes: Bytes) -> Self {
        Pulled(Box::pin(BytesBody::new(bytes)))
    }

    /// The whole body, at most [`MAX_BODY`](crate::MAX_BODY) bytes of it.
    ///
    /// # Errors
    /// If it is larger, or ends early.
    pub async fn bytes(self) -> Result<Bytes, Error> {
        self.bytes_within(MAX_BODY).await
    }

    /// The whole body, at most this many bytes of it.
    ///
    /// # Errors
    /// If it is larger, or ends early.
    pub async fn bytes_within(self, most: usize) -> Result<Bytes, Error> {
        message::AnswerBody::Pulled(self.0).collect(most).await
    }

    /// The whole body as text, at most [`MAX_BODY`](crate::MAX_BODY) bytes of it.
    ///
    /// # Errors
    /// If it is larger, ends early or is not UTF-8.
    pub async fn text(self) -> Result<String, Error> {
        let bytes = Vec::from(self.bytes().await?);
        String::from_utf8(bytes).map_err(|error| Error::new(Kind::Malformed, "the body is not UTF-8").caused_by(error))
    }

    /// The whole body, at most [`MAX_BODY`](crate::MAX_BODY) bytes of it, read as JSON.
    ///
    /// # Errors
    /// If it is larger, ends early or does not have this type.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes).map_err(|error| {
            Error::new(Kind::Malformed, format!("the body is not what was expected: {error}")).caused_by(error)
        })
    }

    /// The data of the body, piece by piece.
    pub fn into_data(self) -> impl Stream<Item = Result<Bytes, Error>> + Send + Unpin + 'static {
        let pieces = futures_util::stream::unfold(Some(self.0), async |body| {
            let mut body = body?;
            match message::data(&mut body).await? {
                Ok(piece) => Some((Ok(piece), Some(body))),
                Err(error) => Some((Err(error), None)),
            }
        });
        pieces.boxed()
    }
}

impl http_body::Body for Pulled {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.0.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl fmt::Debug for Pulled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pulled").field(&self.0.size_hint()).finish()
    }
}

/// The most bytes of a body that a step reads whole: 16 MiB.
///
/// ```
/// assert_eq!(crocodile_pear::MAX_BODY, 16 << 20);
/// ```
pub const MAX_BODY: usize = step::MAX_BODY.0 as usize;
