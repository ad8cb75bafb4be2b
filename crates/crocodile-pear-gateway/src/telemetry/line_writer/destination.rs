//! Where lines go.

use std::path::PathBuf;

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The standard error stream.
    Stderr,
    /// A file, opened again when the gateway is told to.
    File(PathBuf),
    /// A syslog daemon, at a datagram socket of this machine.
    Syslog(PathBuf),
    /// A syslog daemon elsewhere, over UDP: `HOST:PORT`.
    RemoteSyslog(String),
}
