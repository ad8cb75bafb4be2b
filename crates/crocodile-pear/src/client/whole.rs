//! An answer that was read whole, for a closure that changes it.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::error::{Error, Kind};
use crate::message::answer::undescribe;

/// An answer that was read whole, for the closure of [`Pipeline::transform`](crate::Pipeline::transform).
///
/// ```
/// use crocodile_pear::{Client, Whole};
/// use http::StatusCode;
///
/// let gone = |answer: Whole| match answer.status {
///     StatusCode::NOT_FOUND => Ok(Whole { status: StatusCode::GONE, ..answer }),
///     _ => Ok(answer),
/// };
/// let user = Client::new().request(["http://127.0.0.1:9000/users/7"]);
/// let user = user.transform(gone);
/// # user.check()?;
/// # Ok::<(), crocodile_pear::Faults>(())
/// ```
#[derive(Clone, Debug)]
pub struct Whole {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Whole {
    /// The body as JSON.
    ///
    /// ```
    /// # use crocodile_pear::Whole;
    /// # let head = |body: &'static str| Whole { status: Default::default(), headers: Default::default(), body: body.into() };
    /// let answer: Whole = head(r#"{"name": "Lund"}"#);
    /// assert_eq!(answer.json()?["name"], "Lund");
    /// # Ok::<(), crocodile_pear::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Malformed`] if it is not JSON.
    pub fn json(&self) -> Result<serde_json::Value, Error> {
        let malformed =
            |error: serde_json::Error| Error::new(Kind::Malformed, format!("the body is not JSON: {error}"));
        serde_json::from_slice(&self.body).map_err(malformed)
    }

    /// The same answer with another body, as JSON.
    ///
    /// ```
    /// use crocodile_pear::{Error, Whole};
    ///
    /// fn name(answer: Whole) -> Result<Whole, Error> {
    ///     let name = answer.json()?["name"].clone();
    ///     Ok(answer.with_json(&name))
    /// }
    /// # let answer = Whole { status: Default::default(), headers: Default::default(), body: r#"{"name": 1}"#.into() };
    /// # assert_eq!(name(answer)?.body, "1");
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_json(mut self, body: &serde_json::Value) -> Self {
        undescribe(&mut self.headers);
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.body = body.to_string().into();
        self
    }
}
