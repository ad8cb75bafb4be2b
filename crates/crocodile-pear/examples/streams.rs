//! Streams, which never stand in memory: the words of a language model (server-sent events), NDJSON, and large bodies up and down.
//!
//! `cargo run -p crocodile-pear --example streams -- http://127.0.0.1:9000/streamflow/api/cases/inbox`

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use crocodile_pear::{Body, Client, Error, ItemStream};
use futures_util::TryStreamExt;
use http::Method;
use http_body::{Frame, SizeHint};
use serde::Deserialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// A server-sent event; `list` gives each as an object.
#[derive(Deserialize)]
struct Event {
    data: serde_json::Value,
}

/// The words of a model, each when it is there.
pub fn words(client: &Client, url: &str) -> ItemStream<String> {
    let events = client.get(url).list::<Event>(".[]");
    events.filter_map(|event| event.data["delta"].as_str().map(str::to_owned)).into_stream()
}

/// The lines of NDJSON, each when it is there.
pub fn lines(client: &Client, url: &str) -> ItemStream<serde_json::Value> {
    client.get(url).list(".[]").into_stream()
}

/// Writes a body as it comes, and returns how long it was. A slow writer slows the server down.
pub async fn download(client: &Client, url: &str, out: &mut (impl AsyncWrite + Unpin)) -> Result<u64, Error> {
    let mut body = client.get(url).send().await?.into_body().into_data();
    let mut length = 0;
    while let Some(piece) = body.try_next().await? {
        out.write_all(&piece).await?;
        length += piece.len() as u64;
    }
    Ok(length)
}

/// Sends a body that is made while it is sent, and returns what the server says.
pub async fn upload(client: &Client, url: &str, bytes: u64) -> Result<String, Error> {
    client.call(Method::PUT, url).body(Body::stream(Zeros(bytes))).text().await
}

/// So many zeros, 64 KiB at a time.
struct Zeros(u64);

impl http_body::Body for Zeros {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        static PIECE: [u8; 64 << 10] = [0; 64 << 10];
        let length = self.0.min(PIECE.len() as u64);
        self.0 -= length;
        let piece = Bytes::from_static(&PIECE[..usize::try_from(length).unwrap_or(0)]);
        Poll::Ready(Some(piece).filter(|piece| !piece.is_empty()).map(|piece| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

#[allow(dead_code, clippy::print_stdout, reason = "a program prints; the tests have a server of their own")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000/streamflow/api/cases/inbox".to_owned());
    // A file, another socket, or here: nowhere.
    println!("{} bytes", download(&Client::new(), &url, &mut tokio::io::sink()).await?);
    Ok(())
}
