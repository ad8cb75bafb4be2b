//! Where a journal's thread writes to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::syslog::Syslog;

/// So often one is opened that could not be.
const AGAIN: Duration = Duration::from_secs(1);

/// A pipe takes so much whole (PIPE_BUF on Linux), so that other lines of the process come between lines only.
const WHOLE: usize = 4096;

/// A destination, while it is written to.
pub struct Sink {
    to: Destination,
    open: Option<OpenDestination>,
    /// When it was last tried in vain.
    failed: Option<Instant>,
}

enum OpenDestination {
    /// The standard error stream, without the lock of the standard library: a full pipe must not hold those who log.
    Stderr(File),
    File(File),
    Syslog(Syslog),
}

impl Sink {
    /// Opens it. What cannot be opened is tried again as long as there are lines for it.
    pub fn new(to: &Destination) -> Self {
        let mut sink = Sink { to: to.clone(), open: None, failed: None };
        sink.open();
        sink
    }

    /// Writes whole lines; how many of them it could not write.
    pub fn write(&mut self, lines: &[u8]) -> u64 {
        if self.open.is_none() && self.failed.is_none_or(|failed| failed.elapsed() >= AGAIN) {
            self.open();
        }
        let written = match &mut self.open {
            None => return count(lines),
            Some(OpenDestination::Stderr(stream)) => pieces(lines).try_for_each(|piece| stream.write_all(piece)),
            Some(OpenDestination::File(file)) => file.write_all(lines),
            Some(OpenDestination::Syslog(syslog)) => return syslog.send(lines),
        };
        let Err(error) = written else { return 0 };
        self.fail(&error);
        count(lines)
    }

    fn open(&mut self) {
        let opened = match &self.to {
            Destination::Stderr => {
                io::stderr().as_fd().try_clone_to_owned().map(|own| OpenDestination::Stderr(own.into()))
            }
            Destination::File(path) => create(path).map(OpenDestination::File),
            Destination::Syslog(path) => Ok(OpenDestination::Syslog(Syslog::local(path.clone()))),
            Destination::RemoteSyslog(address) => Ok(OpenDestination::Syslog(Syslog::remote(address.clone()))),
        };
        match opened {
            Ok(open) => (self.open, self.failed) = (Some(open), None),
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &io::Error) {
        // Where the log itself goes, no line would say that it cannot be written.
        if self.failed.is_none() && self.to != Destination::Stderr {
            tracing::warn!(%error, to = %self.to, "cannot write the access log; its lines are dropped");
        }
        (self.open, self.failed) = (None, Some(Instant::now()));
    }
}

/// Others may not read it: it has the addresses of clients.
fn create(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

fn count(lines: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', lines).count() as u64
}

/// Whole lines in pieces that a pipe takes whole, unless a line is longer.
fn pieces(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let end = match rest.len() {
            0 => return None,
            length if length <= WHOLE => length,
            _ => memchr::memrchr(b'\n', &rest[..WHOLE])
                .or_else(|| memchr::memchr(b'\n', rest))
                .map_or(rest.len(), |at| at + 1),
        };
        let (piece, left) = rest.split_at(end);
        rest = left;
        Some(piece)
    })
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Destination::Stderr => f.write_str("stderr"),
            Destination::File(path) => path.display().fmt(f),
            Destination::Syslog(path) => write!(f, "syslog:{}", path.display()),
            Destination::RemoteSyslog(address) => write!(f, "syslog://{address}"),
        }
    }
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The standard error stream.
    Stderr,
    /// A file, opened again when the gateway is told to.
    File(PathBuf),
    /// A syslog daemon, at a datagram socket of this machine.
    Syslog(PathBuf),
    /// A syslog daemon elsewhere, over UDP: `HOST:PORT`.
    RemoteSyslog(String),
}

#[cfg(test)]
mod tests {
    use super::super::sink::*;

    #[test]
    fn a_piece_ends_with_a_line() {
        let line = |length: usize| format!("{}\n", "x".repeat(length));
        let text = line(3000) + &line(1000) + &line(500) + &line(5000) + &line(1);
        let lengths: Vec<usize> = pieces(text.as_bytes()).map(<[u8]>::len).collect();
        assert_eq!(lengths, [4002, 501, 5001, 2]);
        assert_eq!(count(text.as_bytes()), 5);
    }
}
