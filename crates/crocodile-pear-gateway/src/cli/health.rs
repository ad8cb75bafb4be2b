//! `health`: whether a server answers, for containers and scripts that have no other client.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use crocodile_pear_probe::{ProbeTls, Scheme, Target, TlsFiles, UsageError, Verify, between, minutes};
use rustls::{ClientConnection, Stream};

use super::print::print;
use crate::runtime::threads::event_loop;

#[derive(Args)]
pub struct Health {
    /// The URL to request: http://HOST:PORT/PATH, https://HOST:PORT/PATH, or `unix:/PATH` for `/health` at a Unix
    /// socket.
    #[arg(default_value = "http://127.0.0.1:9090/health", value_parser = HealthTarget::read)]
    url: HealthTarget,
    /// Time limit for the answer, from 10ms to 5m.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = between(Duration::from_millis(10), minutes(5)))]
    timeout: Duration,
    #[command(flatten)]
    files: TlsFiles,
    /// Accept a certificate that is not trusted.
    #[arg(long)]
    insecure: bool,
}

/// A server, as written.
#[derive(Clone, Debug)]
enum HealthTarget {
    Url(Target),
    Unix(PathBuf),
}

impl HealthTarget {
    fn read(text: &str) -> Result<Self, UsageError> {
        match text.strip_prefix("unix:") {
            Some(path) => Ok(HealthTarget::Unix(path.into())),
            None => Target::read(text).map(HealthTarget::Url),
        }
    }
}

/// The longest status line that is read.
const MAX_LINE: usize = 1024;

impl Health {
    pub fn execute(self) -> ExitCode {
        match self.status() {
            Ok(status) if status.starts_with('2') => print(&format!("{status}\n")),
            Ok(status) => fail(&format!("the server answers {status}")),
            Err(reason) => fail(&reason),
        }
    }

    /// The status of the answer with its reason phrase.
    fn status(&self) -> Result<String, String> {
        let end = Instant::now() + self.timeout;
        match &self.url {
            HealthTarget::Unix(path) => {
                let socket = UnixStream::connect(path).map_err(|error| format!("{}: {error}", path.display()))?;
                let socket = Limited { socket, end, limit: UnixStream::set_read_timeout };
                ask(socket, "localhost", "/health").map_err(|error| format!("{}: {error}", path.display()))
            }
            HealthTarget::Url(target) => {
                let told = |error: io::Error| format!("{}: {error}", target.origin());
                let socket = connect(target, end).map_err(told)?;
                let mut socket = Limited { socket, end, limit: TcpStream::set_read_timeout };
                if target.scheme == Scheme::Http {
                    return ask(socket, &target.authority, &target.path).map_err(told);
                }
                let verify = if self.insecure { Verify::Not } else { Verify::Strictly };
                let trust = ProbeTls::new(&target.host, &self.files, verify).map_err(|error| error.to_string())?;
                let config = trust.any().map_err(|error| error.to_string())?;
                let connection = ClientConnection::new(config.into(), trust.name.clone());
                let mut connection = connection.map_err(|error| error.to_string())?;
                ask(Stream::new(&mut connection, &mut socket), &target.authority, &target.path).map_err(told)
            }
        }
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("error: {reason}");
    ExitCode::from(1)
}

/// Connects to the first address that accepts.
fn connect(target: &Target, end: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::other("the name has no address");
    for address in addresses(target, end)? {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left) {
            Ok(socket) => {
                socket.set_write_timeout(Some(left))?;
                return Ok(socket);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn addresses(target: &Target, end: Instant) -> io::Result<Vec<SocketAddr>> {
    // An image without files has no /etc/hosts.
    if target.host == "localhost" {
        return Ok(vec![([127, 0, 0, 1], target.port).into(), ([0u16, 0, 0, 0, 0, 0, 0, 1], target.port).into()]);
    }
    let runtime = event_loop()?;
    let found = runtime.block_on(target.resolve(end.saturating_duration_since(Instant::now())));
    // A name that is still being resolved is not waited for.
    runtime.shutdown_background();
    found.map(|(addresses, _)| addresses).map_err(|trouble| io::Error::other(trouble.to_string()))
}

/// A socket whose reads end at a deadline.
struct Limited<S> {
    socket: S,
    end: Instant,
    limit: fn(&S, Option<Duration>) -> io::Result<()>,
}

impl<S: Read> Read for Limited<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer within the time limit");
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        (self.limit)(&self.socket, Some(left))?;
        match self.socket.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(late()),
            read => read,
        }
    }
}

impl<S: Write> Write for Limited<S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

fn ask(mut socket: impl Read + Write, host: &str, path: &str) -> io::Result<String> {
    let agent = concat!("crocodile-pear/", env!("CARGO_PKG_VERSION"));
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: {agent}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    socket.flush()?;
    let mut line = Vec::new();
    let mut piece = [0; MAX_LINE];
    while !line.contains(&b'\n') && line.len() < MAX_LINE {
        match socket.read(&mut piece)? {
            0 => break,
            length => line.extend_from_slice(&piece[..length]),
        }
    }
    status(&line).ok_or_else(|| io::Error::other("the answer is not HTTP/1"))
}

/// "200 OK" of a status line.
fn status(line: &[u8]) -> Option<String> {
    let line = line.split(|&byte| byte == b'\n').next()?.strip_prefix(b"HTTP/1.")?;
    let status = std::str::from_utf8(line.get(2..)?).ok()?.trim();
    let digits = status.get(..3)?.bytes().all(|byte| byte.is_ascii_digit());
    (digits && !status.chars().any(char::is_control)).then(|| status.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_is_read_or_refused() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\ndate: now").as_deref(), Some("200 OK"));
        assert_eq!(status(b"HTTP/1.0 503\r\n").as_deref(), Some("503"));
        for wrong in
            [&b""[..], b"SSH-2.0", b"HTTP/1.1", b"HTTP/1.1 ok\r\n", b"HTTP/1.1 20\r\n", b"HTTP/1.1 200 \x1b[2J"]
        {
            assert_eq!(status(wrong), None, "{wrong:?}");
        }
    }
}
