//! A gateway that calls itself by a way that no configuration shows.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::thread;

use crate::outages::scene::{Scene, get};
use crate::stage::accept::Accepting;

/// Hands bytes on to wherever it is told, as a load balancer does.
struct Relay {
    accepting: Accepting,
    to: Arc<OnceLock<SocketAddr>>,
}

impl Relay {
    fn new() -> Self {
        let to = Arc::new(OnceLock::new());
        let target = to.clone();
        let accepting = Accepting::begin(move |client| {
            let server = TcpStream::connect(target.get().unwrap())?;
            let back = (server.try_clone()?, client.try_clone()?);
            thread::spawn(move || hand_on(back.0, back.1));
            hand_on(client, server);
            Ok(())
        });
        Relay { accepting, to }
    }
}

fn hand_on(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_loop_ends_where_it_is_closed() {
    let relay = Relay::new();
    let scene = Scene::new("loop", &format!("'http://{}'", relay.accepting.address));
    relay.to.set(scene.address()).unwrap();
    let answer = get(scene.address(), "/item");
    assert!(answer.starts_with("HTTP/1.1 508 Loop Detected\r\n"), "{answer}");
    assert_eq!(relay.accepting.connections(), 1);
    scene.gateway.logged("*cause=\"loop\"*").unwrap();
}

#[test]
fn a_loop_of_two_gateways_ends_where_it_is_closed() {
    let relay = Relay::new();
    let second = Scene::new("loop_second", &format!("'http://{}'", relay.accepting.address));
    let first = Scene::new("loop_first", &format!("'http://{}'", second.address()));
    relay.to.set(first.address()).unwrap();
    let answer = get(first.address(), "/item");
    assert!(answer.starts_with("HTTP/1.1 508 Loop Detected\r\n"), "{answer}");
    assert_eq!(relay.accepting.connections(), 1);
}
