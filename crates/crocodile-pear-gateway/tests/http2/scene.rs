//! The gateway's process, and an upstream that keeps the bytes that reach it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::stage::accept::Accepting;
use crate::stage::gateway::Gateway;
use crate::stage::shop::answer;

pub struct Scene {
    pub gateway: Gateway,
    pub upstream: Upstream,
    pub address: SocketAddr,
}

impl Scene {
    /// Starts both, with these endpoints.
    pub fn new(name: &str, endpoints: &str) -> Self {
        Scene::with(name, |upstream| {
            format!(
                "listen: 127.0.0.1:0\nthreads: 1\nupstreams:\n  shop: {{ url: 'http://{upstream}', forward: all }}\n\
                 endpoints:\n{endpoints}"
            )
        })
    }

    /// Starts both, with this configuration. `HTTP2_GATEWAY` names another binary, for figures of an optimised one.
    pub fn with(name: &str, config: impl FnOnce(SocketAddr) -> String) -> Self {
        let upstream = Upstream::new();
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("http2_{name}.yaml"));
        fs::write(&file, config(upstream.address)).unwrap();
        let binary = std::env::var_os("HTTP2_GATEWAY").unwrap_or(env!("CARGO_BIN_EXE_crocodile-pear").into());
        let mut command = Command::new(binary);
        command.arg("run").arg(&file);
        let gateway = Gateway::begin(command).unwrap();
        Scene { address: gateway.address, gateway, upstream }
    }
}

/// Answers what it is asked: `/hang` never, `/endless` without an end, anything else with three bytes.
pub struct Upstream {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Upstream {
    fn new() -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let accepting = Accepting::begin(move |stream| serve(stream, &kept));
        Upstream { address: accepting.address, seen }
    }

    /// The bytes of each request that came, with its body as far as it did.
    pub fn seen(&self) -> Vec<Vec<u8>> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, kept: &Mutex<Vec<Vec<u8>>>) -> std::io::Result<()> {
    let (mut held, mut bytes) = (Vec::new(), [0; 4096]);
    let mut number = None;
    loop {
        if let Some(end) = end_of_head(&held) {
            // What follows the head belongs to it, up to the end of its body.
            let number = *number.get_or_insert_with(|| {
                let mut kept = kept.lock().unwrap();
                kept.push(Vec::new());
                kept.len() - 1
            });
            kept.lock().unwrap()[number].clone_from(&held);
            if whole(&held, end) {
                let target = held.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
                match target {
                    b"/hang" => {}
                    b"/endless" => endless(&mut stream)?,
                    _ => stream.write_all(&answer(200, "", "yes"))?,
                }
                held.clear();
            }
        }
        if held.is_empty() {
            number = None;
        }
        match stream.read(&mut bytes) {
            // Of a flood of data a part is enough.
            Ok(length @ 1..) if held.len() < 1 << 16 => held.extend_from_slice(&bytes[..length]),
            Ok(1..) => {}
            _ => return Ok(()),
        }
    }
}

fn end_of_head(held: &[u8]) -> Option<usize> {
    held.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4)
}

/// Whether the body is there to its end.
fn whole(held: &[u8], end: usize) -> bool {
    let (head, body) = held.split_at(end);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return chunks_end(body);
    }
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn chunks_end(mut body: &[u8]) -> bool {
    loop {
        let Some(line) = body.windows(2).position(|end| end == b"\r\n") else { return false };
        let size = std::str::from_utf8(&body[..line]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        match size {
            Some(0) => return body.ends_with(b"\r\n\r\n"),
            Some(size) if body.len() > line + 2 + size + 2 => body = &body[line + 2 + size + 2..],
            _ => return false,
        }
    }
}

fn endless(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
    let chunk = [b"4000\r\n".as_slice(), &[b'x'; 0x4000], b"\r\n"].concat();
    loop {
        stream.write_all(&chunk)?;
    }
}
