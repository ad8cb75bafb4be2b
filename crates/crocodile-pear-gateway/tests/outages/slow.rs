//! Clients and upstreams that trickle: they hold nobody else up.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::outages::scene::{Scene, get};
use crate::stage::moody::Server;
use crate::stage::pause;

/// Sends a byte each half second on each of these connections until it is told to stop.
fn trickle(mut clients: Vec<TcpStream>, stop: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        while !stop.load(Ordering::SeqCst) {
            // One that was answered is closed: it no longer counts.
            clients.retain_mut(|client| client.write_all(b"x").is_ok());
            pause(Duration::from_millis(500));
        }
    })
}

fn begin(scene: &Scene, head: &str) -> Vec<TcpStream> {
    let connect = |_| {
        let mut client = TcpStream::connect(scene.address()).unwrap();
        client.write_all(head.as_bytes()).unwrap();
        client
    };
    (0..200).map(connect).collect()
}

#[test]
fn trickling_uploads_and_answers_leave_room_for_others() {
    let server = Server::new();
    let scene = Scene::new("slow", &format!("{{ url: 'http://{}', in_flight: 50 }}", server.address));
    let stop = Arc::new(AtomicBool::new(false));
    let uploads = begin(&scene, "POST /item HTTP/1.1\r\nhost: h\r\ncontent-length: 1000\r\n\r\n");
    let trickling = trickle(uploads, stop.clone());
    let answers = begin(&scene, "GET /trickle HTTP/1.1\r\nhost: h\r\n\r\n");
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < Duration::from_secs(3) {
        let asked = Instant::now();
        let answer = get(scene.address(), "/item");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{:?}: {answer}", began.elapsed());
        longest = longest.max(asked.elapsed());
        pause(Duration::from_millis(10));
    }
    stop.store(true, Ordering::SeqCst);
    trickling.join().unwrap();
    drop(answers);
    assert!(longest < Duration::from_secs(3), "{longest:?}");
}
