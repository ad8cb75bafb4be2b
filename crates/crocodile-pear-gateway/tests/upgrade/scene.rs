//! A gateway whose endpoint `/chat` allows an upgrade, and the two ends of its connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::stage::PATIENCE;
use crate::stage::gateway::Gateway;

static SCENES: AtomicUsize = AtomicUsize::new(0);

pub struct Scene {
    pub gateway: Gateway,
    pub file: PathBuf,
    pub listener: TcpListener,
}

/// An end of a connection.
pub struct Peer(pub TcpStream);

/// The way a connection ends for one side.
#[derive(Debug, PartialEq, Eq)]
pub enum Close {
    Clean,
    Reset,
}

pub const ASK: &str = "GET /chat HTTP/1.1\r\nhost: h\r\nconnection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n\r\n";
pub const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";

impl Scene {
    /// With `upgrade` as it is written at the endpoint, and these lines of the document.
    pub fn new(upgrade: &str, lines: &str) -> Self {
        Self::with(|upstream| config(upgrade, lines, upstream))
    }

    /// With this configuration, made for the upstream's address.
    pub fn with(config: impl FnOnce(&str) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("upgrade-{}.yaml", SCENES.fetch_add(1, Ordering::Relaxed));
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&file, config(&listener.local_addr().unwrap().to_string())).unwrap();
        let gateway = Gateway::run(&file);
        Scene { gateway, file, listener }
    }

    pub fn connect(&self) -> Peer {
        Peer::new(TcpStream::connect(self.gateway.address).unwrap())
    }

    pub fn accept(&self) -> Peer {
        Peer::new(self.listener.accept().unwrap().0)
    }

    /// Both ends of a new tunnel.
    pub fn tunnel(&self) -> (Peer, Peer) {
        let mut client = self.connect();
        client.send(ASK);
        let mut upstream = self.accept();
        upstream.head();
        upstream.send(SWITCH);
        assert!(client.head().starts_with("HTTP/1.1 101 Switching Protocols\n"));
        (client, upstream)
    }
}

pub fn config(upgrade: &str, lines: &str, upstream: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nthreads: 1\n{lines}\n\
         upstreams: {{ chat: {{ url: 'http://{upstream}/v1', forward: [origin] }} }}\n\
         endpoints:\n\
         \x20 GET /chat: {{ {upgrade}, pipeline: [request: chat /room?*] }}\n\
         \x20 POST /chat: {{ {upgrade}, pipeline: [request: chat /room] }}\n\
         \x20 GET /plain: chat /plain\n"
    )
}

impl Peer {
    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Peer(stream)
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// The next head, its lines ending in LF.
    pub fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.exactly(1));
        }
        String::from_utf8(head).unwrap().replace('\r', "")
    }

    pub fn exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// For so long nothing comes, not even an end.
    pub fn quiet(&mut self, time: Duration) {
        self.0.set_read_timeout(Some(time)).unwrap();
        let read = self.0.read(&mut [0; 16]);
        assert!(matches!(&read, Err(error) if error.kind() == ErrorKind::WouldBlock), "{read:?}");
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    /// Sends the end of this direction.
    pub fn end(&mut self) {
        self.0.shutdown(Shutdown::Write).unwrap();
    }

    /// The connection is broken off.
    pub fn reset(self) {
        socket2::SockRef::from(&self.0).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// The bytes up to the end, and which end that is.
    pub fn rest(&mut self) -> (Vec<u8>, Close) {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => (rest, Close::Clean),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => (rest, Close::Reset),
            Err(error) => panic!("{error} after {}", rest.escape_ascii()),
        }
    }
}
