//! The sockets that are handed over, by the name of their listener.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use super::super::unix::SocketFile;
use super::post::{MOST, SocketEnd};

/// The name that stands behind the last listener. No listener has it.
const END: &[u8] = b"";

/// Listeners with their sockets.
#[derive(Debug, Default)]
pub(super) struct Doors(Vec<Door>);

#[derive(Debug)]
struct Door {
    name: String,
    sockets: Vec<OwnedFd>,
    /// The file of a Unix socket. The process that listens last removes it.
    file: Weak<SocketFile>,
}

impl Doors {
    pub(super) fn add(&mut self, name: String, sockets: Vec<OwnedFd>, file: Option<&Arc<SocketFile>>) {
        self.0.push(Door { name, sockets, file: file.map(Arc::downgrade).unwrap_or_default() });
    }

    /// The sockets of the first listener with this name.
    pub(super) fn take(&mut self, name: &str) -> Vec<OwnedFd> {
        match self.0.iter().position(|door| door.name == name) {
            Some(at) => self.0.remove(at).sockets,
            None => Vec::new(),
        }
    }

    /// The files of Unix sockets.
    pub(super) fn files(&self) -> impl Iterator<Item = Arc<SocketFile>> {
        self.0.iter().filter_map(|door| door.file.upgrade())
    }

    /// Sends all of them but Unix sockets whose file is gone, or another one's: no client finds these.
    pub(super) fn send(&self, successor: &SocketEnd) -> io::Result<()> {
        let lost = |door: &&Door| door.file.upgrade().is_some_and(|file| !file.is_there());
        for door in self.0.iter().filter(|door| !lost(door)) {
            for part in door.sockets.chunks(MOST) {
                successor.send(door.name.as_bytes(), part)?;
            }
        }
        successor.send(END, &[])
    }

    pub(super) fn receive(predecessor: &SocketEnd) -> io::Result<Self> {
        let mut doors = Doors::default();
        loop {
            let (name, sockets) = predecessor.receive()?;
            if name == END {
                return Ok(doors);
            }
            let name = String::from_utf8(name).map_err(|_| io::ErrorKind::InvalidData)?;
            match doors.0.last_mut().filter(|door| door.name == name && door.sockets.len().is_multiple_of(MOST)) {
                Some(door) => door.sockets.extend(sockets),
                None => doors.add(name, sockets, None),
            }
        }
    }
}
