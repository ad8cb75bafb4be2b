//! The system's own resolution of names, for a build without the feature `dns`.

use std::net::SocketAddr;
use std::time::Duration;

/// The port of name servers (RFC 1035, 4.2).
pub(super) const PORT: u16 = 53;

/// How often changes are looked for: the system sees them itself.
pub(super) const LOOK: Duration = Duration::from_secs(3600);

/// Whom names are asked of.
pub(super) struct SystemResolver {
    own: bool,
}

impl SystemResolver {
    /// The system; other name servers cannot be asked.
    pub(super) fn read(servers: &[SocketAddr]) -> Self {
        SystemResolver { own: !servers.is_empty() }
    }

    /// # Errors
    /// Where name servers of the program's own were to be asked.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.own {
            false => Ok(()),
            true => {
                Err("other name servers than the system's need the feature `dns` of the crate crocodile-pear"
                    .to_owned())
            }
        }
    }
}

/// A stamp that never differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResolverStamp;

impl ResolverStamp {
    pub(super) fn now() -> Self {
        ResolverStamp
    }
}
