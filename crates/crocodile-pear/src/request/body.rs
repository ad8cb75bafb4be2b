//! The client's body as a value, `$body`.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use super::context::Scope;
use crate::error::{Error, Kind};
use crate::format;
use crate::jq::Data;
use crate::message::answer::Answer;
use crate::message::body::Body;
use crate::runtime::deadline_timer::by;

impl Scope {
    /// Reads the client's body whole, at most `bound` bytes, for `$body`; the bytes stay there for a call that sends them on.
    /// The body is read once.
    ///
    /// # Errors
    /// `BodyTooLarge` past the bound, `BadRequest` for a body that is not what its content type says, and whatever ends it
    /// before its end.
    pub async fn read_body(&self, bound: usize) -> Result<(), Error> {
        if self.values.body.get().is_some() {
            return Ok(());
        }
        let Some(body) = self.take_body() else { return Ok(()) };
        let bytes = self.collect(body, bound).await?;
        if !bytes.is_empty() {
            self.set_body_value(parse(self.headers(), bytes.clone(), bound).await?);
        }
        self.put_body(Body::Bytes(bytes));
        Ok(())
    }

    /// Reads the client's body whole, at most `bound` bytes, for calls that send a copy of it. Its trailers are dropped.
    ///
    /// # Errors
    /// `BodyTooLarge` past the bound, and whatever ends the body before its end.
    pub async fn keep_body(&self, bound: usize) -> Result<(), Error> {
        if self.values.copy.get().is_some() {
            return Ok(());
        }
        let Some(body) = self.take_body() else { return Ok(()) };
        let bytes = self.collect(body, bound).await?;
        self.put_body(Body::Bytes(bytes.clone()));
        // A second value would be an error in the plan; the first one stays.
        let _ = self.values.copy.set(bytes);
        Ok(())
    }

    /// A copy of the client's body, if it was read for that.
    pub fn copy_body(&self) -> Option<Body> {
        self.values.copy.get().cloned().map(Body::Bytes)
    }

    /// Refuses a body that is not empty, where no call would take it.
    ///
    /// # Errors
    /// `BodyTooLarge` for a body, and whatever ends it before its first byte.
    pub async fn refuse_body(&self) -> Result<(), Error> {
        let Some(body) = self.take_body() else { return Ok(()) };
        if body.is_empty() || body.length() == Some(0) {
            self.put_body(body);
            return Ok(());
        }
        let refused = || Error::new(Kind::BodyTooLarge, "this endpoint takes no body");
        if body.length().is_some() {
            return Err(refused());
        }
        // Only the first byte tells a chunked body from an empty one.
        self.collect(body, 0).await.map(drop).map_err(|error| match error.kind() {
            Kind::BodyTooLarge => refused(),
            _ => error,
        })
    }

    async fn collect(&self, body: Body, bound: usize) -> Result<Bytes, Error> {
        let whole = async {
            match self.deadline() {
                None => body.collect(bound).await,
                Some(end) => by(end, body.collect(bound)).await.unwrap_or_else(|| Err(late())),
            }
        };
        whole.await.map_err(|error| match error.kind() {
            Kind::Oversized => Error::new(Kind::BodyTooLarge, error.detail().to_owned()),
            _ => error,
        })
    }
}

/// The value of the client's body, by its content type and uncompressed.
async fn parse(headers: &HeaderMap, bytes: Bytes, bound: usize) -> Result<Data, Error> {
    // `curl -d` calls everything a form; no form begins like this, since its braces are percent-encoded.
    let braced = bytes.starts_with(b"{") || bytes.starts_with(b"[");
    if braced
        && format::is_form(headers)
        && let Ok(document) = format::check(bytes.clone()).await
    {
        return Ok(document.into());
    }
    let mut headers = headers.clone();
    // Of an answer anything may be made, of a request not.
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    let body = Body::Bytes(bytes);
    let answer = Answer::new(http::StatusCode::OK, headers, body);
    format::data(answer, bound).await.map_err(|error| match error.kind() {
        Kind::Oversized => Error::new(Kind::BodyTooLarge, error.detail().to_owned()),
        Kind::Overloaded => error,
        _ => Error::new(Kind::BadRequest, error.detail().to_owned()),
    })
}

fn late() -> Error {
    Error::new(Kind::BadRequest, "the request's body took longer than the request may")
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::body::*;
    use crate::jq;
    use crate::json::value::number;

    #[tokio::test]
    async fn a_body_is_read_once_and_stays_for_a_call() {
        let scope = Scope::new(Method::POST, None, HeaderMap::new(), Body::Bytes("[1]".into()));
        scope.read_body(3).await.expect("read");
        assert_eq!(scope.variable("body", &None), jq::list(vec![number("1")]));
        let bytes = scope.take_body().expect("it is there").collect(3).await.expect("bytes");
        assert_eq!(bytes, "[1]");
        scope.read_body(0).await.expect("it was read before");
    }

    #[tokio::test]
    async fn a_body_past_its_bound_is_the_clients_fault() {
        let scope = Scope::new(Method::POST, None, HeaderMap::new(), Body::Bytes("[1]".into()));
        assert_eq!(scope.read_body(2).await.expect_err("too large").kind(), Kind::BodyTooLarge);
    }
}
