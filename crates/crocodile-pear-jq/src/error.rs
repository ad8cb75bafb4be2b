//! Errors: their kind and a text.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use http::StatusCode;

/// Any error of a program.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// A failure of JSON, of an expression, or of a closure.
///
/// ```
/// use crocodile_pear_jq::{Kind, json};
///
/// let error = json::check(b"[1,]").unwrap_err();
/// assert_eq!(error.kind(), Kind::Malformed);
/// assert_eq!(error.to_string(), "not valid JSON: unexpected character (byte 3)");
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    detail: Cow<'static, str>,
    source: Option<BoxError>,
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The bytes are not valid JSON, or not the JSON that was asked for.
    Malformed,
    /// A part of the document is larger than its bound.
    Oversized,
    /// An expression failed on its data, or exceeded its budget.
    Expression,
    /// An expression failed with this status: `error({status: 404, detail: "no such order"})`.
    Rejected(StatusCode),
    /// A closure of the program returned an error: it is the source.
    Closure,
    /// A closure of the program panicked; the source is the text of the panic.
    Panic,
}

impl Error {
    /// An error with a text that may be shown to others.
    pub fn new(kind: Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        Error(Box::new(Inner { kind, detail: detail.into(), source: None }))
    }

    /// The error that a closure returned.
    pub(crate) fn of_closure(error: BoxError) -> Self {
        match error.downcast::<Error>() {
            Ok(error) => *error,
            Err(error) => Error::new(Kind::Closure, "the closure failed").with_source(error),
        }
    }

    /// The panic of a closure, with its text as the source.
    pub fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let text =
            payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("it gave no reason").to_owned();
        Error::new(Kind::Panic, "the closure panicked").with_source(text.into())
    }

    fn with_source(mut self, source: BoxError) -> Self {
        self.0.source = Some(source);
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The text, without the source.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Takes it apart: kind, text and source.
    pub fn into_parts(self) -> (Kind, Cow<'static, str>, Option<BoxError>) {
        (self.0.kind, self.0.detail, self.0.source)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.detail)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}
