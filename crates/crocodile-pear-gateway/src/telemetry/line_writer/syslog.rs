//! Syslog: each line is a message (RFC 5424) in a datagram of its own.

use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::telemetry::log_time;

/// Facility `local0`, severity `info` (RFC 5424, 6.2.1).
const PRIORITY: u8 = 16 * 8 + 6;

/// A longer message is cut: datagrams of many receivers end here (RFC 5424, 6.1; rsyslog's default).
const LONGEST: usize = 8 << 10;

/// So often a receiver is looked for that is not there.
const AGAIN: Duration = Duration::from_secs(1);

/// A daemon that takes no message for so long is not there.
const PATIENCE: Duration = Duration::from_secs(1);

/// A syslog daemon.
pub struct Syslog {
    to: Receiver,
    socket: Option<Socket>,
    failed: Option<Instant>,
    host: String,
    message: Vec<u8>,
}

enum Receiver {
    Local(PathBuf),
    Remote(String),
}

enum Socket {
    Local(UnixDatagram),
    Remote(UdpSocket),
}

impl Syslog {
    /// The one at a datagram socket of this machine.
    pub fn local(path: PathBuf) -> Self {
        Syslog::new(Receiver::Local(path))
    }

    /// The one at `HOST:PORT`, over UDP.
    pub fn remote(address: String) -> Self {
        Syslog::new(Receiver::Remote(address))
    }

    fn new(to: Receiver) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = if host.is_empty() { "-".to_owned() } else { host };
        Syslog { to, socket: None, failed: None, host, message: Vec::new() }
    }

    /// Sends each line; how many could not be sent.
    pub fn send(&mut self, lines: &[u8]) -> u64 {
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| u64::from(!self.send_line(line))).sum()
    }

    fn send_line(&mut self, line: &[u8]) -> bool {
        self.compose(line);
        // A daemon that was started anew has another socket, so a failure is tried once more.
        for _ in 0..2 {
            if self.socket.is_none() && !self.connect() {
                return false;
            }
            let sent = match &self.socket {
                Some(Socket::Local(socket)) => socket.send(&self.message),
                Some(Socket::Remote(socket)) => socket.send(&self.message),
                None => return false,
            };
            match sent {
                Ok(_) => return true,
                Err(_) => self.socket = None,
            }
        }
        false
    }

    fn compose(&mut self, line: &[u8]) {
        let (host, id) = (&self.host, std::process::id());
        self.message.clear();
        let now = log_time::now();
        // Writing to memory cannot fail.
        let _ = write!(self.message, "<{PRIORITY}>1 {} {host} crocodile-pear {id} access - ", now.rfc3339());
        self.message.extend_from_slice(&line[..line.len().min(LONGEST - self.message.len())]);
    }

    fn connect(&mut self) -> bool {
        if self.failed.is_some_and(|failed| failed.elapsed() < AGAIN) {
            return false;
        }
        match self.try_connect() {
            Ok(socket) => (self.socket, self.failed) = (Some(socket), None),
            Err(error) => {
                if self.failed.is_none() {
                    tracing::warn!(%error, "cannot reach syslog; lines of the access log are dropped");
                }
                self.failed = Some(Instant::now());
            }
        }
        self.socket.is_some()
    }

    fn try_connect(&self) -> io::Result<Socket> {
        match &self.to {
            Receiver::Local(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_write_timeout(Some(PATIENCE))?;
                socket.connect(path)?;
                Ok(Socket::Local(socket))
            }
            Receiver::Remote(address) => {
                let nobody = || io::Error::other("its name has no address");
                let address = address.to_socket_addrs()?.next().ok_or_else(nobody)?;
                let own: SocketAddr = match address.is_ipv4() {
                    true => ([0, 0, 0, 0], 0).into(),
                    false => ([0; 16], 0).into(),
                };
                let socket = UdpSocket::bind(own)?;
                socket.connect(address)?;
                Ok(Socket::Remote(socket))
            }
        }
    }
}
