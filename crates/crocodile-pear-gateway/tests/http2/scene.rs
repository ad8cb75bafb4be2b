//! The gateway's process, and an upstream that keeps the bytes that reach it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::stage::gateway::Gateway;

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

    /// What the process holds, in KiB.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.gateway.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

/// Answers what it is asked: `/hang` never, `/endless` without an end, anything else with three bytes.
pub struct Upstream {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Upstream {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let kept = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = kept.clone();
                thread::spawn(move || serve(stream, &kept));
            }
        });
        Upstream { address, seen }
    }

    /// The bytes that came since it was asked last.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

fn serve(mut stream: TcpStream, kept: &Mutex<Vec<u8>>) {
    let (mut held, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut bytes) {
        held.extend_from_slice(&bytes[..length]);
        kept.lock().unwrap().extend_from_slice(&bytes[..length]);
        let Some(end) = held.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
        let target = held.split(|byte| *byte == b' ').nth(1).unwrap_or_default().to_vec();
        held.drain(..end + 4);
        let answered = match target.as_slice() {
            b"/hang" => Ok(()),
            b"/endless" => endless(&mut stream),
            _ => stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes"),
        };
        if answered.is_err() {
            return;
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
