//! Large answers over HTTP/2 without TLS, for clients with small and large windows.

use std::future::poll_fn;
use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::Builder;
use http::{Request, Response};
use tokio::net::TcpStream;

use crate::scene::Scene;
use crate::stage::PATIENCE;
use crate::stage::accept::Accepting;
use crate::stage::http2::{Asked, converse};
use crate::stage::served::Served;

/// The bytes of an answer, and how often each kind of download is repeated; `DOWNLOADS` says how often 50 MB are.
fn extent() -> (usize, usize) {
    match std::env::var("DOWNLOADS").ok().and_then(|count| count.parse().ok()) {
        Some(count) => (50 << 20, count),
        None => (8 << 20, 1),
    }
}

/// An upstream of HTTP/1.1 that writes as fast as it is read.
fn upstream_http1(size: usize) -> Accepting {
    Accepting::begin(move |mut stream| {
        let mut head = [0; 4096];
        while std::io::Read::read(&mut stream, &mut head)? > 0 {
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

/// How a client reads.
#[derive(Clone, Copy)]
enum Pace {
    Fast,
    Slow,
}

async fn download(client: SendRequest<Bytes>, path: &str, size: usize, pace: Pace) {
    let mut client = client.ready().await.unwrap();
    let (answer, _) = client.send_request(Request::get(format!("http://h{path}")).body(()).unwrap(), true).unwrap();
    let mut body = answer.await.unwrap().into_body();
    let (mut came, mut rested) = (0, 0);
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        came += data.len();
        body.flow_control().release_capacity(data.len()).unwrap();
        if matches!(pace, Pace::Slow) && came - rested > 1 << 20 {
            rested = came;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(came, size);
}

#[test]
fn no_download_stops_whatever_the_windows() {
    let (size, count) = extent();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = upstream_http1(size);
    let second = runtime.block_on(async {
        Served::begin(move |stream| converse(stream, Builder::new(), move |asked| answer(asked, size)))
    });
    for threads in [1, 2] {
        let scene = Scene::with(&format!("downloads_{threads}"), |_| {
            format!(
                "listen: 127.0.0.1:0\nthreads: {threads}\nupstreams:\n  one: 'http://{}'\n  two: {{ url: 'http://{}', protocol: \
                 http2 }}\nendpoints:\n  GET /one: one /\n  GET /two: two /\n",
                first.address, second.address
            )
        });
        for window in [64 << 10, 1 << 20, 32 << 20, (1 << 31) - 1] {
            for path in ["/one", "/two"] {
                for (at_once, pace) in [(1, Pace::Fast), (4, Pace::Fast), (1, Pace::Slow)] {
                    let one = || async {
                        let stream = TcpStream::connect(scene.address).await.unwrap();
                        let mut builder = h2::client::Builder::new();
                        builder.initial_window_size(window).initial_connection_window_size(window);
                        let (client, connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
                        tokio::spawn(connection);
                        let all = (0..at_once).map(|_| download(client.clone(), path, size, pace));
                        futures_util::future::join_all(all).await;
                    };
                    for round in 0..count {
                        let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, one()).await });
                        assert!(
                            ended.is_ok(),
                            "{path}, window {window}, {threads} threads, {at_once} at once: {round}"
                        );
                    }
                }
            }
        }
    }
}
