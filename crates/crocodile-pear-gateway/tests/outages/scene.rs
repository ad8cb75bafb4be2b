//! The gateway's process, with a configuration of the test's.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::gateway::Gateway;
use crate::stage::{PATIENCE, found};

pub struct Scene {
    pub gateway: Gateway,
    pub file: PathBuf,
    admin: SocketAddr,
}

impl Scene {
    /// Starts the gateway; `upstream` is what stands at the upstream `shop`.
    pub fn new(name: &str, upstream: &str) -> Self {
        Self::with(name, &config(upstream))
    }

    pub fn with(name: &str, config: &str) -> Self {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("outages_{name}.yaml"));
        fs::write(&file, config).unwrap();
        Self::of(Gateway::run(&file), file)
    }

    /// The same, by a command that ends with `run FILE`.
    pub fn by(name: &str, upstream: &str, command: impl FnOnce(&Path) -> Command) -> Self {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("outages_{name}.yaml"));
        fs::write(&file, config(upstream)).unwrap();
        Self::of(Gateway::begin(command(&file)).unwrap(), file)
    }

    fn of(gateway: Gateway, file: PathBuf) -> Self {
        let admin = gateway.admin().unwrap();
        Scene { gateway, file, admin }
    }

    pub fn address(&self) -> SocketAddr {
        self.gateway.address
    }

    /// The sum of a metric, or its value where the labels have `label` in them.
    pub fn metric(&self, name: &str, label: &str) -> u64 {
        self.ask_metric(name, label)
            .unwrap_or_else(|error| panic!("{error}; the gateway said: {}", self.gateway.said()))
    }

    fn ask_metric(&self, name: &str, label: &str) -> io::Result<u64> {
        let text = ask(self.admin, "/metrics")?;
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
    }

    /// Waits until a metric has this value. A gateway in need may not answer who asks for it: it is asked again.
    pub fn until_at_least(&self, name: &str, label: &str, value: u64) {
        let look = || self.ask_metric(name, label).ok().filter(|seen| *seen >= value);
        found(look, || {
            format!("{name} is {:?}; the gateway said: {}", self.ask_metric(name, label), self.gateway.said())
        });
    }
}

/// A gateway with one upstream.
pub fn config(upstream: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstreams:\n  shop: {upstream}\nendpoints:\n  'GET /{{path}}': shop /{{path}}\n  \
         'POST /{{path}}': shop /{{path}}\n"
    )
}

/// An answer with its head.
pub fn get(address: SocketAddr, path: &str) -> String {
    ask(address, path).unwrap()
}

fn ask(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
