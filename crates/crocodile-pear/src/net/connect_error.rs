//! Why there is no connection to a server.

use std::borrow::Cow;

use crate::error::{Error, Kind};

/// Why there is no connection: for the client, and in detail for the operator.
pub(crate) struct ConnectFault {
    pub(crate) error: Error,
    pub(crate) why: String,
}

impl ConnectFault {
    pub(crate) fn new(kind: Kind, told: impl Into<Cow<'static, str>>, why: String) -> Self {
        ConnectFault { error: Error::new(kind, told), why }
    }
}
