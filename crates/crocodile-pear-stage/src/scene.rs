//! The gateway's process, with a configuration of the test's, and clients of it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::client::{self, Head};
use crate::gateway::Gateway;
use crate::{scratch, until};

pub struct Scene {
    pub gateway: Gateway,
    pub file: PathBuf,
    admin: SocketAddr,
}

impl Scene {
    /// Starts the gateway with this configuration, besides where it listens.
    pub fn new(name: &str, config: &str) -> Self {
        let file = scratch(format!("{name}.yaml"));
        write(&file, config);
        let gateway = Gateway::run(&file);
        let admin = gateway.admin().unwrap();
        Scene { gateway, file, admin }
    }

    /// Another configuration from now on.
    pub fn reload(&self, config: &str) {
        write(&self.file, config);
        let before = self.count("configuration reloaded");
        self.gateway.signal("HUP").unwrap();
        self.until("it was read again", || self.count("configuration reloaded") > before);
    }

    /// How many lines of the log have this in them.
    pub fn count(&self, part: &str) -> usize {
        self.gateway.said().lines().filter(|line| line.contains(part)).count()
    }

    /// The sum of a metric.
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.metrics();
        let samples = text.lines().filter(|line| line.starts_with(name));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    pub fn metrics(&self) -> String {
        Client::connect(self.admin).get("/metrics").body
    }

    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        until(what, holds);
    }

    /// Waits until it listens to so many sources.
    pub fn listens(&self, sources: u64) {
        until("it listens", || self.metric("crocodile_pear_events_up") == sources);
    }

    pub fn client(&self) -> Client {
        Client::connect(self.gateway.address)
    }

    /// Purges, and says how many answers that was about.
    pub fn purge(&self, body: &str) -> u64 {
        let fields = [("content-type", "application/json")];
        let reply = Client::connect(self.admin).ask("POST", "/cache/purge", &fields, body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        let document: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        document["purged"].as_u64().unwrap()
    }
}

fn write(file: &Path, config: &str) {
    fs::write(file, format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 2\n{config}")).unwrap();
}

/// A connection of a client that sends one request after the other.
pub struct Client(client::Client);

/// A whole answer, whose body is text.
pub struct Reply {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The same; an empty text if it is not there.
    pub fn value(&self, name: &str) -> &str {
        self.field(name).unwrap_or_default()
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Client(client::Client::connect(address).unwrap())
    }

    pub fn get(&mut self, path: &str) -> Reply {
        self.ask("GET", path, &[], "")
    }

    pub fn ask(&mut self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Reply {
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.call(&format!("{method} {path}"), &lines, body)
    }

    /// `call` is method and path, and `fields` are whole lines.
    pub fn call(&mut self, call: &str, fields: &str, body: &str) -> Reply {
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        self.send(&format!("{call} HTTP/1.1\r\nhost: 127.0.0.1\r\n{fields}{length}\r\n{body}"))
    }

    /// The answer to the bytes of a request.
    pub fn send(&mut self, request: &str) -> Reply {
        self.write(request);
        self.read()
    }

    /// Sends a request whose answer is read later.
    pub fn write(&mut self, request: &str) {
        self.0.ask(request.split(' ').next().unwrap(), request.as_bytes()).unwrap();
    }

    /// The next answer.
    pub fn read(&mut self) -> Reply {
        let Head { status, fields } = self.0.head().unwrap();
        Reply { status, fields, body: String::from_utf8(self.0.rest().unwrap()).unwrap() }
    }
}
