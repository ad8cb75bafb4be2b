//! Violations of HTTP/1.1.

use crate::error::{Error, Kind};

/// A message breaks HTTP/1.1; in words of ours, never with bytes of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

impl Broken {
    /// The error of a call with this answer.
    pub fn of_answer(self) -> Error {
        Error::new(Kind::Malformed, self.0)
    }
}
