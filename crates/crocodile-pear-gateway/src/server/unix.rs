//! Listens at a Unix socket: creates its file, replaces one that was left behind, and removes it at the end.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{Domain, SockAddr, Socket, Type};

/// The permissions of a socket's file: only users who may write to it can connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u32);

impl Default for Mode {
    /// For the gateway's user and group. A proxy in front can be given that group.
    fn default() -> Self {
        Mode(0o660)
    }
}

/// The file of a socket. It is removed on drop, unless another socket has replaced it, or another process owns it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: Arc<Path>,
    id: (u64, u64),
    mode: Mode,
    owned: AtomicBool,
}

impl SocketFile {
    /// The file at this path, whose socket this process was given; it is another process's still.
    pub(super) fn find(path: &Arc<Path>, mode: Mode) -> io::Result<Self> {
        let id = id(&fs::symlink_metadata(path)?);
        Ok(SocketFile { path: path.clone(), id, mode, owned: AtomicBool::new(false) })
    }

    /// Makes this process the one that removes the file, or leaves that to another.
    pub(super) fn own(&self, owned: bool) {
        self.owned.store(owned, Ordering::Relaxed);
    }

    /// Sets the permissions, which may be other ones than those of the process before.
    pub(super) fn permit(&self) -> io::Result<()> {
        fs::set_permissions(&self.path, Permissions::from_mode(self.mode.0))
    }

    /// Whether the file is there and no other.
    pub(super) fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|known| id(&known) == self.id)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.owned.load(Ordering::Relaxed) && self.is_there() {
            // If this fails, the file stays, and the next process that listens there replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn id(known: &Metadata) -> (u64, u64) {
    (known.dev(), known.ino())
}

/// Listens at this path.
///
/// # Errors
/// `AddrInUse` if another process listens there, `AlreadyExists` if the file is not a socket, and errors of the system.
pub(super) fn listen(path: &Arc<Path>, mode: Mode, queue: i32) -> io::Result<(UnixListener, SocketFile)> {
    clear(path)?;
    let socket = socket()?;
    // `bind` makes the file with these permissions or, because of the umask, with fewer. It never has more.
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(mode.0))?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile::find(path, mode)?;
    file.own(true);
    // Before `listen`: nobody can connect until then.
    file.permit()?;
    socket.listen(queue)?;
    Ok((socket.into(), file))
}

fn socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Removes the file that a dead process left behind.
fn clear(path: &Path) -> io::Result<()> {
    let known = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        known => known?,
    };
    if !known.file_type().is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    match socket()?.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A full queue means that a process owns the socket.
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> Arc<Path> {
        std::env::temp_dir().join(format!("crocodile-pear-{}-{name}.sock", std::process::id())).into()
    }

    #[test]
    fn what_is_left_over_is_replaced_and_what_is_in_use_is_not() {
        let path = place("left");
        drop(UnixListener::bind(&path).expect("a new file"));
        let (listener, file) = listen(&path, Mode::default(), 1).expect("what is left over is replaced");
        let again = listen(&path, Mode::default(), 1).expect_err("it is in use");
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        let address = SockAddr::unix(&*path).expect("an address");
        let connect = |_| {
            let socket = socket().expect("a socket");
            socket.connect(&address).is_ok().then_some(socket)
        };
        // Fills the accept queue, which the kernel makes slightly longer than requested.
        let waiting: Vec<Socket> = (0..10).map_while(connect).collect();
        assert!(waiting.len() < 10);
        assert_eq!(listen(&path, Mode::default(), 1).expect_err("it is in use").kind(), io::ErrorKind::AddrInUse);
        drop((listener, file));
        assert!(!path.exists());
    }

    #[test]
    fn who_may_connect_is_the_mode() {
        let path = place("mode");
        let (_listener, _file) = listen(&path, Mode(0o640), 1).expect("a new file");
        let mode = fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn another_socket_at_its_path_is_not_removed() {
        let path = place("other");
        // Kept open, so that no other file can get the same inode number.
        let (_replaced, file) = listen(&path, Mode::default(), 1).expect("a new file");
        fs::remove_file(&path).expect("the file");
        let (_listener, _other) = listen(&path, Mode::default(), 1).expect("a new file");
        drop(file);
        assert!(path.exists());
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let path = place("text");
        fs::write(&path, "text").expect("a file");
        let refused = listen(&path, Mode::default(), 1).expect_err("no socket");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(&path).expect("the file");
    }
}
