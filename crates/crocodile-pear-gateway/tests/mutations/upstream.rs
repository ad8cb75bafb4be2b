//! A strict upstream, whose answers have faults where it is asked for them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::mutations::mutate::{ANSWERS, dice, mutate};
use crate::stage::PATIENCE;
use crate::stage::accept::Accepting;

pub struct Upstream {
    pub address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    requests: AtomicU64,
    faults: Mutex<Vec<String>>,
}

/// The request that what stands behind an answer is for: none.
const BEHIND: u64 = 999_999;

/// The name of a request in its answer: twice, so that a mutated one names none.
fn name(id: u64) -> String {
    format!("{id:06}-{id:06}")
}

/// Whether an answer that names a request may be for this one.
pub fn belongs(named: &str, id: u64) -> bool {
    let whole = named.split_once('-').is_some_and(|(one, other)| one == other && one.len() == 6);
    // What stands behind an answer may have become the answer, where that became an interim one.
    !whole || named == name(id) || named == name(BEHIND)
}

impl Upstream {
    pub fn new(seed: u64) -> Self {
        let seen = Arc::new(Seen::default());
        let shared = seen.clone();
        let accepting = Accepting::begin(move |stream| {
            serve(stream, seed, &shared);
            Ok(())
        });
        Upstream { address: accepting.address, seen }
    }

    /// The faults of the gateway.
    pub fn faults(&self) -> Vec<String> {
        self.seen.faults.lock().unwrap().clone()
    }

    pub fn seen(&self) -> u64 {
        self.seen.requests.load(Ordering::Relaxed)
    }
}

fn serve(stream: TcpStream, seed: u64, seen: &Seen) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let fault = |what: String| seen.faults.lock().unwrap().push(what);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut out = stream;
    loop {
        let path = match request(&mut reader) {
            Ok(Some(path)) => path,
            Ok(None) => return,
            Err(what) => return fault(what),
        };
        seen.requests.fetch_add(1, Ordering::Relaxed);
        let Some(id) = path.strip_prefix("/odd/").and_then(|id| id.parse().ok()) else {
            if out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").is_err() {
                return;
            }
            continue;
        };
        let mut dice = dice(seed, id);
        let good = dice.of(&ANSWERS).replace("ID", &name(id));
        let mut answer = mutate(&good, &mut dice);
        // What stands behind an answer belongs to nobody. It is too long to be what an answer lacks.
        let surplus = dice.rare(2);
        if surplus {
            answer.extend_from_slice(
                &b"HTTP/1.1 200 OK\r\nX-Id: 999999-999999\r\nContent-Length: 65536\r\n\r\n".repeat(20),
            );
        }
        if out.write_all(&answer).is_err() {
            return;
        }
        if surplus {
            // Nothing may be asked here again.
            if let Ok(Some(path)) = request(&mut reader) {
                fault(format!("SEED={seed}, {id}: {path} was asked on the connection of {}", answer.escape_ascii()));
            }
            return;
        }
        if dice.rare(2) {
            let _ = out.shutdown(Shutdown::Write);
        }
    }
}

/// The path of the next request, read strictly; nothing at the end of the connection.
fn request(reader: &mut BufReader<TcpStream>) -> Result<Option<String>, String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match reader.read_until(b'\n', &mut head) {
            Ok(1..) => {}
            _ => return Ok(None),
        }
    }
    let text = String::from_utf8_lossy(&head);
    let mut lines = text.trim_end().split("\r\n");
    let line: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [_, path, "HTTP/1.1"] = line[..] else { return Err(format!("a malformed request line: {text:?}")) };
    let fields: Option<Vec<(&str, &str)>> = lines.map(|line| line.split_once(": ")).collect();
    let fields = fields.ok_or_else(|| format!("a malformed field: {text:?}"))?;
    let of = |name: &str| -> Vec<&str> {
        let named = fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| *value).collect()
    };
    let (lengths, codings) = (of("content-length"), of("transfer-encoding"));
    if of("host").len() != 1 || text.contains(['\0', '\x7f']) {
        return Err(format!("a malformed head: {text:?}"));
    }
    // The client may have left before its body was whole: then so does the gateway.
    let read = match (&lengths[..], &codings[..]) {
        ([], []) => Ok(()),
        ([length], []) => reader.read_exact(&mut vec![0; length.parse().map_err(|_| format!("a length: {text:?}"))?]),
        ([], ["chunked"]) => chunks(reader)?,
        _ => return Err(format!("two framings: {text:?}")),
    };
    Ok(read.ok().map(|()| path.to_owned()))
}

fn chunks(reader: &mut BufReader<TcpStream>) -> Result<std::io::Result<()>, String> {
    loop {
        let mut line = String::new();
        if !matches!(reader.read_line(&mut line), Ok(1..)) {
            return Ok(Err(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let size = line.strip_suffix("\r\n").and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(size) = size else { return Err(format!("a malformed chunk: {line:?}")) };
        if size == 0 {
            break;
        }
        if let Err(error) = reader.read_exact(&mut vec![0; size + 2]) {
            return Ok(Err(error));
        }
    }
    let mut trailer = String::new();
    while trailer != "\r\n" {
        trailer.clear();
        if !matches!(reader.read_line(&mut trailer), Ok(1..)) {
            return Ok(Err(std::io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(Ok(()))
}
