//! A light HTTP/1.1 client: one kept connection, one request at a time, every byte counted.

use std::net::SocketAddr;
use std::time::Instant;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Result;

/// Beyond this an answer is a fault.
const HEAD: usize = 64 << 10;
const FIELDS: usize = 64;

/// An answer, as it came.
pub struct Answer {
    pub status: u16,
    /// Bytes of the head, with its empty line.
    pub head: usize,
    /// Bytes of chunk sizes, line ends and trailers: on the wire, neither head nor body.
    pub framing: usize,
    pub body: Vec<u8>,
    /// When its head was there: a gateway holds it until the first item is.
    pub began: Instant,
}

pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// The bytes of `received` that have been handed out.
    taken: usize,
}

enum Length {
    Exactly(usize),
    Chunked,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(16 << 10), taken: 0 })
    }

    /// Sends the request, reads its whole answer.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<Answer> {
        self.stream.write_all(request).await?;
        let head = self.head().await?;
        self.answer(head).await
    }

    /// The same, with the bytes of the head.
    pub async fn ask(&mut self, request: &[u8], kept: &mut Vec<u8>) -> Result<Answer> {
        self.stream.write_all(request).await?;
        let head = self.head().await?;
        kept.extend_from_slice(&self.rest()[..head]);
        self.answer(head).await
    }

    async fn answer(&mut self, head: usize) -> Result<Answer> {
        let (status, length) = parse(self.take(head))?;
        let mut answer = Answer { status, head, framing: 0, body: Vec::new(), began: Instant::now() };
        match length {
            Length::Exactly(length) => {
                self.fill(length).await?;
                answer.body.extend_from_slice(self.take(length));
            }
            Length::Chunked => self.chunks(&mut answer).await?,
        }
        if self.taken != self.received.len() {
            return Err("bytes after the end of an answer".into());
        }
        self.received.clear();
        self.taken = 0;
        Ok(answer)
    }

    async fn head(&mut self) -> Result<usize> {
        loop {
            if let Some(end) = memmem::find(self.rest(), b"\r\n\r\n") {
                return Ok(end + 4);
            }
            if self.rest().len() > HEAD {
                return Err("a head without an end".into());
            }
            self.read().await?;
        }
    }

    async fn chunks(&mut self, answer: &mut Answer) -> Result<()> {
        loop {
            let line = self.line().await?;
            let text = std::str::from_utf8(self.take(line))?;
            let size = usize::from_str_radix(text.split([';', '\r']).next().unwrap_or_default(), 16)?;
            answer.framing += line;
            if size == 0 {
                break;
            }
            self.fill(size + 2).await?;
            answer.body.extend_from_slice(self.take(size));
            if self.take(2) != b"\r\n" {
                return Err("a chunk longer than its size".into());
            }
            answer.framing += 2;
        }
        // Trailers, up to the empty line.
        loop {
            let line = self.line().await?;
            self.take(line);
            answer.framing += line;
            if line == 2 {
                return Ok(());
            }
        }
    }

    async fn line(&mut self) -> Result<usize> {
        loop {
            if let Some(end) = memmem::find(self.rest(), b"\r\n") {
                return Ok(end + 2);
            }
            self.read().await?;
        }
    }

    async fn fill(&mut self, length: usize) -> Result<()> {
        while self.rest().len() < length {
            self.read().await?;
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err("the connection was closed inside an answer".into()),
            _ => Ok(()),
        }
    }

    fn rest(&self) -> &[u8] {
        &self.received[self.taken..]
    }

    fn take(&mut self, length: usize) -> &[u8] {
        let from = self.taken;
        self.taken += length;
        &self.received[from..self.taken]
    }
}

fn parse(head: &[u8]) -> Result<(u16, Length)> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    parsed.parse(head)?;
    let status = parsed.code.ok_or("an answer without a status")?;
    let field = |name: &str| parsed.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    if field("transfer-encoding").is_some_and(|field| field.value.eq_ignore_ascii_case(b"chunked")) {
        return Ok((status, Length::Chunked));
    }
    match field("content-length") {
        // Whatever length is told (RFC 9112, 6.3).
        _ if matches!(status, 204 | 304) => Ok((status, Length::Exactly(0))),
        Some(field) => Ok((status, Length::Exactly(std::str::from_utf8(field.value)?.trim().parse()?))),
        None => Err(format!("an answer ({status}) without a length").into()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A server that sends these bytes to whoever asks anything.
    async fn says(bytes: &'static [u8]) -> Result<Answer> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = async {
            let (mut stream, _) = listener.accept().await?;
            stream.read_u8().await?;
            stream.write_all(bytes).await?;
            Result::Ok(())
        };
        let client = async { Connection::open(address).await?.exchange(b"GET / HTTP/1.1\r\n\r\n").await };
        let (served, answer) = tokio::join!(server, client);
        served?;
        answer
    }

    #[tokio::test]
    async fn chunks_are_joined_and_their_framing_counted() {
        let wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\na: b\r\n\r\n";
        let answer = says(wire).await.expect("a whole answer");
        assert_eq!(answer.body, b"abcde");
        assert_eq!(answer.head + answer.framing + answer.body.len(), wire.len());
    }

    #[tokio::test]
    async fn a_cut_answer_is_an_error() {
        assert!(says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc").await.is_err());
        assert!(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n").await.is_err());
        assert!(says(b"HTTP/1.1 200 OK\r\nContent-").await.is_err());
    }

    #[tokio::test]
    async fn bytes_too_many_are_an_error() {
        assert!(says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc").await.is_err());
    }
}
