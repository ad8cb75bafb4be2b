//! `streams` with reqwest: events and lines are cut by hand.

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use reqwest::{Body, Client};
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The most bytes of an event or a line.
const MOST: usize = 16 << 20;

/// The pieces between two line ends, or two empty lines.
fn cut(
    body: impl Stream<Item = reqwest::Result<Bytes>> + Unpin,
    end: &'static [u8],
) -> impl Stream<Item = Result<Bytes, Failure>> {
    stream::try_unfold((body, BytesMut::new(), false), move |(mut body, mut came, mut done)| async move {
        loop {
            if let Some(at) = came.windows(end.len()).position(|window| window == end) {
                let piece = came.split_to(at + end.len()).freeze();
                return Ok(Some((piece.slice(..at), (body, came, done))));
            }
            if done {
                let rest = came.split().freeze();
                return Ok((!rest.is_empty()).then_some((rest, (body, came, done))));
            }
            match body.try_next().await? {
                Some(more) => {
                    came.extend_from_slice(&more.iter().copied().filter(|byte| *byte != b'\r').collect::<Vec<_>>())
                }
                None => done = true,
            }
            if came.len() > MOST {
                return Err("too long".into());
            }
        }
    })
}

pub async fn words(client: &Client, url: &str) -> Result<impl Stream<Item = Result<String, Failure>>, Failure> {
    let body = client.get(url).send().await?.error_for_status()?.bytes_stream();
    let events = cut(Box::pin(body), b"\n\n");
    Ok(events.try_filter_map(async |event| {
        let text = std::str::from_utf8(&event)?;
        let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let data = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n");
        let Ok(data) = serde_json::from_str::<Value>(&data) else { return Ok(None) };
        Ok(data["delta"].as_str().map(str::to_owned))
    }))
}

pub async fn lines(client: &Client, url: &str) -> Result<impl Stream<Item = Result<Value, Failure>>, Failure> {
    let body = client.get(url).send().await?.error_for_status()?.bytes_stream();
    let lines = cut(Box::pin(body), b"\n").try_filter(|line| std::future::ready(!line.trim_ascii().is_empty()));
    Ok(lines.map(|line| Ok(serde_json::from_slice(&line?)?)))
}

pub async fn download(client: &Client, url: &str, out: &mut (impl AsyncWrite + Unpin)) -> Result<u64, Failure> {
    let mut body = client.get(url).send().await?.error_for_status()?.bytes_stream();
    let mut length = 0;
    while let Some(piece) = body.try_next().await? {
        out.write_all(&piece).await?;
        length += piece.len() as u64;
    }
    Ok(length)
}

pub async fn upload(client: &Client, url: &str, bytes: u64) -> Result<String, Failure> {
    static PIECE: [u8; 64 << 10] = [0; 64 << 10];
    let zeros = stream::unfold(bytes, |left| async move {
        let length = left.min(PIECE.len() as u64);
        let piece = Bytes::from_static(&PIECE[..length as usize]);
        (length > 0).then(|| (Ok::<_, std::io::Error>(piece), left - length))
    });
    let call = client.put(url).header("content-length", bytes).body(Body::wrap_stream(zeros));
    Ok(call.send().await?.error_for_status()?.text().await?)
}
