//! The listening sockets: one for each address and core. For a Unix socket, each core has a copy.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crocodile_pear::unstable::request::facts::ClientAddress;
use http::uri::{Authority, PathAndQuery};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use super::challenge::Challenges;
use super::handover::Handover;
use super::tls::Tls;
use super::unix::{self, Mode, SocketFile};
use crate::net::address::Address;
use crate::net::cidr::Network;

/// How many connections may wait to be accepted; the kernel may use a lower bound.
pub(super) const QUEUE: i32 = 4096;

/// The interval of TCP keepalive probes. A peer that vanished is noticed after a few of them.
const PROBE: Duration = Duration::from_secs(60);

/// The settings that the connections of one listener share.
#[derive(Debug, Default)]
pub struct ListenerSettings {
    /// The TLS settings; `None` without TLS.
    pub tls: Option<Tls>,
    /// The redirect that answers every request, if set.
    pub redirect: Option<Redirect>,
    /// The proxies that send the client's address with the PROXY protocol.
    pub relays: Vec<Network>,
    /// The answers to challenges of certificate authorities, shared by all listeners.
    pub challenges: Arc<Challenges>,
}

impl ListenerSettings {
    /// Whether connections from this address begin with the PROXY protocol.
    pub(super) fn relayed(&self, address: ClientAddress) -> bool {
        self.relays.iter().any(|network| network.contains(address))
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// Redirects every request to the same URL with `https`. Copies share the port.
#[derive(Clone, Debug)]
pub struct Redirect(Arc<AtomicU16>);

impl Redirect {
    /// To this port; 0 if it is known only once the listener is bound.
    pub fn new(port: u16) -> Self {
        Redirect(Arc::new(port.into()))
    }

    /// Sets the port of a listener that was told to pick a free one.
    pub fn settle(&self, port: u16) {
        let _ = self.0.compare_exchange(0, port, Relaxed, Relaxed);
    }

    /// The URL that a request with this host and target is redirected to. A target that is not a path, such as that of
    /// `OPTIONS *`, becomes `/`.
    pub fn location(&self, host: Option<&str>, target: Option<&PathAndQuery>) -> Option<String> {
        let authority: Authority = host?.parse().ok()?;
        let port = match self.0.load(Relaxed) {
            443 => String::new(),
            port => format!(":{port}"),
        };
        let target = target.map(PathAndQuery::as_str).filter(|target| target.starts_with('/')).unwrap_or("/");
        let sound = !authority.host().is_empty() && !authority.as_str().contains('@');
        sound.then(|| format!("https://{}{port}{target}", authority.host()))
    }
}

/// The listeners: one or more addresses, each with one bound socket per core.
#[derive(Debug)]
pub struct Listeners {
    cores: usize,
    /// The role of these listeners; sockets are handed over by role and address.
    role: &'static str,
    handover: Arc<Handover>,
    pub(super) listeners: Vec<Listener>,
}

/// A listener at one address.
#[derive(Debug)]
pub(super) struct Listener {
    address: Address,
    pub(super) settings: Arc<ListenerSettings>,
    pub(super) sockets: Vec<BoundSocket>,
}

/// The listening socket of one core.
#[derive(Debug)]
pub(super) enum BoundSocket {
    Tcp(TcpListener),
    /// With its file, which all cores share.
    Unix(UnixListener, Arc<SocketFile>),
}

/// An address that could not be bound.
#[derive(Debug)]
pub struct Unbound {
    address: Address,
    cause: io::Error,
}

impl Listeners {
    /// No listeners yet. Those with a role and an address of the predecessor take its sockets.
    pub fn new(cores: usize, role: &'static str, handover: &Arc<Handover>) -> Self {
        Listeners { cores, role, handover: handover.clone(), listeners: Vec::new() }
    }

    /// Listens on `address` without TLS, once for each of the `cores`. Port 0 picks a free port.
    ///
    /// # Errors
    /// If the address is taken, forbidden, or not an address of this machine.
    pub fn bind(address: SocketAddr, cores: usize) -> Result<Self, Unbound> {
        let mut listeners = Listeners::new(cores, "listen", &Arc::default());
        listeners.add(&Address::Network(address), Mode::default(), Arc::default())?;
        Ok(listeners)
    }

    /// Listens on another address, and returns it: port 0 picks a free port. `mode` is for a Unix socket.
    ///
    /// # Errors
    /// The errors of binding, as above.
    pub fn add(&mut self, address: &Address, mode: Mode, settings: Arc<ListenerSettings>) -> Result<Address, Unbound> {
        let name = format!("{} {address}", self.role);
        let given = self.handover.take(&name);
        let bound = match address {
            Address::Network(address) if given.is_empty() => self.network(*address),
            Address::Network(_) => self.given_network(given),
            Address::Unix(path) => self.unix(path, mode, given.into_iter().next()),
        };
        let kept = bound.and_then(|(address, sockets)| self.keep(name, &sockets).map(|()| (address, sockets)));
        let (address, sockets) = kept.map_err(|cause| Unbound { address: address.clone(), cause })?;
        self.listeners.push(Listener { address: address.clone(), settings, sockets });
        Ok(address)
    }

    /// Keeps copies for a successor: of Unix sockets one, since all cores have the same.
    fn keep(&self, name: String, sockets: &[BoundSocket]) -> io::Result<()> {
        let mut copies = Vec::new();
        let mut known = None;
        for socket in sockets {
            match socket {
                BoundSocket::Tcp(socket) => copies.push(socket.try_clone()?.into()),
                BoundSocket::Unix(socket, file) if known.is_none() => {
                    copies.push(socket.try_clone()?.into());
                    known = Some(file);
                }
                BoundSocket::Unix(..) => {}
            }
        }
        self.handover.keep(name, copies, known);
        Ok(())
    }

    /// Clients wait at each socket, so all are taken. More cores than the predecessor had share them: new ones would get
    /// clients at once, and lose them if this process does not take over.
    fn given_network(&self, given: Vec<OwnedFd>) -> io::Result<(Address, Vec<BoundSocket>)> {
        let mut sockets: Vec<TcpListener> = given.into_iter().map(TcpListener::from).collect();
        let address = sockets.first().ok_or(io::ErrorKind::InvalidInput)?.local_addr()?;
        for at in sockets.len()..self.cores {
            sockets.push(sockets[at % sockets.len()].try_clone()?);
        }
        Ok((Address::Network(address), sockets.into_iter().map(BoundSocket::Tcp).collect()))
    }

    fn network(&self, address: SocketAddr) -> io::Result<(Address, Vec<BoundSocket>)> {
        match self.sockets(address) {
            // A machine without IPv6.
            Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && is_absent(&error) => {
                self.sockets((Ipv4Addr::UNSPECIFIED, address.port()).into())
            }
            bound => bound,
        }
    }

    fn sockets(&self, address: SocketAddr) -> io::Result<(Address, Vec<BoundSocket>)> {
        // The kernel would silently let two processes share a port and divide its clients. Binding a socket that does
        // not share finds out.
        socket(address)?.bind(&address.into())?;
        let first = listen(address)?;
        let address = first.local_addr()?;
        let mut sockets = vec![BoundSocket::Tcp(first)];
        for _ in 1..self.cores {
            sockets.push(BoundSocket::Tcp(listen(address)?));
        }
        Ok((Address::Network(address), sockets))
    }

    fn unix(&self, path: &Arc<Path>, mode: Mode, given: Option<OwnedFd>) -> io::Result<(Address, Vec<BoundSocket>)> {
        let (listener, file) = match given {
            Some(given) => (UnixListener::from(given), SocketFile::find(path, mode)?),
            None => unix::listen(path, mode, QUEUE)?,
        };
        let file = Arc::new(file);
        let copy = |_| Ok(BoundSocket::Unix(listener.try_clone()?, file.clone()));
        Ok((Address::Unix(path.clone()), (0..self.cores).map(copy).collect::<io::Result<_>>()?))
    }

    /// The first address, with the port that was picked.
    ///
    /// # Panics
    /// If there are no listeners.
    pub fn address(&self) -> &Address {
        &self.listeners.first().expect("an address was added").address
    }

    /// The sockets of each core: one of each listener, or several if the predecessor had more cores.
    pub(super) fn by_core(self) -> Vec<Vec<(BoundSocket, Arc<ListenerSettings>)>> {
        let mut cores: Vec<Vec<_>> = (0..self.cores).map(|_| Vec::new()).collect();
        for Listener { settings, sockets, .. } in self.listeners {
            for (at, socket) in sockets.into_iter().enumerate() {
                cores[at % self.cores].push((socket, settings.clone()));
            }
        }
        cores
    }
}

/// Whether the machine does not have this kind of address.
fn is_absent(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(code, Some(rustix::io::Errno::AFNOSUPPORT)) || error.kind() == io::ErrorKind::AddrNotAvailable
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must be possible while connections of the previous process are in TIME_WAIT.
    socket.set_reuse_address(true)?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // Every address of the machine, whatever the system's default is.
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit both options.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE).with_interval(PROBE))?;
    socket.bind(&address.into())?;
    socket.listen(QUEUE)?;
    Ok(socket.into())
}

impl fmt::Display for Unbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unbound { address, cause } = self;
        match (cause.kind(), address) {
            (kind, Address::Unix(path)) => unix(f, kind, path, cause),
            (io::ErrorKind::AddrInUse, _) => {
                write!(f, "{address} is taken: another process listens there; stop it or choose another port")
            }
            (io::ErrorKind::PermissionDenied, _) => {
                write!(f, "{address} is not allowed: ports below 1024 need a privilege; choose a higher one")
            }
            (io::ErrorKind::AddrNotAvailable, _) => write!(f, "{address} is not an address of this machine"),
            _ => write!(f, "{address} cannot be listened on: {cause}"),
        }
    }
}

/// Explains why a Unix socket cannot be bound.
fn unix(f: &mut fmt::Formatter<'_>, kind: io::ErrorKind, path: &Path, cause: &io::Error) -> fmt::Result {
    let folder = path.parent().unwrap_or(path).display();
    write!(f, "unix:{} ", path.display())?;
    match kind {
        io::ErrorKind::AddrInUse => {
            f.write_str("is taken: another process listens there; stop it or choose another path")
        }
        io::ErrorKind::AlreadyExists => f.write_str("is a file, but no socket: remove it or choose another path"),
        io::ErrorKind::NotFound => write!(f, "cannot be made: there is no folder {folder}"),
        io::ErrorKind::PermissionDenied => {
            write!(f, "is not allowed: this user may not make or replace a socket in {folder}")
        }
        _ => write!(f, "cannot be listened on: {cause}"),
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
        let location = |port, host, target: &str| {
            Redirect::new(port).location(Some(host), Some(&target.parse().expect("a target")))
        };
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
        assert_eq!(Redirect::new(443).location(None, None), None);
    }

    #[test]
    fn a_taken_address_is_told_though_its_owner_shares_it() {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = Listeners::bind(free, 2).expect("a free port");
        assert_eq!(first.listeners[0].sockets.len(), 2);
        let Address::Network(taken) = *first.address() else { panic!("no port") };
        let second = Listeners::bind(taken, 1).expect_err("a taken port");
        assert!(second.to_string().contains("another process listens there"), "{second}");
    }
}
