//! A connected socket: of TCP, or a Unix socket of this machine.

use std::future::ready;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::SocketAddr as UnixAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::time::sleep;

use crate::runtime::descriptors;

/// Reads the path of a Unix socket, as written.
///
/// # Errors
/// The fault of the path, and the text to write instead.
pub fn path(text: &str) -> Result<PathBuf, (String, String)> {
    const FORM: &str = "write the whole path, from `/` on";
    let bare = text.strip_prefix("unix:").unwrap_or(text);
    let wrong = |message: String, remedy: &str| Err((message, remedy.to_owned()));
    match bare {
        "" => wrong("the path of the Unix socket is missing".to_owned(), FORM),
        _ if bare.len() < text.len() => wrong(format!("`{text}` is not a path"), &format!("write `{bare}`")),
        _ if text.starts_with('@') => wrong(format!("`{text}` is an abstract socket, which has no permissions"), FORM),
        _ if !text.starts_with('/') => wrong(format!("`{text}` is not an absolute path"), FORM),
        _ if text.ends_with('/') => {
            wrong(format!("`{text}` is a folder"), &format!("name a file in it: `{text}app.sock`"))
        }
        _ if text.contains('\0') => wrong("a path cannot have a NUL in it".to_owned(), FORM),
        _ if !fits(text) => {
            let message = format!("a path of {} bytes is too long for a Unix socket", text.len());
            let most = (0..text.len()).rev().find(|length| fits(&"a".repeat(*length))).unwrap_or_default();
            wrong(message, &format!("choose one of at most {most} bytes"))
        }
        _ => Ok(text.into()),
    }
}

fn fits(path: &str) -> bool {
    UnixAddr::from_pathname(path).is_ok()
}

/// The socket under a connection.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    /// A Unix socket. Boxed, so that a connection of TCP carries no room for it.
    Unix(Box<UnixStream>),
}

/// How often, and how far apart, a call asks for a descriptor: connections of clients that rest are closed meanwhile.
const ATTEMPTS: u32 = 50;
const APART: Duration = Duration::from_millis(5);

/// Connects to a server. Where descriptors are scarce, it waits a little for one.
///
/// # Errors
/// The errors of the system.
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let open = || if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    match open().and_then(descriptors::claim) {
        Ok(socket) => socket.connect(address).await,
        // Boxed: few calls wait for it, and all would carry the room.
        Err(error) if descriptors::is_exhausted(&error) => {
            Box::pin(patiently(|| ready(open()))).await?.connect(address).await
        }
        Err(error) => Err(error),
    }
}

/// Connects to a Unix socket, in the same way.
///
/// # Errors
/// The errors of the system.
pub async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    match UnixStream::connect(path).await.and_then(descriptors::claim) {
        Err(error) if descriptors::is_exhausted(&error) => Box::pin(patiently(|| UnixStream::connect(path))).await,
        connected => connected,
    }
}

/// Opens something as soon as there is a descriptor for it.
async fn patiently<T: AsRawFd, F: Future<Output = io::Result<T>>>(open: impl Fn() -> F) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        descriptors::want();
        sleep(APART).await;
        match open().await.and_then(descriptors::claim) {
            Err(error) if descriptors::is_exhausted(&error) => {}
            opened => return opened,
        }
    }
    open().await.and_then(descriptors::claim)
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Socket::Tcp(stream)
    }
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Socket::Unix(Box::new(stream))
    }
}

impl Socket {
    /// The address at the other end; a Unix socket has none.
    pub fn peer(&self) -> Option<IpAddr> {
        match self {
            Socket::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip()),
            Socket::Unix(_) => None,
        }
    }

    /// Waits for the first byte and leaves it where it is; `None` if there is none, or if the socket cannot look.
    ///
    /// # Errors
    /// The errors of the system call.
    pub async fn peek(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        match self {
            Socket::Tcp(stream) => Ok((stream.peek(&mut first).await? > 0).then_some(first[0])),
            Socket::Unix(_) => Ok(None),
        }
    }

    /// Waits until it is ready for this.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Socket::Tcp(stream) => stream.ready(interest).await,
            Socket::Unix(stream) => stream.ready(interest).await,
        }
    }

    /// Writes what it takes at once.
    ///
    /// # Errors
    /// `WouldBlock` if it takes nothing, and those of the system call.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.try_write(bytes),
            Socket::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Has it reset when it is dropped: nobody takes for whole what ended before its end. A Unix socket knows no reset; there the
    /// framing of HTTP alone tells.
    pub fn reset_on_drop(&self) {
        if let Socket::Tcp(stream) = self {
            // A socket that takes no option any more is closed already.
            let _ = stream.set_zero_linger();
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Socket::Unix(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Unix(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Socket::Unix(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::socket::*;

    #[test]
    fn what_is_no_path_of_a_socket_is_told_with_what_to_write() {
        assert_eq!(path("/run/app.sock"), Ok("/run/app.sock".into()));
        let long = format!("/{}", "a".repeat(200));
        for (text, message) in [
            ("", "the path of the Unix socket is missing"),
            ("unix:/run/app.sock", "`unix:/run/app.sock` is not a path"),
            ("@app", "`@app` is an abstract socket, which has no permissions"),
            ("app.sock", "`app.sock` is not an absolute path"),
            ("/run/", "`/run/` is a folder"),
            (&long, "a path of 201 bytes is too long for a Unix socket"),
        ] {
            assert_eq!(path(text).expect_err("no path").0, message);
        }
        let (_, remedy) = path(&long).expect_err("too long");
        let most: usize = remedy.split(' ').nth(5).and_then(|most| most.parse().ok()).expect("a number");
        assert!(
            path(&format!("/{}", "a".repeat(most - 1))).is_ok() && path(&format!("/{}", "a".repeat(most))).is_err()
        );
    }

    #[test]
    fn a_unix_socket_makes_a_connection_of_tcp_no_larger() {
        assert_eq!(size_of::<Socket>(), size_of::<TcpStream>());
    }
}
