//! A way to a server that can be made worse: slow, silent, broken.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crocodile_pear_peers::served::{ANY, Served, bind};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

/// The handling of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Bytes pass.
    Open,
    /// They pass after this time.
    Slow(Duration),
    /// They wait, and new connections too.
    Silent,
    /// They pass; new connections wait.
    Full,
    /// Each connection is reset.
    Reset,
    /// Each connection gets bytes that mean nothing, and is closed.
    Garbage,
}

/// A way to a server.
pub struct Relay {
    pub address: SocketAddr,
    way: watch::Sender<Way>,
    came: Arc<AtomicUsize>,
    _served: Served,
}

impl Relay {
    /// To the server at this address.
    pub fn to(server: SocketAddr) -> Self {
        let (way, changes) = watch::channel(Way::Open);
        let came = Arc::<AtomicUsize>::default();
        let coming = came.clone();
        let served = Served::begin_on(bind(ANY.into()), move |stream| {
            coming.fetch_add(1, Ordering::Relaxed);
            relay(stream, server, changes.clone())
        });
        Relay { address: served.address, way, came, _served: served }
    }

    /// How many connections have come.
    pub fn came(&self) -> usize {
        self.came.load(Ordering::Relaxed)
    }

    /// From now on, also for connections that are there.
    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

async fn relay(mut client: TcpStream, server: SocketAddr, mut way: watch::Receiver<Way>) {
    let Some(()) = passes(&mut client, &mut way).await else { return };
    let Ok(server) = TcpStream::connect(server).await else { return reset(&client) };
    let _ = server.set_nodelay(true);
    let ((client_reads, client_writes), (server_reads, server_writes)) = (client.into_split(), server.into_split());
    let up = copy(client_reads, server_writes, way.clone());
    let down = copy(server_reads, client_writes, way.clone());
    let broken = async { way.wait_for(|way| matches!(way, Way::Reset | Way::Garbage)).await.map(|way| *way) };
    tokio::select! {
        _ = async { tokio::join!(up, down) } => {}
        _ = broken => {}
    }
}

/// Waits until bytes may pass; `None` if the connection is over.
async fn passes(client: &mut TcpStream, way: &mut watch::Receiver<Way>) -> Option<()> {
    let now = *way.wait_for(|way| !matches!(way, Way::Silent | Way::Full)).await.ok()?;
    match now {
        Way::Reset => {
            reset(client);
            None
        }
        Way::Garbage => {
            let _ = client.write_all(&[b'?'; 64]).await;
            None
        }
        Way::Open | Way::Slow(_) | Way::Silent | Way::Full => Some(()),
    }
}

fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut way: watch::Receiver<Way>) -> Option<()> {
    let mut bytes = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut bytes).await.ok().filter(|length| *length > 0)?;
        let now = *way.wait_for(|way| *way != Way::Silent).await.ok()?;
        if let Way::Slow(time) = now {
            tokio::time::sleep(time).await;
        }
        to.write_all(&bytes[..length]).await.ok()?;
    }
}
