//! Errors: why a message cannot be read, or a body not to its end.

use std::error::Error;
use std::fmt;

/// A message breaks HTTP/1.1; in words of ours, never with bytes of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedMessage(pub &'static str);

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for MalformedMessage {}

/// The connection ended before the body did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncompleteBody;

impl fmt::Display for IncompleteBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection ended before the body")
    }
}

impl Error for IncompleteBody {}
