//! A socket that is connected to a server, over TCP or at a path, and what a failure means.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};

use super::fault::Fault;
use crate::error::Kind;

/// What the client is told.
pub(super) const LATE: &str = "connecting timed out";

/// Connects to an address.
///
/// # Errors
/// Why that failed, for the client and for the operator.
pub(super) async fn connect(address: SocketAddr) -> Result<TcpStream, Fault> {
    let stream = TcpStream::connect(address).await.map_err(|error| {
        let (kind, told) = explain(&error);
        Fault::new(kind, told, format!("{address}: {error}"))
    })?;
    // A head is written whole, so Nagle's algorithm would only delay it. Without the option the call works all the same.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// The time between two attempts at a Unix socket whose queue is full.
const QUEUED: Duration = Duration::from_millis(5);

/// Connects to a Unix socket.
///
/// # Errors
/// As [`connect`].
pub(super) async fn connect_unix(path: &Path) -> Result<UnixStream, Fault> {
    loop {
        match UnixStream::connect(path).await {
            Ok(stream) => return Ok(stream),
            // Where TCP would wait for a place in the queue, a Unix socket refuses.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(QUEUED).await,
            Err(error) => {
                let (kind, told) = explain(&error);
                return Err(Fault::new(kind, told, format!("{}: {error}", path.display())));
            }
        }
    }
}

/// The cause for the client, without an address.
fn explain(error: &io::Error) -> (Kind, &'static str) {
    /// Too many open files, in the process and in the system: the same on Linux, macOS and the BSDs.
    const EXHAUSTED: [i32; 2] = [24, 23];
    if error.raw_os_error().is_some_and(|code| EXHAUSTED.contains(&code)) {
        return (Kind::Busy, "no further connection can be opened");
    }
    match error.kind() {
        io::ErrorKind::TimedOut => (Kind::Timeout, LATE),
        io::ErrorKind::AddrNotAvailable => (Kind::Busy, "no further connection can be opened"),
        io::ErrorKind::ConnectionRefused => (Kind::Unreachable, "connection refused"),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            (Kind::Unreachable, "no route to the upstream")
        }
        _ => (Kind::Unreachable, "connection failed"),
    }
}
