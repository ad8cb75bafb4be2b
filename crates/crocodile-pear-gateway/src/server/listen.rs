//! The listening sockets: for each address one for each core.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use super::tls::Tls;
use crate::network::Network;

/// Connections that may wait to be accepted; the kernel caps it at its own bound.
const QUEUE: i32 = 4096;

/// A peer that vanished without a word is noticed after a few of these.
const PROBE: Duration = Duration::from_secs(60);

/// What the connections of one listener have in common.
#[derive(Debug, Default)]
pub struct Entry {
    /// How they are encrypted; nothing, for those in clear.
    pub tls: Option<Tls>,
    /// Where every request is sent instead of being served.
    pub redirect: Option<Redirect>,
    /// The proxies that say in the PROXY protocol who the client is.
    pub relays: Vec<Network>,
}

impl Entry {
    /// Whether the connections of this address begin with the PROXY protocol.
    pub(super) fn relayed(&self, address: IpAddr) -> bool {
        self.relays.iter().any(|network| network.contains(address))
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// Requests are answered with the same URL under `https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The port of `https`.
    pub port: u16,
}

impl Redirect {
    /// Where a request for this target at this host is sent. A target that is no path, as that of `OPTIONS *`, becomes `/`.
    pub fn location(self, host: Option<&str>, target: Option<&PathAndQuery>) -> Option<String> {
        let authority: Authority = host?.parse().ok()?;
        let port = if self.port == 443 { String::new() } else { format!(":{}", self.port) };
        let target = target.map(PathAndQuery::as_str).filter(|target| target.starts_with('/')).unwrap_or("/");
        let sound = !authority.host().is_empty() && !authority.as_str().contains('@');
        sound.then(|| format!("https://{}{port}{target}", authority.host()))
    }
}

/// Where clients connect: one or several addresses, each with one bound socket for each core.
#[derive(Debug)]
pub struct Listeners {
    cores: usize,
    pub(super) listeners: Vec<Listener>,
}

/// One address.
#[derive(Debug)]
pub(super) struct Listener {
    address: SocketAddr,
    pub(super) entry: Arc<Entry>,
    pub(super) sockets: Vec<TcpListener>,
}

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct Unbound {
    address: SocketAddr,
    cause: io::Error,
}

impl Listeners {
    /// None yet.
    pub fn new(cores: usize) -> Self {
        Listeners { cores, listeners: Vec::new() }
    }

    /// Listens on `address` in clear, once for each of the `cores`. Port 0 picks a free one.
    ///
    /// # Errors
    /// When the address is taken, forbidden or not of this machine.
    pub fn bind(address: SocketAddr, cores: usize) -> Result<Self, Unbound> {
        let mut listeners = Listeners::new(cores);
        listeners.add(address, Arc::default())?;
        Ok(listeners)
    }

    /// Listens on a further address, and says which it is: port 0 picks a free one.
    ///
    /// # Errors
    /// As above.
    pub fn add(&mut self, address: SocketAddr, entry: Arc<Entry>) -> Result<SocketAddr, Unbound> {
        let unbound = |cause| Unbound { address, cause };
        // The kernel would let two processes share a port and split its clients among them, silently:
        // a socket that does not share finds out.
        let probe =
            socket(address).and_then(|socket| socket.bind(&address.into()).map(|()| socket)).map_err(unbound)?;
        drop(probe);
        let first = listen(address).map_err(unbound)?;
        let address = first.local_addr().map_err(unbound)?;
        let mut sockets = vec![first];
        for _ in 1..self.cores {
            sockets.push(listen(address).map_err(unbound)?);
        }
        self.listeners.push(Listener { address, entry, sockets });
        Ok(address)
    }

    /// Where it listens first, with the port that was picked.
    ///
    /// # Panics
    /// If it listens nowhere.
    pub fn address(&self) -> SocketAddr {
        self.listeners.first().expect("an address was added").address
    }

    /// The sockets of each core.
    pub(super) fn by_core(self) -> Vec<Vec<(TcpListener, Arc<Entry>)>> {
        let mut cores: Vec<Vec<_>> = (0..self.cores).map(|_| Vec::new()).collect();
        for Listener { entry, sockets, .. } in self.listeners {
            for (core, socket) in cores.iter_mut().zip(sockets) {
                core.push((socket, entry.clone()));
            }
        }
        cores
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
    fn a_redirect_keeps_host_and_target() {
        let location =
            |port, host, target: &str| Redirect { port }.location(Some(host), Some(&target.parse().expect("a target")));
        for (port, host, target, wanted) in [
            (443, "shop.example", "/a?b=c", Some("https://shop.example/a?b=c")),
            (443, "shop.example:80", "/", Some("https://shop.example/")),
            (8443, "[::1]:8080", "/%2f", Some("https://[::1]:8443/%2f")),
            (443, "10.0.0.1", "*", Some("https://10.0.0.1/")),
            (443, "shop.example@evil.example", "/", None),
            (443, "", "/", None),
        ] {
            assert_eq!(location(port, host, target).as_deref(), wanted);
        }
        assert_eq!(Redirect { port: 443 }.location(None, None), None);
    }

    #[test]
    fn a_taken_address_is_told_though_its_owner_shares_it() {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = Listeners::bind(free, 2).expect("a free port");
        assert_eq!(first.listeners[0].sockets.len(), 2);
        let second = Listeners::bind(first.address(), 1).expect_err("a taken port");
        assert!(second.to_string().contains("another process listens there"), "{second}");
    }
}
