//! The handover from one process of the gateway to another, while clients call it.

// What a test reads is bounded by the test.
#![allow(clippy::disallowed_methods)]

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use crate::stage::gateway::Gateway;
use crate::stage::shop::{Gate, Shop, answer};

use crate::stage;

/// A folder with a short path: that of a socket is bounded.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("crocodile-pear-handover-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn write(&self, config: &str) -> PathBuf {
        let path = self.0.join("gateway.yaml");
        fs::write(&path, config).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that the test did not start. It ends with the test.
struct Successor(u32);

impl Successor {
    /// The one that the log names for the time number `count`.
    fn find(gateway: &Gateway, count: usize) -> Self {
        let named = || {
            let said = gateway.said();
            let line = said.lines().filter(|line| line.contains("handed over to another process")).nth(count - 1)?;
            let digits: String = line.rsplit("process=").next()?.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        Successor(stage::found(named, || gateway.said()))
    }

    fn signal(&self, name: &str) {
        // The shell's own `kill`.
        let sent = Command::new("sh").args(["-c", &format!("kill -s {name} {}", self.0)]).status();
        assert!(sent.unwrap().success());
    }

    /// A process that nobody waits for is gone at once, or a zombie of the machine's first process.
    fn has_ended(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0));
        status.is_err() || status.is_ok_and(|status| status.contains("\nState:\tZ"))
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = Command::new("sh").args(["-c", &format!("kill -s KILL {}", self.0)]).status();
        }
    }
}

fn exchange(mut stream: impl Read + Write, target: &str) -> io::Result<String> {
    stream.write_all(format!("GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map(|_| text)
}

fn ask(address: SocketAddr, target: &str) -> io::Result<String> {
    exchange(TcpStream::connect(address)?, target)
}

fn is_good(answer: &io::Result<String>) -> bool {
    answer.as_ref().is_ok_and(|text| text.starts_with("HTTP/1.1 200") && text.ends_with("whole"))
}

/// Clients that connect again for each request.
struct Load {
    over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn begin(address: SocketAddr) -> Self {
        let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = |_| {
            let (over, answered) = (over.clone(), answered.clone());
            thread::spawn(move || {
                let mut failed = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let answer = ask(address, "/fast");
                    if is_good(&answer) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    } else {
                        failed.push(format!("{answer:?}"));
                    }
                }
                failed
            })
        };
        Load { clients: (0..4).map(client).collect(), over, answered }
    }

    /// Waits until this many further requests were answered.
    fn more(&self, count: usize) {
        let before = self.answered.load(Ordering::Relaxed);
        stage::until("requests are answered", || self.answered.load(Ordering::Relaxed) >= before + count);
    }

    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        let failed: Vec<String> = self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        assert!(failed.is_empty(), "{} requests failed: {:?}", failed.len(), failed.first());
    }
}

/// An upstream whose `/slow` waits for the gate.
fn shop(gate: &Gate) -> Shop {
    let gate = gate.clone();
    Shop::open(move |asked, stream| {
        if asked.target == "/slow" {
            gate.wait();
        }
        stream.write_all(&answer(200, "", "whole"))
    })
}

fn config(shop: &Shop, socket: &Path) -> String {
    format!(
        "listen: [{{ address: 127.0.0.1:0 }}, {{ address: 'unix:{}' }}]\nadmin: 127.0.0.1:0\nthreads: 2\n\
         upstreams: {{ shop: 'http://{}' }}\nendpoints: {{ 'GET /{{*path}}': 'shop /{{*path}}' }}\n",
        socket.display(),
        shop.address
    )
}

#[test]
fn an_upgrade_loses_no_request() {
    let folder = Folder::new("upgrade");
    let (gate, socket) = (Gate::default(), folder.0.join("gateway.sock"));
    let shop = shop(&gate);
    let mut gateway = Gateway::run(folder.write(&config(&shop, &socket)));
    let (address, admin) = (gateway.address, gateway.admin().unwrap());
    let slow = thread::spawn(move || ask(address, "/slow"));
    stage::until("the slow request is in flight", || shop.calls() == 1);
    let load = Load::begin(address);
    load.more(50);
    gateway.signal("USR2").unwrap();
    let second = Successor::find(&gateway, 1);
    load.more(50);
    // The first process lives for the request that it has, and no operator meets it.
    assert!(ask(admin, "/ready").unwrap().starts_with("HTTP/1.1 200"));
    assert!(!slow.is_finished());
    gate.open();
    assert!(is_good(&slow.join().unwrap()));
    assert!(gateway.ended().unwrap().success());
    // Nobody has removed the file.
    assert!(is_good(&exchange(UnixStream::connect(&socket).unwrap(), "/fast")));
    second.signal("USR2");
    let third = Successor::find(&gateway, 2);
    load.more(50);
    stage::until("the second process ends", || second.has_ended());
    assert!(is_good(&exchange(UnixStream::connect(&socket).unwrap(), "/fast")));
    load.end();
    // The second signal does not wait for load balancers.
    third.signal("TERM");
    gateway.logged("*shutting down*").unwrap();
    third.signal("TERM");
    stage::until("the third process ends", || third.has_ended());
    assert!(!socket.exists());
}

#[test]
fn a_successor_that_cannot_start_changes_nothing() {
    let folder = Folder::new("refused");
    let (gate, socket) = (Gate::default(), folder.0.join("gateway.sock"));
    let shop = shop(&gate);
    let good = config(&shop, &socket);
    let gateway = Gateway::run(folder.write(&good));
    let load = Load::begin(gateway.address);
    load.more(20);
    folder.write(&good.replace("endpoints", "endpoint"));
    gateway.signal("USR2").unwrap();
    gateway.logged("*unknown field `endpoint`*").unwrap();
    gateway.logged("*no other process took over: it ended with exit status: 1; this one continues to serve*").unwrap();
    load.more(20);
    // This one fails when it has the sockets of the clients: another process has the operators' address.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    folder.write(&good.replace("admin: 127.0.0.1:0", &format!("admin: {}", taken.local_addr().unwrap())));
    gateway.signal("USR2").unwrap();
    gateway.logged("*is taken: another process listens there*").unwrap();
    stage::until("the gateway has said so twice", || gateway.said().matches("no other process took over").count() == 2);
    load.more(20);
    assert!(is_good(&exchange(UnixStream::connect(&socket).unwrap(), "/fast")));
    // With other listeners, and without one that was there.
    let moved = good.replace("{ address: 127.0.0.1:0 }, ", "{ address: 127.0.0.1:0 }, { address: '[::1]:0' }, ");
    let path = format!("address: 'unix:{}'", socket.display());
    folder.write(&moved.replace("threads: 2", "threads: 3").replace(&path, &format!("{path}, mode: 0600")));
    gateway.signal("USR2").unwrap();
    let second = Successor::find(&gateway, 1);
    load.more(50);
    load.end();
    assert!(!second.has_ended());
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_process_that_was_told_to_stop_has_no_successor() {
    let folder = Folder::new("stopped");
    let (gate, socket) = (Gate::default(), folder.0.join("gateway.sock"));
    let shop = shop(&gate);
    let good = config(&shop, &socket);
    let path = folder.write(&good);
    let mut gateway = Gateway::run(path.clone());
    let address = gateway.address;
    let slow = thread::spawn(move || ask(address, "/slow"));
    stage::until("the slow request is in flight", || shop.calls() == 1);
    // The successor waits for its configuration.
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    gateway.signal("USR2").unwrap();
    let mut pipe = OpenOptions::new().write(true).open(&path).unwrap();
    gateway.signal("TERM").unwrap();
    gateway.logged("*shutting down*").unwrap();
    pipe.write_all(good.as_bytes()).unwrap();
    drop(pipe);
    gateway.logged("*no other process took over: this one was told to stop*").unwrap();
    gate.open();
    assert!(is_good(&slow.join().unwrap()));
    assert!(gateway.ended().unwrap().success());
    assert!(TcpStream::connect(address).is_err() && !socket.exists());
}

#[test]
fn a_predecessor_that_is_none_is_told() {
    let folder = Folder::new("alone");
    let (gate, socket) = (Gate::default(), folder.0.join("gateway.sock"));
    let path = folder.write(&config(&shop(&gate), &socket));
    let mut command = Command::new(stage::program("crocodile-pear"));
    let output = command.arg("run").arg(path).env("CROCODILE_PEAR_PREDECESSOR", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot take over from the other process"));
}
