//! A gateway before a shop, and a client that asks.

use std::net::SocketAddr;

use crate::client::{Client, Head};
use crate::gateway::Gateway;
use crate::shop::Shop;

pub struct Scene {
    pub gateway: Gateway,
    admin: SocketAddr,
    client: Client,
}

/// An answer, as it came.
pub struct Answer {
    pub head: Head,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn field(&self, name: &str) -> &str {
        self.head.field(name).unwrap_or_default()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Scene {
    /// `config` without `listen`, and with `${SHOP}` for the upstream.
    pub fn new(config: &str, shop: &Shop) -> Self {
        let config = config.replace("${SHOP}", &shop.address.to_string());
        let gateway = Gateway::of(format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 2\n{config}"));
        let admin = gateway.admin().unwrap();
        let client = Client::connect(gateway.address).unwrap();
        Scene { gateway, admin, client }
    }

    /// Asks on the kept connection, with these lines of fields.
    pub fn get(&mut self, target: &str, fields: &str) -> Answer {
        get(&mut self.client, target, fields)
    }

    /// The answer of the operators' listener.
    pub fn admin(&self, target: &str) -> String {
        let fields = format!("host: {}\r\n", self.admin);
        let page = get(&mut Client::connect(self.admin).unwrap(), target, &fields);
        assert_ne!(page.head.status, 421, "{}", page.text());
        page.text().to_owned()
    }

    /// Asks with a body on the kept connection.
    pub fn send(&mut self, call: &str, fields: &str, body: &str) -> Answer {
        let (method, length) = (call.split(' ').next().unwrap_or_default(), body.len());
        let request = format!("{call} HTTP/1.1\r\n{fields}content-length: {length}\r\n\r\n{body}");
        self.client.ask(method, request.as_bytes()).unwrap();
        let head = self.client.head().unwrap();
        Answer { head, body: self.client.rest().unwrap() }
    }

    /// The sum of a metric over its labels.
    pub fn metric(&self, name: &str) -> u64 {
        self.sum(|line| line.starts_with(name))
    }

    /// How many requests had this result, at all caches.
    pub fn count(&self, result: &str) -> u64 {
        self.sum(|line| line.contains("_cache_requests_total{") && line.contains(&format!("result=\"{result}\"")))
    }

    fn sum(&self, is_one: impl Fn(&str) -> bool) -> u64 {
        let page = self.admin("/metrics");
        let samples = page.lines().filter(|line| is_one(line));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }
}

/// Asks, and reads all of the answer.
pub fn get(client: &mut Client, target: &str, fields: &str) -> Answer {
    ask(client, target, fields);
    let head = client.head().unwrap();
    Answer { head, body: client.rest().unwrap() }
}

pub fn ask(client: &mut Client, target: &str, fields: &str) {
    client.ask("GET", format!("GET {target} HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
}

/// Asks for the head alone.
pub fn head(client: &mut Client, target: &str, fields: &str) -> Head {
    client.ask("HEAD", format!("HEAD {target} HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
    client.head().unwrap()
}
