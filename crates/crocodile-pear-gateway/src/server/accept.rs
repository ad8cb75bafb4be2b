//! For each core: one thread, one runtime, and one socket of each listener. Cores share nothing that a request touches.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::request::facts::ClientAddress;
use crocodile_pear::unstable::runtime::socket::Socket;
use crocodile_pear::unstable::runtime::{descriptors, detached};
use futures_util::FutureExt;
use futures_util::future::join_all;
use rustix::net::{self, SocketFlags};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::handler::Handler;
use super::idle::IdleConnections;
use super::io::Io;
use super::listen::{BoundSocket, ListenerSettings, Listeners, QUEUE};
use super::occupancy::{ConnectionPlace, Occupancy};
use super::request::Connection;
use super::settings::Settings;
use super::shared::CoreState;
use super::shutdown::{Phase, Shutdown};
use super::tls::{Protocol, Secured};
use super::unix::SocketFile;
use super::{http1, http2, relay};
use crate::runtime::threads::{no_event_loop, unavailable};

/// How long accepting pauses when file descriptors or memory run out.
const BACK_OFF: Duration = Duration::from_millis(100);

/// How many tasks run before the runtime checks its sockets again. A connection may take 250 us each time
/// (`http2/turn.rs`): with tokio's default of 61, a few busy connections would delay a new request by 15 ms.
const EVENTS: u32 = 16;

/// Serves until the shutdown is complete. `make` makes the handler of each core, on that core's runtime.
///
/// # Errors
/// If a core cannot start, or panicked.
pub fn serve<H: Handler>(
    listeners: Listeners,
    settings: &Settings,
    shutdown: &Shutdown,
    make: impl Fn(usize) -> H + Sync,
) -> io::Result<()> {
    let make = &make;
    let occupancy = settings.per_address.map(|most| Occupancy::new(most, settings.ipv6_prefix));
    let by_core = listeners.by_core();
    let idle = IdleConnections::new(by_core.len(), settings.descriptors);
    thread::scope(|scope| {
        let mut cores = Vec::new();
        for (index, sockets) in by_core.into_iter().enumerate() {
            let phase = shutdown.follow();
            let (occupancy, idle) = (occupancy.clone(), idle.clone());
            let core = move || CoreState::new(settings.clone(), make(index), occupancy, (index, idle));
            let name = format!("core-{index}");
            let thread = thread::Builder::new().name(name.clone()).stack_size(settings.stack);
            let own = name.clone();
            let run = move || {
                let runtime = runtime().map_err(|error| no_event_loop(&own, &error))?;
                runtime.block_on(run(sockets, phase, core))
            };
            match thread.spawn_scoped(scope, run) {
                Ok(core) => cores.push(core),
                Err(error) => {
                    shutdown.end();
                    return Err(unavailable(&name, &error));
                }
            }
        }
        let ends = cores.into_iter().map(|core| core.join().map_err(|_| io::Error::other("a core panicked"))?);
        ends.fold(Ok(()), Result::and)
    })
}

fn runtime() -> io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread().enable_all().event_interval(EVENTS).build()
}

/// Runs one core from start to end.
async fn run<H: Handler>(
    sockets: Vec<(BoundSocket, Arc<ListenerSettings>)>,
    mut phase: watch::Receiver<Phase>,
    make: impl FnOnce() -> CoreState<H>,
) -> io::Result<()> {
    let core = Arc::new(make());
    let slots = Arc::new(Semaphore::new(core.settings.max_connections as usize));
    // On one core: the connections that leave may be of any. Those of operators do not leave for calls.
    let makes_room = core.number == 0 && core.settings.descriptors.is_some();
    let making_room = makes_room.then(|| tokio::spawn(make_room(core.clone())));
    let accepting = sockets.into_iter().map(|(socket, settings)| {
        let listener =
            CoreListener { socket: AcceptSocket::new(socket)?, settings, slots: slots.clone(), core: core.clone() };
        Ok(listener.accept(phase.clone()))
    });
    let accepting: Vec<_> = accepting.collect::<io::Result<_>>()?;
    join_all(accepting).await;
    core.drain();
    let last = async {
        let _ = slots.acquire_many(core.settings.max_connections).await;
        // What goes on without its client has this time, too.
        detached::idle().await;
    };
    let ended = tokio::select! {
        biased;
        ended = timeout(core.settings.drain, last) => ended.is_ok(),
        _ = phase.wait_for(|phase| *phase == Phase::Over) => false,
    };
    if !ended {
        core.handler.cuts_off();
    }
    making_room.inspect(JoinHandle::abort);
    Ok(())
}

/// Makes room for calls.
async fn make_room<H: Handler>(core: Arc<CoreState<H>>) {
    loop {
        descriptors::wanted().await;
        core.handler.connections_closed_for_room(core.idle.make_room());
    }
}

/// A socket that accepts connections.
enum AcceptSocket {
    Tcp(TcpListener),
    /// With its socket file, while it listens.
    Unix(UnixListener, Option<Arc<SocketFile>>),
}

impl AcceptSocket {
    fn new(bound: BoundSocket) -> io::Result<Self> {
        match bound {
            BoundSocket::Tcp(socket) => TcpListener::from_std(socket).map(AcceptSocket::Tcp),
            BoundSocket::Unix(socket, file) => Ok(AcceptSocket::Unix(UnixListener::from_std(socket)?, Some(file))),
        }
    }

    async fn accept(&self) -> io::Result<(Socket, ClientAddress)> {
        match self {
            AcceptSocket::Tcp(listener) => listener.accept().await.map(|(stream, peer)| (stream.into(), peer.into())),
            AcceptSocket::Unix(listener, _) => {
                listener.accept().await.map(|(stream, _)| (stream.into(), ClientAddress::Unix))
            }
        }
    }

    /// Accepts a connection that waits in the system's queue. The runtime does not know of connections that came after its last look
    /// at the sockets.
    fn accept_waiting(&self) -> io::Result<(Socket, ClientAddress)> {
        let accepted = net::accept_with(self.as_fd(), SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        match self {
            AcceptSocket::Tcp(_) => {
                let stream = TcpStream::from_std(accepted.into())?;
                let peer = stream.peer_addr()?;
                Ok((stream.into(), peer.into()))
            }
            AcceptSocket::Unix(..) => Ok((UnixStream::from_std(accepted.into())?.into(), ClientAddress::Unix)),
        }
    }

    /// Shows how many descriptors are open.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            AcceptSocket::Tcp(listener) => listener.as_fd(),
            AcceptSocket::Unix(listener, _) => listener.as_fd(),
        }
    }

    /// Stops listening. The last core to do so removes the file of a Unix socket.
    fn stop_listening(&mut self) {
        if let AcceptSocket::Unix(_, file) = self {
            file.take();
        }
    }
}

/// A listener's socket at one core.
struct CoreListener<H> {
    socket: AcceptSocket,
    settings: Arc<ListenerSettings>,
    slots: Arc<Semaphore>,
    core: Arc<CoreState<H>>,
}

impl<H: Handler> CoreListener<H> {
    /// Accepts connections until the core drains.
    async fn accept(mut self, mut phase: watch::Receiver<Phase>) {
        let mut warned = None;
        loop {
            let accepted = tokio::select! {
                biased;
                _ = phase.wait_for(|phase| *phase >= Phase::Draining) => break,
                accepted = self.one() => accepted,
            };
            if let Err(error) = accepted {
                back_off(&error, &mut warned).await;
            }
        }
        self.socket.stop_listening();
        // Clients in the accept queue are already connected from their point of view, so these are served. New clients may come all the
        // time: no more are taken than can wait.
        for _ in 0..QUEUE {
            let Ok(slot) = self.slots.clone().try_acquire_owned() else { break };
            if self.room().now_or_never().is_none() {
                break;
            }
            match self.socket.accept_waiting() {
                Ok((stream, peer)) => self.begin(slot, stream, peer),
                // The client left while it waited.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::NotConnected) => {}
                Err(_) => break,
            }
        }
    }

    /// Accepts one connection as soon as the limits allow.
    async fn one(&self) -> io::Result<()> {
        let slot = self.slots.clone().acquire_owned().await.map_err(io::Error::other)?;
        self.room().await;
        let (stream, peer) = self.socket.accept().await?;
        self.begin(slot, stream, peer);
        Ok(())
    }

    /// Waits until there is a descriptor for another connection.
    async fn room(&self) {
        let closed = |count| self.core.handler.connections_closed_for_room(count);
        self.core.idle.room(&self.socket.as_fd(), closed).await;
    }

    /// Begins to serve a connection, unless its client has too many.
    fn begin(&self, slot: OwnedSemaphorePermit, stream: Socket, peer: ClientAddress) {
        descriptors::note(&stream.as_fd());
        if self.core.settings.evicts.is_some_and(|most| self.core.idle.evict(most)) {
            self.core.handler.connections_closed_for_room(1);
        }
        let idle = self.core.idle.begin(self.core.number);
        let relayed = self.settings.relayed(peer);
        let place = match relayed {
            // The limit counts the client behind the proxy, not the proxy.
            true => None,
            false => match self.core.admit(peer.ip()) {
                Some(place) => place,
                None => return refuse(stream),
            },
        };
        let (core, listener) = (self.core.clone(), self.settings.clone());
        let leaving = core.settings.evicts.map(|_| idle.leaving());
        let serving = async move {
            let (mut stream, mut peer, mut place) = (stream, peer, place);
            if relayed {
                match Box::pin(idle.until_told(relayed_client(&mut stream, peer, &core))).await.flatten() {
                    Some(client) => (peer, place) = client,
                    None => return refuse(stream),
                }
            }
            let opened = match listener.tls {
                None => Some(HandshakedConnection::clear(stream)),
                Some(_) => {
                    let first = Box::pin(idle.until_told(is_plain(&stream, core.settings.header))).await;
                    match first {
                        None => return,
                        Some(true) => {
                            if let Some(tls) = &listener.tls {
                                tls.count_plain();
                            }
                            let connection = Arc::new(Connection::new(peer, listener));
                            let refusing = http1::refuse_plain(Io::clear(stream), connection, core, &idle);
                            return Box::pin(refusing).await;
                        }
                        // Boxed: the handshake is short, and its size would be added to the connection's future.
                        Some(false) => {
                            let shaking = handshake(stream, &listener, core.settings.header);
                            Box::pin(idle.until_told(shaking)).await.flatten()
                        }
                    }
                }
            };
            let Some(HandshakedConnection { io, protocol, secured }) = opened else { return };
            let connection = Arc::new(Connection { secured, ..Connection::new(peer, listener) });
            let _open = CountedConnection::new(&core);
            match protocol {
                Protocol::Http1 => http1::serve(io, connection, core.clone(), &idle).await,
                // Boxed: its size would be added to the future of every HTTP/1.1 connection.
                Protocol::Http2 => {
                    Box::pin(http2::serve(io, Bytes::new(), connection, core.clone(), &idle)).await;
                }
            }
            drop((slot, place, idle));
        };
        match leaving {
            // Even in the middle of a request.
            Some(leaving) => drop(tokio::spawn(async move { leaving.until_told(serving).await })),
            None => drop(tokio::spawn(serving)),
        }
    }
}

/// Counts a connection as open until it is dropped.
struct CountedConnection<H: Handler>(Arc<CoreState<H>>);

impl<H: Handler> CountedConnection<H> {
    fn new(core: &Arc<CoreState<H>>) -> Self {
        core.handler.connection_opened();
        CountedConnection(core.clone())
    }
}

impl<H: Handler> Drop for CountedConnection<H> {
    fn drop(&mut self) {
        self.0.handler.connection_closed();
    }
}

/// Resets the connection: it is dropped without a clean close.
fn refuse(stream: Socket) {
    drop(Io::clear(stream));
}

/// Reads the client's address from the proxy and counts the client against its limit.
async fn relayed_client<H: Handler>(
    stream: &mut Socket,
    proxy: ClientAddress,
    core: &CoreState<H>,
) -> Option<(ClientAddress, Option<ConnectionPlace>)> {
    let client = match timeout(core.settings.header, relay::read(stream)).await {
        Ok(Ok(client)) => client.unwrap_or(proxy),
        Ok(Err(error)) => {
            tracing::debug!(%proxy, %error, "a connection without a header of the PROXY protocol");
            return None;
        }
        Err(_) => {
            tracing::debug!(%proxy, "the header of the PROXY protocol took too long to arrive");
            return None;
        }
    };
    Some((client, core.admit(client.ip())?))
}

/// A connection that is ready for HTTP.
struct HandshakedConnection {
    io: Io,
    protocol: Protocol,
    secured: Option<Box<Secured>>,
}

impl HandshakedConnection {
    fn clear(stream: Socket) -> Self {
        HandshakedConnection { io: Io::clear(stream), protocol: Protocol::Http1, secured: None }
    }
}

/// Whether the first byte is that of a method and not of a handshake (22).
async fn is_plain(stream: &Socket, limit: Duration) -> bool {
    let first = timeout(limit, stream.peek()).await;
    matches!(first, Ok(Ok(Some(first))) if first.is_ascii_uppercase())
}

/// Does the TLS handshake, within `limit`.
async fn handshake(stream: Socket, listener: &ListenerSettings, limit: Duration) -> Option<HandshakedConnection> {
    let (stream, protocol, secured) = listener.tls.as_ref()?.accept(stream, limit, &listener.challenges).await?;
    Some(HandshakedConnection { io: Io::tls(stream), protocol, secured: Some(Box::new(secured)) })
}

async fn back_off(error: &io::Error, warned: &mut Option<Instant>) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        return;
    }
    if warned.is_none_or(|last| last.elapsed() >= Duration::from_secs(1)) {
        *warned = Some(Instant::now());
        tracing::warn!(%error, "cannot accept connections for now");
    }
    sleep(BACK_OFF).await;
}
