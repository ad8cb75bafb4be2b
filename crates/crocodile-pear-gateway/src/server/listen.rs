//! The listening sockets: one for each core, all on one address.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

/// Connections that may wait to be accepted; the kernel caps it at its own bound.
const QUEUE: i32 = 4096;

/// A peer that vanished without a word is noticed after a few of these.
const PROBE: Duration = Duration::from_secs(60);

/// One bound socket for each core.
#[derive(Debug)]
pub struct Listeners {
    address: SocketAddr,
    pub(super) sockets: Vec<TcpListener>,
}

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct Unbound {
    address: SocketAddr,
    cause: io::Error,
}

impl Listeners {
    /// Listens on `address`, once for each of the `cores`. Port 0 picks a free one.
    ///
    /// # Errors
    /// When the address is taken, forbidden or not of this machine.
    pub fn bind(address: SocketAddr, cores: usize) -> Result<Self, Unbound> {
        let unbound = |cause| Unbound { address, cause };
        // The kernel would let two processes share a port and split its clients among them, silently:
        // a socket that does not share finds out.
        let probe =
            socket(address).and_then(|socket| socket.bind(&address.into()).map(|()| socket)).map_err(unbound)?;
        drop(probe);
        let first = listen(address).map_err(unbound)?;
        let address = first.local_addr().map_err(unbound)?;
        let mut sockets = vec![first];
        for _ in 1..cores {
            sockets.push(listen(address).map_err(unbound)?);
        }
        Ok(Listeners { address, sockets })
    }

    /// Where it listens, with the port that was picked.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for the last process's connections to be forgotten.
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit both.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE).with_interval(PROBE))?;
    socket.bind(&address.into())?;
    socket.listen(QUEUE)?;
    Ok(socket.into())
}

impl fmt::Display for Unbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unbound { address, cause } = self;
        match cause.kind() {
            io::ErrorKind::AddrInUse => {
                write!(f, "{address} is taken: another process listens there; stop it or choose another port")
            }
            io::ErrorKind::PermissionDenied => {
                write!(f, "{address} is not allowed: ports below 1024 need a privilege; choose a higher one")
            }
            io::ErrorKind::AddrNotAvailable => write!(f, "{address} is not an address of this machine"),
            _ => write!(f, "{address} cannot be listened on: {cause}"),
        }
    }
}

impl std::error::Error for Unbound {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_address_is_told_though_its_owner_shares_it() {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = Listeners::bind(free, 2).expect("a free port");
        assert_eq!(first.sockets.len(), 2);
        let second = Listeners::bind(first.address(), 1).expect_err("a taken port");
        assert!(second.to_string().contains("another process listens there"), "{second}");
    }
}
