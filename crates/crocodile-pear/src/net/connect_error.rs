//! Why there is no connection to a server.

use std::borrow::Cow;

use crate::error::{Error, Kind};

/// Why there is no connection: for the client, and in detail for the operator.
pub(crate) struct ConnectFault {
    pub(crate) error: Error,
    pub(crate) why: String,
}

/// The same for the program that made the call: with names and addresses.
#[derive(Debug)]
struct Why(String);

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Why {}

impl ConnectFault {
    pub(crate) fn new(kind: Kind, told: impl Into<Cow<'static, str>>, why: String) -> Self {
        ConnectFault { error: Error::new(kind, told), why }
    }

    /// The same with the error of the socket or of TLS.
    pub(crate) fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.error = self.error.caused_by(source);
        self
    }

    /// The error, and why there is no connection.
    pub(crate) fn into_parts(self) -> (Error, String) {
        let ConnectFault { error, why } = self;
        (error.caused_by(Why(why.clone())), why)
    }
}
