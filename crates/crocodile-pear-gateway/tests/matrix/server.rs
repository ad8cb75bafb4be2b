//! A server that notes what comes.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use crocodile_pear_stage::accept::Accepting;

use crate::matrix::client::pattern;

/// A call that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub method: String,
    /// Without the query.
    pub target: String,
    /// The bytes of its body.
    pub body: u64,
    /// Whether they are those that were sent.
    pub whole: bool,
}

pub struct Server {
    accepting: Accepting,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Server {
    pub fn begin() -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let noted = calls.clone();
        let accepting = Accepting::begin(move |stream| serve(stream, &noted));
        Server { accepting, calls }
    }

    pub fn address(&self) -> SocketAddr {
        self.accepting.address
    }

    /// The calls since the last look.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

fn serve(mut stream: TcpStream, calls: &Mutex<Vec<Call>>) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(64 << 10, stream.try_clone()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let mut words = head.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
        let field = |name: &str| {
            let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
            line.map(|line| line[name.len()..].trim().to_owned())
        };
        let mut count = Count::new();
        match (field("transfer-encoding:"), field("content-length:")) {
            (Some(_), _) => chunks(&mut reader, &mut count)?,
            (None, Some(length)) => exact(&mut reader, length.parse().unwrap(), &mut count)?,
            (None, None) => {}
        }
        let body = match &*target {
            "/list" => "[7,8]",
            "/item" => "{\"id\":7}",
            _ => "1",
        };
        calls.lock().unwrap().push(Call { target, body: count.length, whole: count.whole, method: method.clone() });
        let fields = "content-type: application/json\r\ncache-control: no-store";
        let shown = if method == "HEAD" { "" } else { body };
        write!(stream, "HTTP/1.1 200 OK\r\n{fields}\r\ncontent-length: {}\r\n\r\n{shown}", body.len())?;
    }
}

/// The part of a body that has come.
struct Count {
    length: u64,
    whole: bool,
    pattern: Vec<u8>,
}

impl Count {
    fn new() -> Self {
        Count { length: 0, whole: true, pattern: pattern() }
    }

    fn note(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let at = usize::try_from(self.length % self.pattern.len() as u64).unwrap();
            let piece = bytes.len().min(self.pattern.len() - at);
            self.whole &= bytes[..piece] == self.pattern[at..at + piece];
            self.length += piece as u64;
            bytes = &bytes[piece..];
        }
    }
}

fn exact(reader: &mut impl BufRead, mut left: u64, count: &mut Count) -> io::Result<()> {
    while left > 0 {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let piece = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        count.note(&bytes[..piece]);
        reader.consume(piece);
        left -= piece as u64;
    }
    Ok(())
}

fn chunks(reader: &mut impl BufRead, count: &mut Count) -> io::Result<()> {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = u64::from_str_radix(line.trim(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
        exact(reader, size, count)?;
        reader.read_exact(&mut [0; 2])?;
        if size == 0 {
            return Ok(());
        }
    }
}
