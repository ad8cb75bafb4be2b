//! Large answers over HTTP/2 without TLS, for clients with small and large windows: whether one of them stops.

use std::fmt::{self, Display};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::Builder;
use http::{Request, Response};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::accept::Accepting;
use crate::gateway::Gateway;
use crate::http2::{Asked, converse};
use crate::served::Served;
use crate::{PATIENCE, scratch};

/// An upstream of HTTP/1.1 that writes as fast as it is read.
fn upstream_http1(size: usize) -> Accepting {
    Accepting::begin(move |mut stream| {
        let mut head = [0; 4096];
        while stream.read(&mut head)? > 0 {
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n")?;
            let piece = [b'x'; 1 << 16];
            (0..size / piece.len()).try_for_each(|_| stream.write_all(&piece))?;
        }
        Ok(())
    })
}

/// An upstream of HTTP/2 that writes as fast as its windows allow.
async fn answer((_, mut respond): Asked, size: usize) -> Option<()> {
    let mut body = respond.send_response(Response::new(()), false).ok()?;
    let mut left = size;
    while left > 0 {
        body.reserve_capacity(left.min(1 << 16));
        let room = poll_fn(|cx| body.poll_capacity(cx)).await?.ok()?.min(left);
        left -= room;
        body.send_data(vec![b'x'; room].into(), left == 0).ok()?;
    }
    Some(())
}

#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The HTTP version of the upstream: 1 or 2.
    pub upstream: u8,
    /// The threads of the gateway.
    pub threads: usize,
    /// The window of the client, for each stream and for the connection.
    pub window: u32,
    /// Streams of one connection.
    pub at_once: usize,
    pub pace: Pace,
}

/// How a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Fast,
    /// With a pause of a millisecond after each MiB.
    Slow,
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kind { upstream, threads, window, at_once, pace } = self;
        write!(f, "upstream HTTP/{upstream}, {threads} threads, window {window}, {at_once} at once, {pace:?}")
    }
}

/// The outcome of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub downloads: usize,
    /// The downloads of which no byte came for long.
    pub stopped: usize,
    pub took: Duration,
    pub slowest: Duration,
}

/// Whether it came whole: it has stopped where nothing comes for long.
async fn download(client: SendRequest<Bytes>, path: String, size: usize, pace: Pace) -> bool {
    let mut client = client.ready().await.unwrap();
    let (answer, _) = client.send_request(Request::get(format!("http://h{path}")).body(()).unwrap(), true).unwrap();
    let mut body = answer.await.unwrap().into_body();
    let (mut came, mut rested) = (0, 0);
    loop {
        let Ok(data) = timeout(PATIENCE, body.data()).await else { return false };
        let Some(data) = data else { break };
        let data = data.unwrap();
        came += data.len();
        body.flow_control().release_capacity(data.len()).unwrap();
        if pace == Pace::Slow && came - rested > 1 << 20 {
            rested = came;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(came, size);
    true
}

/// How many of those on one connection stopped.
async fn together(gateway: SocketAddr, kind: Kind, size: usize) -> usize {
    let stream = TcpStream::connect(gateway).await.unwrap();
    // As curl has it: otherwise updates of small windows wait for acknowledgements.
    stream.set_nodelay(true).unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(kind.window).initial_connection_window_size(kind.window);
    let (client, connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
    tokio::spawn(connection);
    let path = format!("/{}", kind.upstream);
    let all: JoinSet<bool> =
        (0..kind.at_once).map(|_| download(client.clone(), path.clone(), size, kind.pace)).collect();
    all.join_all().await.into_iter().filter(|whole| !whole).count()
}

/// Makes `count` downloads of `size` bytes for each kind, from a gateway with each of these numbers of threads. Calls `told` after each
/// kind.
pub fn play(binary: &Path, (size, count): (usize, usize), threads: &[usize], mut told: impl FnMut(Kind, Outcome)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = upstream_http1(size);
    let second = Served::begin(move |stream| converse(stream, Builder::new(), move |asked| answer(asked, size)));
    for &threads in threads {
        let file = scratch(format!("downloads_{threads}.yaml"));
        let config = format!(
            "listen: 127.0.0.1:0\nthreads: {threads}\nupstreams:\n  one: 'http://{}'\n  two: {{ url: 'http://{}', protocol: http2 \
             }}\nendpoints:\n  GET /1: one /\n  GET /2: two /\n",
            first.address, second.address
        );
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(binary);
        command.arg("run").arg(&file);
        let gateway = Gateway::begin(command).unwrap();
        for window in [64 << 10, 1 << 20, 32 << 20, (1 << 31) - 1] {
            for upstream in [1, 2] {
                for (at_once, pace) in [(1, Pace::Fast), (4, Pace::Fast), (1, Pace::Slow)] {
                    let kind = Kind { upstream, threads, window, at_once, pace };
                    let mut outcome = Outcome::default();
                    for _ in 0..count.div_ceil(at_once) {
                        let began = Instant::now();
                        outcome.stopped += runtime.block_on(together(gateway.address, kind, size));
                        outcome.downloads += at_once;
                        outcome.took += began.elapsed();
                        outcome.slowest = outcome.slowest.max(began.elapsed());
                    }
                    told(kind, outcome);
                }
            }
        }
    }
}
