//! The claims of clients about themselves: who they are, what they may send, and where their requests lead.

mod crawl;
mod forwarded;
mod hostile;
mod limits;
mod links;
mod trailers;

use crate::stage;

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use stage::client::Client;
use stage::front::{self, Answer, Scene};
use stage::shop::{self, Shop};

/// The requests that came to the upstream: each call with its head.
type Arrived = Arc<Mutex<Vec<String>>>;

/// A shop that notes heads and bodies and answers 200.
fn noting() -> (Shop, Arrived) {
    let arrived = Arrived::default();
    let notes = arrived.clone();
    let shop = Shop::open(move |asked, stream: &mut TcpStream| {
        notes.lock().unwrap().push(asked.head.clone());
        stream.write_all(&shop::answer(200, "", "fine"))
    });
    (shop, arrived)
}

/// Asks on a connection of its own.
fn get(scene: &Scene, target: &str, fields: &str) -> Answer {
    front::get(&mut Client::connect(scene.gateway.address).unwrap(), target, &format!("host: h\r\n{fields}"))
}

/// Asks by any method on a connection of its own.
fn ask(scene: &Scene, call: &str, fields: &str) -> Answer {
    let mut client = Client::connect(scene.gateway.address).unwrap();
    let method = call.split(' ').next().unwrap();
    client.ask(method, format!("{call} HTTP/1.1\r\nhost: h\r\n{fields}\r\n").as_bytes()).unwrap();
    let head = client.head().unwrap();
    Answer { head, body: client.rest().unwrap() }
}
