//! Requests that wait: for the client, for an upstream, for a place. They keep no core busy.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::stage::gateway::Gateway;
use crate::stage::in_parallel;

/// The clients of each version of HTTP.
const CLIENTS: usize = 3;
/// Each client waits for so many turns. One that uploads sends a byte in each.
const TURNS: usize = 10;
const TURN: Duration = Duration::from_millis(200);
/// The number of turns in which the gateway is watched. It is smaller than `TURNS`: all clients wait in each of them.
const WATCHED: usize = 8;
/// The most CPU time of the gateway in the quieter half of these turns, in ticks. A core that is kept busy shows some 80, or a
/// tenth of that if much else runs on the machine.
const MOST: u64 = 6;

/// A way to wait.
struct Waiting {
    name: &'static str,
    path: &'static str,
    /// The client sends a body, a byte at a time.
    uploads: bool,
    /// The client reads what comes.
    reads: bool,
}

const fn waiting(name: &'static str, path: &'static str, uploads: bool, reads: bool) -> Waiting {
    Waiting { name, path, uploads, reads }
}

const WAYS: [Waiting; 12] = [
    waiting("an upload", "/silent", true, true),
    waiting("an upload that is answered meanwhile", "/drip", true, true),
    waiting("an upload of which the answer is not read", "/large", true, false),
    waiting("a body that a step reads", "/step", true, true),
    waiting("an answer", "/silent", false, true),
    waiting("the rest of an answer", "/drip", false, true),
    waiting("the rest of an answer that is compressed", "/press", false, true),
    waiting("events", "/events", false, true),
    waiting("a client that reads nothing", "/large", false, false),
    waiting("a place at the upstream", "/few", false, true),
    waiting("two calls", "/two", false, true),
    waiting("an answer that is fetched for all", "/kept", false, true),
];

fn config(upstream: SocketAddr) -> String {
    format!(
        "listen: 127.0.0.1:0
clients: {{ min_rate: off }}
admin: 127.0.0.1:0
upstreams:
  sink: 'http://{upstream}'
  few: {{ url: 'http://{upstream}', in_flight: 1 }}
endpoints:
  'GET /{{path}}': sink /{{path}}
  'POST /{{path}}': sink /{{path}}
  POST /step: {{ pipeline: [ {{ respond: {{ body: $body }} }} ] }}
  GET /press: {{ compress: on, pipeline: [ {{ request: sink /drip }} ] }}
  GET /few: few /silent
  GET /two: {{ pipeline: [ {{ requests: {{ a: sink /drip, b: sink /silent }} }}, merge: . ] }}
  GET /kept: {{ cache: {{ for: 10s }}, pipeline: [ {{ request: sink /silent }} ] }}
"
    )
}

/// A server that reads all requests. By the path, it answers nothing, a little at a time, or much at once.
async fn upstream(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let (read, mut write) = stream.into_split();
            let (mut read, mut line) = (BufReader::new(read), String::new());
            read.read_line(&mut line).await?;
            // The rest of the head is read with the body.
            let discard = async { tokio::io::copy(&mut read, &mut tokio::io::sink()).await };
            let answer = async {
                let chunked = "transfer-encoding: chunked\r\n\r\n";
                let (kind, piece) = match line.split(' ').nth(1) {
                    Some("/silent") => return std::io::Result::Ok(()),
                    Some("/events") => ("text/event-stream", "9\r\ndata: x\n\n\r\n"),
                    Some("/drip") => ("application/json", "1\r\n1\r\n"),
                    Some("/large") => {
                        write.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n").await?;
                        loop {
                            write.write_all(&[b'x'; 65_536]).await?;
                        }
                    }
                    other => panic!("{other:?}"),
                };
                let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{chunked}");
                write.write_all(head.as_bytes()).await?;
                loop {
                    write.write_all(piece.as_bytes()).await?;
                    sleep(TURN).await;
                }
            };
            tokio::join!(discard, answer).0
        });
    }
}

async fn http1(address: SocketAddr, way: &Waiting) {
    let (mut read, mut write) = TcpStream::connect(address).await.unwrap().into_split();
    let (method, length) = if way.uploads { ("POST", "content-length: 1000\r\n") } else { ("GET", "") };
    let head = format!("{method} {} HTTP/1.1\r\nhost: h\r\naccept-encoding: gzip\r\n{length}\r\n", way.path);
    write.write_all(head.as_bytes()).await.unwrap();
    let reading = async {
        if way.reads {
            assert!(read.read_buf(&mut Vec::with_capacity(65_536)).await.is_ok_and(|came| came > 0), "{}", way.name);
            let copied = tokio::io::copy(&mut read, &mut tokio::io::sink()).await;
            copied.unwrap_or_else(|error| panic!("{}: {error}", way.name));
        }
        std::future::pending::<()>().await;
    };
    let sending = async {
        for _ in 0..TURNS {
            if way.uploads {
                write.write_all(b"1").await.unwrap();
            }
            sleep(TURN).await;
        }
    };
    tokio::select! { () = reading => {}, () = sending => {} }
}

async fn http2(address: SocketAddr, way: &Waiting) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let method = if way.uploads { "POST" } else { "GET" };
    let request = Request::builder().method(method).uri(format!("http://h{}", way.path));
    let request = request.header("accept-encoding", "gzip").body(()).unwrap();
    let (answer, mut body) = client.send_request(request, !way.uploads).unwrap();
    let reading = async {
        let mut answer = answer.await.unwrap().into_body();
        while way.reads
            && let Some(data) = answer.data().await
        {
            answer.flow_control().release_capacity(data.unwrap().len()).unwrap();
        }
        std::future::pending::<()>().await;
    };
    let sending = async {
        for _ in 0..TURNS {
            if way.uploads {
                body.send_data(Bytes::from_static(b"1"), false).unwrap();
            }
            sleep(TURN).await;
        }
    };
    tokio::select! { () = reading => {}, () = sending => {} }
}

/// Lets clients of both versions of HTTP wait in this way. Returns the CPU time of the gateway in the quieter half of the turns,
/// in ticks.
async fn busy(gateway: &Gateway, way: &'static Waiting) -> Result<u64, tokio::task::JoinError> {
    let address = gateway.address;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(http1(address, way));
        clients.spawn(http2(address, way));
    }
    let (mut before, mut turns) = (gateway.ticks(), Vec::new());
    for _ in 0..WATCHED {
        sleep(TURN).await;
        let now = gateway.ticks();
        turns.push(now - std::mem::replace(&mut before, now));
    }
    while let Some(ended) = clients.join_next().await {
        ended?;
    }
    // In some turns the requests themselves cost CPU time: in the first ones, or in later ones if the machine is busy.
    turns.sort_unstable();
    Ok(turns.iter().take(WATCHED / 2).sum())
}

#[test]
fn who_waits_keeps_no_core_busy() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let config = config(listener.local_addr().unwrap());
    runtime.spawn(upstream(listener));
    let busy: Vec<(&str, u64)> = in_parallel(WAYS.len(), WAYS.iter().collect(), |way| {
        let gateway = Gateway::of(&config);
        let (busy, said) = (runtime.block_on(busy(&gateway, way)), gateway.said());
        (way.name, busy.unwrap_or_else(|error| panic!("{}: {error}; the gateway said: {said}", way.name)))
    });
    println!("{busy:?}");
    let most: Vec<_> = busy.iter().filter(|(_, ticks)| *ticks > MOST).collect();
    assert!(most.is_empty(), "the gateway was busy for so many ticks while requests waited: {most:?}");
}
