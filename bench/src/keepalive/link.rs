//! A link that takes its time, each way.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::Result;

/// A proxy that hands on bytes after a delay. The two trips of TCP's handshake, which loopback does at once, are added
/// to the first bytes.
pub async fn link(to: SocketAddr, delay: Duration) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::task::spawn_local(async move {
        while let Ok((near, _)) = listener.accept().await {
            tokio::task::spawn_local(async move {
                let Ok(far) = TcpStream::connect(to).await else { return };
                let _ = (near.set_nodelay(true), far.set_nodelay(true));
                let ((near_out, near_in), (far_out, far_in)) = (near.into_split(), far.into_split());
                tokio::task::spawn_local(carry(near_out, far_in, delay, 2 * delay));
                carry(far_out, near_in, delay, Duration::ZERO).await;
            });
        }
    });
    Ok(address)
}

/// Pieces under way at most: the bench sends one at a time.
const PIECES: usize = 64;

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration, mut first: Duration) {
    let (sender, mut pieces) = mpsc::channel::<(tokio::time::Instant, Vec<u8>)>(PIECES);
    let read = async move {
        loop {
            let mut piece = Vec::with_capacity(16 << 10);
            if !matches!(from.read_buf(&mut piece).await, Ok(1..)) {
                return;
            }
            let due = tokio::time::Instant::now() + delay + std::mem::take(&mut first);
            if sender.send((due, piece)).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
