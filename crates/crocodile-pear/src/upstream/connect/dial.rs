//! A socket that is connected to a server, over TCP or at a path, and what a failure means.

use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

use crate::error::Kind;
use crate::net::connect_error::ConnectFault;
use crate::offload;
use crate::runtime::{descriptors, socket};

/// The message for the client.
pub(crate) const LATE: &str = "connecting timed out";

/// After this time, a second attempt begins beside the first. The kernel repeats a packet that was lost, or that
/// found the server's queue full, only after a second.
const AGAIN: Duration = Duration::from_millis(200);

/// The cost of opening a connection, in units of work: some forty microseconds.
const CONNECTION: u64 = 1_000;

/// Connects to an address.
///
/// # Errors
/// Why that failed, for the client and for the operator.
pub(crate) async fn connect(address: SocketAddr) -> Result<TcpStream, ConnectFault> {
    let stream = dial(address).await.map_err(|error| {
        let (kind, told) = explain(&error);
        ConnectFault::new(kind, told, format!("{address}: {error}")).caused_by(error)
    })?;
    // A head is written whole, so Nagle's algorithm would only delay it. Calls also work without the option.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// The first connection of two attempts. Errors of the second are ignored: the first still runs.
async fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    // An `each` may open hundreds at once.
    offload::spend(CONNECTION);
    let mut first = pin!(socket::connect(address));
    // Boxed: calls carry the room while their connection is opened, and most connections are there long before.
    let mut second = Box::pin(async {
        sleep(AGAIN).await;
        match socket::connect(address).await {
            Ok(stream) => stream,
            Err(_) => pending().await,
        }
    });
    poll_fn(|cx| match first.as_mut().poll(cx) {
        Poll::Ready(connected) => Poll::Ready(connected),
        Poll::Pending => second.as_mut().poll(cx).map(Ok),
    })
    .await
}

/// The time between two attempts at a Unix socket whose queue is full.
const QUEUED: Duration = Duration::from_millis(5);

/// Connects to a Unix socket.
///
/// # Errors
/// The errors of [`connect`].
pub(crate) async fn connect_unix(path: &Path) -> Result<UnixStream, ConnectFault> {
    loop {
        match socket::connect_unix(path).await {
            Ok(stream) => return Ok(stream),
            // Where TCP would wait for a place in the queue, a Unix socket refuses.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(QUEUED).await,
            Err(error) => {
                let (kind, told) = explain(&error);
                return Err(ConnectFault::new(kind, told, format!("{}: {error}", path.display())).caused_by(error));
            }
        }
    }
}

/// The cause for the client, without an address.
fn explain(error: &io::Error) -> (Kind, &'static str) {
    if descriptors::is_exhausted(error) {
        return (Kind::Busy, "no further connection can be opened");
    }
    match error.kind() {
        io::ErrorKind::TimedOut => (Kind::Timeout, LATE),
        io::ErrorKind::AddrNotAvailable => (Kind::Busy, "no further connection can be opened"),
        io::ErrorKind::ConnectionRefused => (Kind::Unreachable, "connection refused"),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            (Kind::Unreachable, "no route to the upstream")
        }
        _ => (Kind::Unreachable, "connection failed"),
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Waker};

    use tokio::net::TcpSocket;
    use tokio::time::Instant;

    use super::super::dial::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_full_queue_dropped_is_sent_again_soon() {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        // The shortest queue has room for one.
        let listener = socket.listen(0).expect("a listener");
        let address = listener.local_addr().expect("bound");
        let _queued = TcpStream::connect(address).await.expect("room");
        let mut connecting = pin!(dial(address));
        assert!(connecting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        listener.accept().await.expect("the one in the queue");
        // This timer is the only thing to wait for, so the paused clock jumps to it.
        let begun = Instant::now();
        connecting.await.expect("a connection");
        assert!((AGAIN..AGAIN * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_refusal_is_told_at_once() {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let address = socket.local_addr().expect("bound");
        let refused = dial(address).await.expect_err("nobody listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
