//! A client that sees an answer as it comes: its head, its chunks, its end.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::PATIENCE;

/// A connection of a client.
pub struct Client {
    stream: TcpStream,
    held: Vec<u8>,
    /// The methods of the requests that have no answer yet.
    asked: VecDeque<String>,
    framing: Framing,
}

/// The head of an answer, names in lower case.
#[derive(Debug)]
pub struct Head {
    pub status: u16,
    pub fields: Vec<(String, String)>,
}

/// Fields that are lists, or that come once for each value.
const LISTS: [&str; 7] = ["set-cookie", "vary", "link", "via", "cache-status", "server-timing", "warning"];

impl Head {
    /// A field that is no list and comes twice nevertheless.
    pub fn twice(&self) -> Option<&str> {
        let names = self.fields.iter().map(|(name, _)| name.as_str()).filter(|name| !LISTS.contains(name));
        let mut seen = std::collections::BTreeSet::new();
        names.into_iter().find(|name| !seen.insert(*name))
    }

    /// The value of a field, named in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A piece of a body.
#[derive(Debug)]
pub enum Piece {
    /// A chunk, or as much as is there of a body that is not divided.
    Data(Vec<u8>),
    /// The end, with its trailers.
    End(Vec<(String, String)>),
    /// The connection ended before the answer did, or broke its own framing.
    Broken(String),
}

#[derive(Clone, Copy)]
enum Framing {
    Ended,
    Sized(usize),
    Chunked,
    Close,
}

/// How a read ended.
enum Read1 {
    Bytes,
    Fin,
    Reset,
}

/// Sends the bytes of a request on a new connection, and returns all that comes until the gateway closes it.
pub fn exchange(address: SocketAddr, request: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A gateway may answer and leave before it has read everything.
    let _ = stream.write_all(request.as_ref());
    String::from_utf8_lossy(&rest(stream, "a request")).into_owned()
}

/// Reads until the gateway closes the connection. Panics if it does not do so in time.
pub fn rest(mut stream: TcpStream, told: &str) -> Vec<u8> {
    let mut read = Vec::new();
    match stream.read_to_end(&mut read) {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {}
        Err(error) => panic!("{error} after {} for {told}", read.escape_ascii()),
    }
    read
}

/// The status in the first line of an answer; 0 if there is none.
pub fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
}

impl Client {
    pub fn connect(address: SocketAddr) -> Result<Self, String> {
        let connect = || {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream = connect().map_err(|error: std::io::Error| format!("cannot connect: {error}"))?;
        Ok(Client { stream, held: Vec::new(), asked: VecDeque::new(), framing: Framing::Ended })
    }

    /// Sends a request whose answer will be read.
    pub fn ask(&mut self, method: &str, bytes: &[u8]) -> Result<(), String> {
        self.asked.push_back(method.to_owned());
        self.send(bytes)
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        match self.stream.write_all(bytes) {
            // A gateway may answer and leave before it has read everything: the answer tells.
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Err(format!("cannot send: {error}"))
            }
            _ => Ok(()),
        }
    }

    /// Reads the head of the next answer.
    pub fn head(&mut self) -> Result<Head, String> {
        let text = loop {
            if let Some(end) = find(&self.held, b"\r\n\r\n") {
                let head: Vec<u8> = self.held.drain(..end + 4).collect();
                break String::from_utf8_lossy(&head).into_owned();
            }
            match self.fill()? {
                Read1::Bytes => {}
                _ => return Err(format!("no answer, only {}", self.held.escape_ascii())),
            }
        };
        let mut lines = text.trim_end().split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
        let status: u16 = status.ok_or_else(|| format!("{first:?} is no status line"))?;
        let fields = fields(lines)?;
        if status >= 200 {
            let method = self.asked.pop_front().unwrap_or_default();
            self.framing = framing(&method, status, &fields)?;
        }
        Ok(Head { status, fields })
    }

    /// Reads the next piece of the body.
    pub fn piece(&mut self) -> Result<Piece, String> {
        match self.framing {
            Framing::Ended | Framing::Sized(0) => Ok(self.end(Vec::new())),
            Framing::Chunked => self.chunk(),
            Framing::Sized(left) => {
                if self.held.is_empty() && !matches!(self.fill()?, Read1::Bytes) {
                    return Ok(self.broken(format!("{left} bytes are missing")));
                }
                let data: Vec<u8> = self.held.drain(..left.min(self.held.len())).collect();
                self.framing = Framing::Sized(left - data.len());
                Ok(Piece::Data(data))
            }
            Framing::Close => {
                if self.held.is_empty() {
                    match self.fill()? {
                        Read1::Bytes => {}
                        Read1::Fin => return Ok(self.end(Vec::new())),
                        Read1::Reset => return Ok(self.broken("the connection was reset".to_owned())),
                    }
                }
                Ok(Piece::Data(std::mem::take(&mut self.held)))
            }
        }
    }

    fn chunk(&mut self) -> Result<Piece, String> {
        let Some(size) = self.line()? else { return Ok(self.broken("no chunk comes".to_owned())) };
        let Ok(size) = usize::from_str_radix(&size, 16) else { return Ok(self.broken(format!("{size:?} is no size"))) };
        if size == 0 {
            let mut trailers = Vec::new();
            loop {
                match self.line()? {
                    None => return Ok(self.broken("the trailer is cut".to_owned())),
                    Some(line) if line.is_empty() => {
                        return fields(trailers.iter().map(String::as_str)).map(|trailers| self.end(trailers));
                    }
                    Some(line) => trailers.push(line),
                }
            }
        }
        while self.held.len() < size + 2 {
            if !matches!(self.fill()?, Read1::Bytes) {
                return Ok(self.broken("a chunk is cut".to_owned()));
            }
        }
        let data = self.held.drain(..size).collect();
        self.held.drain(..2);
        Ok(Piece::Data(data))
    }

    /// Reads the rest of the body, which must end well.
    pub fn rest(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            match self.piece()? {
                Piece::Data(data) => body.extend(data),
                Piece::End(_) => return Ok(body),
                Piece::Broken(how) => return Err(how),
            }
        }
    }

    /// Whether the gateway ends the connection, with nothing more to say.
    pub fn closes(&mut self) -> Result<(), String> {
        match self.fill() {
            Ok(Read1::Fin | Read1::Reset) if self.held.is_empty() => Ok(()),
            Ok(_) => Err(format!("instead of an end there came {}", self.held.escape_ascii())),
            Err(_) => Err("the connection stays open".to_owned()),
        }
    }

    fn end(&mut self, trailers: Vec<(String, String)>) -> Piece {
        self.framing = Framing::Ended;
        Piece::End(trailers)
    }

    fn broken(&mut self, how: String) -> Piece {
        self.framing = Framing::Ended;
        Piece::Broken(how)
    }

    /// The next line, or nothing if the connection ends before it does.
    fn line(&mut self) -> Result<Option<String>, String> {
        loop {
            if let Some(end) = find(&self.held, b"\r\n") {
                let line: Vec<u8> = self.held.drain(..end + 2).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if !matches!(self.fill()?, Read1::Bytes) {
                return Ok(None);
            }
        }
    }

    fn fill(&mut self) -> Result<Read1, String> {
        let mut buffer = [0; 64 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => Ok(Read1::Fin),
            Ok(count) => {
                self.held.extend_from_slice(&buffer[..count]);
                Ok(Read1::Bytes)
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(Read1::Reset),
            Err(error) => Err(format!("nothing comes ({error}) after {}", self.held.escape_ascii())),
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn fields<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Vec<(String, String)>, String> {
    let field = |line: &str| {
        let (name, value) = line.split_once(':').ok_or_else(|| format!("{line:?} is no field"))?;
        Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    lines.map(field).collect()
}

fn framing(method: &str, status: u16, fields: &[(String, String)]) -> Result<Framing, String> {
    let field = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    match (field("transfer-encoding"), field("content-length")) {
        _ if method == "HEAD" || matches!(status, 204 | 304) => Ok(Framing::Ended),
        (Some(_), Some(_)) => Err("the answer has two framings".to_owned()),
        (Some(_), None) => Ok(Framing::Chunked),
        (None, Some(length)) => length.parse().map(Framing::Sized).map_err(|_| format!("{length:?} is no length")),
        (None, None) => Ok(Framing::Close),
    }
}
