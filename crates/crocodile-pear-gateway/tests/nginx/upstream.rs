//! The upstream of both: it answers by the last segment of the path, and notes what it was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A call, as far as it has to be the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    pub fields: Vec<(String, String)>,
    pub body: String,
}

pub struct Upstream {
    pub address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// The fields that are compared, beside all that begin with `x-`.
const FIELDS: [&str; 7] =
    ["host", "authorization", "accept-language", "accept-encoding", "cookie", "content-type", "upgrade"];

/// Status, further fields and body by the last segment of the path.
fn answer(name: &str) -> (&'static str, &'static str, &'static str) {
    match name {
        "fail" => ("503 Service Unavailable", "", r#"{"error":"x"}"#),
        "created" => ("201 Created", "", r#"{"id":8}"#),
        "missing" => ("404 Not Found", "", r#"{"error":"m"}"#),
        "moved" => ("302 Found", "location: http://UP/next?a=1\r\n", ""),
        "allow" => ("200 OK", "x-user: ada\r\n", ""),
        "forbid" => ("403 Forbidden", "", "no"),
        _ => (
            "200 OK",
            "x-powered-by: up\r\n",
            r#"{"id":7,"name":"Ada","tags":["a","b"],"more":"xxxxxxxxxxxxxxxxxxxxxxxx"}"#,
        ),
    }
}

impl Upstream {
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let noted = calls.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let noted = noted.clone();
                thread::spawn(move || play(stream, address, &noted));
            }
        });
        Upstream { address, calls }
    }

    /// The calls since the last time.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn play(stream: TcpStream, address: SocketAddr, calls: &Mutex<Vec<Call>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let call = read(&mut reader, address)?;
        let (status, fields, body) = answer(call.path.rsplit('/').next().unwrap_or_default());
        let fields = fields.replace("UP", &address.to_string());
        calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        // In one write: several would wait for each other.
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{fields}content-length: {length}\r\n\r\n{body}"
        );
        writer.write_all(answer.as_bytes()).ok()?;
    }
}

fn read(reader: &mut impl BufRead, address: SocketAddr) -> Option<Call> {
    let first = line(reader)?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
        None => (target.to_owned(), None),
    };
    let (mut fields, mut length, mut chunked) = (Vec::new(), 0, false);
    while let Some((name, value)) = line(reader)?.split_once(':') {
        let (name, value) = (name.to_ascii_lowercase(), value.trim().replace(&address.to_string(), "UP"));
        match name.as_str() {
            "content-length" => length = value.parse().ok()?,
            "transfer-encoding" => chunked = true,
            name if FIELDS.contains(&name) || name.starts_with("x-") => fields.push((name.to_owned(), value)),
            _ => {}
        }
    }
    fields.sort();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    while chunked {
        let size = usize::from_str_radix(&line(reader)?, 16).ok()?;
        let mut chunk = vec![0; size];
        reader.read_exact(&mut chunk).ok()?;
        body.extend(chunk);
        line(reader)?;
        chunked = size > 0;
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    Some(Call { method, path, query, fields, body })
}

/// A line without its end; none where the connection ends.
fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    (reader.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_owned())
}
