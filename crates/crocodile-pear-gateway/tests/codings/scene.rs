//! A gateway before an upstream that does what a test says.

use std::io::{self, Write};
use std::net::TcpStream;

use crate::codings::reader::read;
use crate::stage::client::{Client, Head, Piece};
use crate::stage::gateway::Gateway;
use crate::stage::shop::Shop;

pub struct Scene {
    pub gateway: Gateway,
    client: Client,
}

/// An answer, as it came.
pub struct Answer {
    pub head: Head,
    pub body: Vec<u8>,
    /// How it was broken off, if it was.
    pub broken: Option<String>,
}

impl Scene {
    /// `config` without `listen` and with `${UP}` for the upstream, which answers calls with `play`: it is given the
    /// head of each, and writes what it likes. A connection whose play fails is closed.
    pub fn new(config: &str, play: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let shop = Shop::open(move |asked, stream| play(&asked.head, stream));
        let config = config.replace("${UP}", &format!("http://{}", shop.address));
        let gateway = Gateway::of(format!("listen: 127.0.0.1:0\nthreads: 1\n{config}"));
        let client = Client::connect(gateway.address).unwrap();
        Scene { gateway, client }
    }

    /// Sends a request with these lines of fields on the kept connection, and hands out who sees the answer.
    pub fn ask(&mut self, call: &str, fields: &str) -> &mut Client {
        let method = call.split(' ').next().unwrap();
        let request = format!("{call} HTTP/1.1\r\nhost: h\r\n{fields}\r\n");
        self.client.ask(method, request.as_bytes()).unwrap();
        &mut self.client
    }

    /// A new connection, for what comes after an answer that was broken off.
    pub fn renew(&mut self) {
        self.client = Client::connect(self.gateway.address).unwrap();
    }

    /// The whole answer to a request.
    pub fn whole(&mut self, call: &str, fields: &str) -> Answer {
        let client = self.ask(call, fields);
        let (mut head, mut body) = (client.head().unwrap(), Vec::new());
        // Interim answers come before it.
        while head.status < 200 {
            head = client.head().unwrap();
        }
        let broken = loop {
            match client.piece().unwrap() {
                Piece::Data(data) => body.extend(data),
                Piece::End(_) => break None,
                Piece::Broken(how) => break Some(how),
            }
        };
        if broken.is_some() {
            self.renew();
        }
        Answer { head, body, broken }
    }

    /// The whole answer to a GET of a client that accepts this coding.
    pub fn get(&mut self, path: &str, accept: &str) -> Answer {
        self.whole(&format!("GET {path}"), &format!("accept-encoding: {accept}\r\n"))
    }
}

impl Answer {
    /// The values of a field.
    pub fn field(&self, name: &str) -> Option<String> {
        let values: Vec<&str> =
            self.head.fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// The coding that it says it has.
    pub fn coding(&self) -> String {
        self.field("content-encoding").unwrap_or_else(|| "identity".to_owned())
    }

    /// The text that a client reads: all of it, by the coding that it says it has.
    pub fn text(&self) -> Vec<u8> {
        assert_eq!(self.broken, None);
        let (text, whole) = read(&self.coding(), &self.body);
        assert!(whole, "{} does not end", self.coding());
        text
    }
}

/// Writes the head of an answer that comes in chunks.
pub fn begin(stream: &mut TcpStream, fields: &str) -> io::Result<()> {
    stream.write_all(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n{fields}\r\n").as_bytes())
}

/// Writes a chunk; an empty one is the end.
pub fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let framed = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    stream.write_all(&framed)
}

/// Writes a whole answer with its length.
pub fn answer(stream: &mut TcpStream, fields: &str, body: &[u8]) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{fields}\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat())
}
