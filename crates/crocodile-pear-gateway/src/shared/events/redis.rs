//! `SUBSCRIBE` on a Redis server. The messages are read here, one by one, so that a flood waits in the socket and not in
//! memory.

use std::io;
use std::time::Duration;

use redis::{Cmd, cmd};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::{Instant, timeout, timeout_at};

use crate::shared::redis::{ByteStream, RedisServer};

/// For a connection and `SUBSCRIBE`.
const ATTEMPT: Duration = Duration::from_secs(5);

/// The longest message: a payload says what has changed, not all of it.
const MESSAGE: usize = 1 << 20;

/// The longest line: a length, a number or an error.
const LINE: u64 = 4096;

/// Parts of what a server says: `message`, the channel and the payload are three.
const PARTS: usize = 16;

/// Listens to a channel.
///
/// # Errors
/// Why it cannot be listened to, without secrets.
pub async fn listen(server: &RedisServer, channel: &str, heartbeat: Duration) -> Result<RedisListener, String> {
    match timeout(ATTEMPT, subscribe(server, channel, heartbeat)).await {
        Ok(listener) => listener,
        Err(_) => Err(format!("it did not answer within {ATTEMPT:?}")),
    }
}

async fn subscribe(server: &RedisServer, channel: &str, heartbeat: Duration) -> Result<RedisListener, String> {
    let mut stream = BufReader::new(server.open().await.map_err(|error| error.to_string())?);
    if let (user, Some(password)) = server.credentials() {
        let mut auth = cmd("AUTH");
        if let Some(user) = user {
            auth.arg(user);
        }
        send(&mut stream, auth.arg(password)).await?;
        receive(&mut stream).await?;
    }
    send(&mut stream, cmd("SUBSCRIBE").arg(channel)).await?;
    // What is published from its answer on comes here.
    while !receive(&mut stream).await?.starts_with(&[b"subscribe".to_vec()]) {}
    Ok(RedisListener { stream, heartbeat, due: Instant::now() + heartbeat, asked: false })
}

/// A connection, as it is read.
type RedisReader = BufReader<Box<dyn ByteStream>>;

/// A connection that listens.
pub struct RedisListener {
    stream: RedisReader,
    heartbeat: Duration,
    /// When the server is asked, or must have answered.
    due: Instant,
    asked: bool,
}

impl RedisListener {
    /// # Errors
    /// Why the connection has ended.
    pub async fn next(&mut self) -> Result<Vec<u8>, String> {
        loop {
            // Only the wait for the first byte is given up to ask: what has begun is read to its end.
            match timeout_at(self.due, self.stream.fill_buf()).await {
                Ok(Ok([])) => return Err("the server closed the connection".to_owned()),
                Ok(Ok(_)) => {
                    let whole = timeout(self.heartbeat.max(ATTEMPT), receive(&mut self.stream)).await;
                    let mut said = whole.map_err(|_| "a message did not end".to_owned())??;
                    // Whatever it says, it lives.
                    (self.asked, self.due) = (false, Instant::now() + self.heartbeat);
                    if said.len() == 3 && said[0] == b"message" {
                        return Ok(said.swap_remove(2));
                    }
                }
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) if self.asked => return Err(format!("it did not answer within {:?}", self.heartbeat)),
                Err(_) => {
                    send(&mut self.stream, &cmd("PING")).await?;
                    (self.asked, self.due) = (true, Instant::now() + self.heartbeat);
                }
            }
        }
    }
}

async fn send(stream: &mut RedisReader, command: &Cmd) -> Result<(), String> {
    let socket = stream.get_mut();
    socket.write_all(&command.get_packed_command()).await.map_err(|error| error.to_string())?;
    // TLS may hold what it has encrypted.
    socket.flush().await.map_err(|error| error.to_string())
}

/// Reads a message of the server: the parts of a list, or one part.
///
/// # Errors
/// The refusal of the server, which quotes nothing of a command.
async fn receive(stream: &mut RedisReader) -> Result<Vec<Vec<u8>>, String> {
    let head = line(stream).await?;
    let Some(count) = head.strip_prefix('*') else { return Ok(vec![part(stream, &head).await?]) };
    let count = count.parse().ok().filter(|count| *count <= PARTS).ok_or_else(strange)?;
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let head = line(stream).await?;
        parts.push(part(stream, &head).await?);
    }
    Ok(parts)
}

/// Reads a part whose first line is this.
async fn part(stream: &mut RedisReader, head: &str) -> Result<Vec<u8>, String> {
    let (kind, rest) = head.split_at_checked(1).ok_or_else(strange)?;
    match kind {
        "$" => {
            let length: usize = rest.parse().map_err(|_| strange())?;
            if length > MESSAGE {
                return Err(format!("a message is longer than {MESSAGE} bytes"));
            }
            let mut bytes = vec![0; length + 2];
            stream.read_exact(&mut bytes).await.map_err(|error| error.to_string())?;
            bytes.truncate(length);
            Ok(bytes)
        }
        "+" | ":" => Ok(rest.into()),
        "-" => Err(rest.to_owned()),
        _ => Err(strange()),
    }
}

async fn line(stream: &mut RedisReader) -> Result<String, String> {
    let mut line = Vec::new();
    let read = async { stream.take(LINE).read_until(b'\n', &mut line).await };
    read.await.map_err(|error: io::Error| error.to_string())?;
    match line.strip_suffix(b"\r\n").map(<[u8]>::to_vec).map(String::from_utf8) {
        Some(Ok(line)) => Ok(line),
        _ if line.is_empty() => Err("the server closed the connection".to_owned()),
        _ => Err(strange()),
    }
}

fn strange() -> String {
    "it does not speak as Redis does".to_owned()
}
