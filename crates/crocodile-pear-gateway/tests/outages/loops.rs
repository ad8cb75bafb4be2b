//! A gateway that calls itself by a way that no configuration shows.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use crate::scene::{Scene, get};

/// Hands bytes on to wherever it is told, as a load balancer does.
struct Relay {
    address: SocketAddr,
    to: Arc<OnceLock<SocketAddr>>,
    connections: Arc<AtomicUsize>,
}

impl Relay {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (to, connections) = (Arc::new(OnceLock::new()), Arc::new(AtomicUsize::new(0)));
        let (target, count) = (to.clone(), connections.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let server = TcpStream::connect(target.get().unwrap()).unwrap();
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || hand_on(client, server));
                thread::spawn(move || hand_on(back.0, back.1));
            }
        });
        Relay { address, to, connections }
    }
}

fn hand_on(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_loop_ends_where_it_is_closed() {
    let relay = Relay::new();
    let scene = Scene::new("loop", &format!("'http://{}'", relay.address));
    relay.to.set(scene.address()).unwrap();
    let answer = get(scene.address(), "/item");
    assert!(answer.starts_with("HTTP/1.1 508 Loop Detected\r\n"), "{answer}");
    assert_eq!(relay.connections.load(Ordering::SeqCst), 1);
    scene.gateway.logged("*cause=\"loop\"*").unwrap();
}

#[test]
fn a_loop_of_two_gateways_ends_where_it_is_closed() {
    let relay = Relay::new();
    let second = Scene::new("loop_second", &format!("'http://{}'", relay.address));
    let first = Scene::new("loop_first", &format!("'http://{}'", second.address()));
    relay.to.set(first.address()).unwrap();
    let answer = get(first.address(), "/item");
    assert!(answer.starts_with("HTTP/1.1 508 Loop Detected\r\n"), "{answer}");
    assert_eq!(relay.connections.load(Ordering::SeqCst), 1);
}
