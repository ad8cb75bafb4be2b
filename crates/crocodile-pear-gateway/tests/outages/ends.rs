//! The end of the gateway: what it cuts off, and what it cannot begin.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::outages::scene::{Scene, config};
use crate::stage::shop::{Gate, Shop, answer, close};
use crate::stage::{PATIENCE, program, until};

#[test]
fn a_gateway_that_ends_says_what_it_cut_off() {
    let gate = Gate::default();
    let waits = gate.clone();
    let shop = Shop::open(move |asked, stream| {
        if asked.target == "/stream" {
            stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")?;
        }
        if asked.target != "/quick" {
            waits.wait();
            return close();
        }
        stream.write_all(&answer(200, "", "ok"))
    });
    let grace = format!("clients: {{ grace: 0s }}\n{}", config(&format!("'http://{}'", shop.address)));
    let mut scene = Scene::with("cut_off", &grace);
    let begin = |path: &str| {
        let mut stream = TcpStream::connect(scene.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n").unwrap();
        stream
    };
    let mut said = String::new();
    begin("/quick").read_to_string(&mut said).unwrap();
    let _waiting = [begin("/a"), begin("/b")];
    let mut streaming = begin("/stream");
    until("all have come", || shop.calls() == 4);
    let mut head = Vec::new();
    until("the answer has begun", || {
        let mut byte = [0];
        streaming.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
        head.ends_with(b"first")
    });
    scene.gateway.signal("TERM").unwrap();
    scene.gateway.logged("*shutting down*").unwrap();
    scene.gateway.signal("TERM").unwrap();
    scene
        .gateway
        .logged("*stopped; cut off: 2 requests without an answer, 1 answers and streams in the middle*")
        .unwrap();
    assert!(scene.gateway.ended().unwrap().success());
    gate.open();
}

#[test]
fn a_thread_that_cannot_be_made_is_named_with_the_limits() {
    let shop = Shop::open(|_, stream| stream.write_all(&answer(200, "", "ok")));
    let file = crate::stage::scratch("outages_threads.yaml");
    // So many threads have no room for their stacks.
    let config = format!("threads: 3000\n{}", config(&format!("'http://{}'", shop.address)));
    std::fs::write(&file, config).unwrap();
    let run = "ulimit -v 3000000; exec \"$0\" run \"$1\"";
    let ended = Command::new("sh").args(["-c", run]).arg(program("crocodile-pear")).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{said}");
    let line = said.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(line.contains("cannot start the thread `") && line.contains("ulimit -v"), "{said}");
}
