//! Messages to the service manager, where it asks for them (`sd_notify`).

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// The variable with the path of the manager's socket.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Sends a message, such as `READY=1`.
pub fn notify(message: &str) {
    let Some(path) = env::var_os(SOCKET) else { return };
    if let Err(error) = send(path.as_bytes(), path.as_ref(), message) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

fn send(name: &[u8], path: &Path, message: &str) -> io::Result<()> {
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}
