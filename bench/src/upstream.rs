//! The upstream that gateways are measured on: one thread, answers written beforehand, 282 bytes of JSON.

use std::net::SocketAddr;
use std::sync::Arc;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use crate::Result;

/// The size of an item, as in the tables of the design.
pub const SIZE: usize = 282;

/// `/item?n=0` to `/item?n=10`; `/item` is the first.
const ITEMS: usize = 11;

/// Serves the items.
pub fn start() -> Result<SocketAddr> {
    serving((0..ITEMS).map(answer).collect(), asked)
}

/// Serves these answers on a free port, on a thread of its own, until the process ends; `asked` tells which of them a head
/// asks for.
pub fn serving(answers: Vec<Vec<u8>>, asked: Asked) -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    std::thread::Builder::new().name("upstream".into()).spawn(move || {
        runtime.block_on(LocalSet::new().run_until(async {
            if let Ok(listener) = TcpListener::from_std(listener) {
                accept(listener, answers.into(), asked).await;
            }
        }));
    })?;
    Ok(address)
}

/// The body of one item.
pub fn item(number: usize) -> Vec<u8> {
    let bare = format!(r#"{{"n":{number},"text":""}}"#).len();
    let text: String = ('a'..='z').cycle().skip(number).take(SIZE - bare).collect();
    format!(r#"{{"n":{number},"text":"{text}"}}"#).into_bytes()
}

/// The number of the answer that a head asks for.
type Asked = fn(&[u8]) -> Option<usize>;

async fn accept(listener: TcpListener, answers: Arc<[Vec<u8>]>, asked: Asked) {
    // A failed accept ends the upstream, and with it the run: nothing here is worth a second try.
    while let Ok((stream, _)) = listener.accept().await {
        tokio::task::spawn_local(serve(stream, Arc::clone(&answers), asked));
    }
}

async fn serve(mut stream: TcpStream, answers: Arc<[Vec<u8>]>, asked: Asked) {
    let _ = stream.set_nodelay(true);
    let mut received = Vec::with_capacity(4 << 10);
    loop {
        while let Some(end) = memmem::find(&received, b"\r\n\r\n") {
            let answer = asked(&received[..end]).and_then(|number| answers.get(number));
            let answer =
                answer.map_or(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".as_slice(), Vec::as_slice);
            if stream.write_all(answer).await.is_err() {
                return;
            }
            received.drain(..end + 4);
        }
        if !matches!(stream.read_buf(&mut received).await, Ok(1..)) {
            return;
        }
    }
}

/// The number in `GET /item?n=7 HTTP/1.1`, 0 without one.
fn asked(head: &[u8]) -> Option<usize> {
    let query = head.strip_prefix(b"GET /item")?;
    let digits = match query.strip_prefix(b"?n=") {
        Some(digits) => digits,
        None => return query.starts_with(b" ").then_some(0),
    };
    let end = memchr::memchr(b' ', digits)?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// The bytes of one answer.
pub fn answer(number: usize) -> Vec<u8> {
    written(&item(number))
}

/// The bytes of an answer with this body.
pub fn written(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_has_its_size() {
        assert!((0..ITEMS).all(|number| item(number).len() == SIZE));
    }

    #[test]
    fn the_number_is_read_from_the_target() {
        assert_eq!(asked(b"GET /item HTTP/1.1"), Some(0));
        assert_eq!(asked(b"GET /item?n=10 HTTP/1.1"), Some(10));
        assert_eq!(asked(b"GET /items HTTP/1.1"), None);
        assert_eq!(asked(b"POST /item HTTP/1.1"), None);
    }
}
