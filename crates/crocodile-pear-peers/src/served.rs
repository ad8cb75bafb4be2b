//! Servers on a thread and a runtime of their own, whatever runs the test: many connections, and an end to all of them.

use std::io;
use std::net::{SocketAddr, TcpListener as Listener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use rustls::ServerConfig;
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::wait::found;

/// Any port of this machine.
pub const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Gone with its connections when it is dropped, as a process is that was killed.
pub struct Served {
    pub address: SocketAddr,
    connections: Arc<AtomicU64>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Serves each connection so, and closes it then.
    pub fn begin<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output: Send> + Send + 'static,
    {
        Self::begin_on(bind(ANY.into()), serve)
    }

    /// The same for a listener that is there already.
    pub fn begin_on<F>(listener: Listener, serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let connections = Arc::<AtomicU64>::default();
        let counted = connections.clone();
        let mut served = Self::run_on(listener, move |listener| async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream));
            }
        });
        served.connections = connections;
        served
    }

    /// The same behind TLS. A handshake that fails is no connection that is served.
    pub fn secured<F>(config: ServerConfig, serve: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: Send> + Send,
    {
        let (acceptor, serve) = (TlsAcceptor::from(Arc::new(config)), Arc::new(serve));
        Self::begin(move |stream| {
            let (accept, serve) = (acceptor.accept(stream), serve.clone());
            async move {
                if let Ok(stream) = accept.await {
                    serve(stream).await;
                }
            }
        })
    }

    /// Runs whatever takes a listener, such as a framework's server. Its connections are not counted.
    pub fn run<F: Future>(serve: impl FnOnce(TcpListener) -> F + Send + 'static) -> Self {
        Self::run_on(bind(ANY.into()), serve)
    }

    /// The same for a listener that is there already.
    pub fn run_on<F: Future>(listener: Listener, serve: impl FnOnce(TcpListener) -> F + Send + 'static) -> Self {
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().expect("it is bound");
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    _ = serve(TcpListener::from_std(listener).unwrap()) => {}
                    _ = stopped => {}
                }
            });
        });
        Served { address, connections: Arc::default(), stop: Some(stop), thread: Some(thread) }
    }

    /// Leaves it to the end of the process; where it listens.
    pub fn stay(self) -> SocketAddr {
        let address = self.address;
        std::mem::forget(self);
        address
    }

    /// How many connections came.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Nothing listens and nothing is open behind this.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A listener with room for 1,024 connections that wait to be accepted. An address that is in use is waited for: a
/// program that is being started has a copy of each socket of this process until it runs.
pub fn bind(address: SocketAddr) -> Listener {
    let bind = || -> io::Result<Listener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        // What a server before this one has left need not be waited for.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(1024)?;
        Ok(socket.into())
    };
    let free = || match bind() {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        bound => Some(bound),
    };
    let bound = found(free, || format!("{address} is free"));
    bound.unwrap_or_else(|error| panic!("cannot listen on {address}: {error}"))
}
