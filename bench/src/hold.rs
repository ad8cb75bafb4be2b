//! Servers that hold every request for a time before they answer: three of them, in a process of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use clap::Args;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::{Result, upstream};

/// How many there are, as in the source.
pub const SERVERS: usize = 3;

/// Longer than any burst of the bench; the system may cut it.
const BACKLOG: u32 = 16_384;

#[derive(Args)]
pub struct Options {
    /// Milliseconds until an answer
    #[arg(long)]
    hold: u64,
    /// The version of HTTP
    #[arg(long, value_enum, default_value_t = Version::Http1)]
    version: Version,
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Version {
    Http1,
    Http2,
}

/// Calls on one connection of HTTP/2.
const STREAMS: u32 = 2_000;

/// Serves until its standard input ends; prints where.
pub async fn run(options: Options) -> Result<()> {
    let listeners = (0..SERVERS).map(|_| listen()).collect::<Result<Vec<_>>>()?;
    let addresses = listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string()));
    let addresses = addresses.collect::<Result<Vec<_>>>()?;
    writeln!(std::io::stdout(), "{}", addresses.join(" "))?;
    let (over, ended) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        // Whatever comes, and then the end.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(over);
    });
    let hold = Duration::from_millis(options.hold);
    let serving = async {
        for listener in listeners {
            tokio::task::spawn_local(accept(listener, hold, options.version));
        }
        let _ = ended.await;
    };
    LocalSet::new().run_until(serving).await;
    Ok(())
}

fn listen() -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    Ok(socket.listen(BACKLOG)?)
}

async fn accept(listener: TcpListener, hold: Duration, version: Version) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        match version {
            Version::Http1 => drop(tokio::task::spawn_local(serve(stream, hold))),
            Version::Http2 => drop(tokio::task::spawn_local(share(stream, hold))),
        }
    }
}

/// Every stream is held for itself.
async fn share(stream: TcpStream, hold: Duration) {
    let Ok(mut connection) = h2::server::Builder::new().max_concurrent_streams(STREAMS).handshake(stream).await else {
        return;
    };
    while let Some(Ok((_, respond))) = connection.accept().await {
        tokio::task::spawn_local(answer_later(respond, hold));
    }
}

async fn answer_later(mut respond: h2::server::SendResponse<bytes::Bytes>, hold: Duration) {
    tokio::time::sleep(hold).await;
    let head = http::Response::builder().header("content-type", "application/json").body(());
    // Who has left wants no answer.
    if let Ok(mut body) = respond.send_response(head.expect("a head of ours"), false) {
        let _ = body.send_data(upstream::item(1).into(), true);
    }
}

async fn serve(mut stream: TcpStream, hold: Duration) {
    // Small: there is one for each of many thousand connections.
    let mut received = Vec::with_capacity(256);
    loop {
        while let Some(end) = memmem::find(&received, b"\r\n\r\n") {
            received.drain(..end + 4);
            tokio::time::sleep(hold).await;
            if stream.write_all(&upstream::answer(1)).await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut received).await, Ok(1..)) {
            return;
        }
    }
}

/// The process, which ends with this.
pub struct Hold {
    child: Child,
    input: Option<ChildStdin>,
    /// Where the servers listen.
    pub addresses: Vec<SocketAddr>,
}

impl Hold {
    pub fn start(hold: Duration, version: Version) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let version = if version == Version::Http2 { "http2" } else { "http1" };
        command.args(["hold", "--hold", &hold.as_millis().to_string(), "--version", version]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut started = Self { child, input, addresses: Vec::new() };
        let mut line = String::new();
        BufReader::new(output.ok_or("no output of the servers")?).read_line(&mut line)?;
        started.addresses = line.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
        match started.addresses.len() {
            SERVERS => Ok(started),
            _ => Err("the servers did not start".into()),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
