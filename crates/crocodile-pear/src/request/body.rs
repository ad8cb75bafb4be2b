//! The client's body as a value, `$body`.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use super::context::Scope;
use crate::error::{Error, Kind};
use crate::format::{self, Readable};
use crate::jq::{self, Data};
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
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
            let (value, readable) = parse(self.headers(), bytes.clone(), bound).await?;
            self.set_body_value(value);
            if readable != Readable::Value {
                // A second one would be an error in the plan; the first one stays.
                let _ = self.values.unread.set((readable, bytes.clone()));
            }
        }
        self.put_body(AnswerBody::Bytes(bytes));
        Ok(())
    }

    /// The bytes of the client's body as they came, if nothing reads its type: `$body` alone stands for them.
    pub fn unread_body(&self) -> Option<&Bytes> {
        self.values.unread.get().map(|(_, bytes)| bytes)
    }

    /// Refuses a body that is no text, where an expression makes a value of `$body`.
    ///
    /// # Errors
    /// `UnsupportedBody`.
    pub fn need_value(&self) -> Result<(), Error> {
        match self.values.unread.get() {
            Some((Readable::Bytes, _)) => Err(self.no_value("this endpoint reads values from it")),
            _ => Ok(()),
        }
    }

    /// The error for a client's body that is no value.
    pub(crate) fn no_value(&self, wanted: &str) -> Error {
        let media = self.field(&CONTENT_TYPE).map(String::from_utf8_lossy).unwrap_or_default();
        let media: String = media.chars().filter(|c| !c.is_control()).take(80).collect();
        Error::new(Kind::UnsupportedBody, format!("the body is `{media}`, and no text: {wanted}"))
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
        self.put_body(AnswerBody::Bytes(bytes.clone()));
        // A second value would be an error in the plan; the first one stays.
        let _ = self.values.copy.set(bytes);
        Ok(())
    }

    /// A copy of the client's body, if it was read for that.
    pub fn copy_body(&self) -> Option<AnswerBody> {
        self.values.copy.get().cloned().map(AnswerBody::Bytes)
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

    async fn collect(&self, body: AnswerBody, bound: usize) -> Result<Bytes, Error> {
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
async fn parse(headers: &HeaderMap, bytes: Bytes, bound: usize) -> Result<(Data, Readable), Error> {
    // `curl -d` calls everything a form; no form begins like this, since its braces are percent-encoded.
    let braced = bytes.starts_with(b"{") || bytes.starts_with(b"[");
    if braced
        && format::is_form(headers)
        && let Ok(document) = format::check(bytes.clone()).await
    {
        return Ok((document.into(), Readable::Value));
    }
    let mut headers = headers.clone();
    // Of an answer anything may be made, of a request not.
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    let body = AnswerBody::Bytes(bytes);
    let read = async {
        let mut answer = format::plain(Answer::new(http::StatusCode::OK, headers, body))?;
        let bytes = std::mem::replace(&mut answer.body, AnswerBody::empty()).collect(bound).await?;
        let readable = format::readable(&answer.headers, &bytes);
        if readable == Readable::Bytes {
            // Its type may name a character set, and be wrong.
            return Ok((jq::string(&format::charset::data_url(&answer.headers, &bytes)).into(), readable));
        }
        format::data(Answer { body: AnswerBody::Bytes(bytes), ..answer }, bound).await.map(|data| (data, readable))
    };
    read.await.map_err(|error: Error| match error.kind() {
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
        let scope = Scope::new(Method::POST, None, HeaderMap::new(), AnswerBody::Bytes("[1]".into()));
        scope.read_body(3).await.expect("read");
        assert_eq!(scope.variable("body", &None), jq::list(vec![number("1")]));
        let bytes = scope.take_body().expect("it is there").collect(3).await.expect("bytes");
        assert_eq!(bytes, "[1]");
        scope.read_body(0).await.expect("it was read before");
    }

    #[tokio::test]
    async fn a_body_is_bytes_where_nothing_reads_its_type() {
        for (media, bytes, unread, refused) in [
            ("application/json", &b"[1]"[..], false, false),
            ("text/html", b"<p>", false, false),
            ("text/plain; charset=iso-8859-1", b"\xe5", false, false),
            ("text/plain", b"\xe5", true, true),
            ("image/png", b"\x89PNG", true, true),
            ("image/png; charset=utf-8", b"\x89PNG", true, true),
            ("image/svg+xml", b"<svg/>", true, false),
            ("multipart/form-data; boundary=x", b"--x--", true, false),
            ("application/octet-stream", b"\xff", true, true),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media))]);
            let scope = Scope::new(Method::POST, None, headers, AnswerBody::Bytes(bytes.into()));
            scope.read_body(99).await.expect("read");
            assert_eq!(scope.unread_body().is_some_and(|kept| kept == bytes), unread, "{media}");
            let error = scope.need_value().err().map(|error| error.status().as_u16());
            assert_eq!(error, refused.then_some(415), "{media}");
        }
    }

    #[tokio::test]
    async fn a_body_past_its_bound_is_the_clients_fault() {
        let scope = Scope::new(Method::POST, None, HeaderMap::new(), AnswerBody::Bytes("[1]".into()));
        assert_eq!(scope.read_body(2).await.expect_err("too large").kind(), Kind::BodyTooLarge);
    }
}
