//! A new connection to where the upstream is.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;

use super::Limit;
use super::io::Io;
use super::resolve::{Name, Resolver};
use super::tls::Tls;
use crate::error::{Error, Kind};

/// Where an upstream listens, and how one talks to it.
pub(super) struct Place {
    host: Host,
    tls: Option<Tls>,
}

enum Host {
    /// An address, nothing to resolve.
    Address(SocketAddr),
    Name(Name),
}

impl Place {
    /// `host` as it stands in a URL: a name, or an address, in brackets if it is IPv6.
    pub(super) fn new(host: &str, port: u16, tls: Option<Tls>, resolver: Option<&Resolver>) -> Self {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = match bare.parse::<IpAddr>() {
            Ok(address) => Host::Address(SocketAddr::new(address, port)),
            Err(_) => Host::Name(Name::new(host, port, resolver.cloned())),
        };
        Place { host, tls }
    }

    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Connects, all addresses of a name and the handshake together within `limit`.
    ///
    /// # Errors
    /// `Unreachable`, `Timeout`, or `Busy` when this machine has no socket left.
    pub(super) async fn connect(&self, limit: Limit) -> Result<Io, Error> {
        let connecting = async {
            let stream = match &self.host {
                Host::Address(address) => dial(*address).await,
                Host::Name(name) => name.connect().await,
            }?;
            match &self.tls {
                None => Ok(Io::Tcp(stream)),
                Some(tls) => tls.connect(stream).await.map(Io::Tls),
            }
        };
        match limit {
            Limit::Never => connecting.await,
            Limit::After(limit) => tokio::time::timeout(limit, connecting).await.map_err(|_| late())?,
        }
    }
}

pub(super) async fn dial(address: SocketAddr) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect(address).await.map_err(|error| explain(&error))?;
    // A head is written whole; waiting for more to fill a segment only delays it. Failing to say so changes nothing.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// The cause in words for the client: never an address.
fn explain(error: &io::Error) -> Error {
    /// Too many open files, in the process and in the system: the same on Linux, macOS and the BSDs.
    const EXHAUSTED: [i32; 2] = [24, 23];
    if error.raw_os_error().is_some_and(|code| EXHAUSTED.contains(&code)) {
        return Error::new(Kind::Busy, "no further connection can be opened");
    }
    match error.kind() {
        io::ErrorKind::TimedOut => late(),
        io::ErrorKind::AddrNotAvailable => Error::new(Kind::Busy, "no further connection can be opened"),
        io::ErrorKind::ConnectionRefused => Error::new(Kind::Unreachable, "connection refused"),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            Error::new(Kind::Unreachable, "no route to the upstream")
        }
        _ => Error::new(Kind::Unreachable, "connection failed"),
    }
}

fn late() -> Error {
    Error::new(Kind::Timeout, "connecting timed out")
}
