//! The gateway's process, with a configuration of the test's.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::stage::PATIENCE;
use crate::stage::gateway::Gateway;

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
        Self::of(Gateway::start(["run".as_ref(), file.as_os_str()], []).unwrap(), file)
    }

    /// The same, by a command that ends with `run FILE`.
    pub fn by(name: &str, upstream: &str, command: impl FnOnce(&Path) -> Command) -> Self {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("outages_{name}.yaml"));
        fs::write(&file, config(upstream)).unwrap();
        Self::of(Gateway::begin(command(&file)).unwrap(), file)
    }

    fn of(gateway: Gateway, file: PathBuf) -> Self {
        let line = gateway.logged("*health and metrics on http://*").unwrap();
        let admin = line.rsplit("http://").next().unwrap().trim().parse().unwrap();
        Scene { gateway, file, admin }
    }

    pub fn address(&self) -> SocketAddr {
        self.gateway.address
    }

    /// The sum of a metric, or its value where the labels have `label` in them.
    pub fn metric(&self, name: &str, label: &str) -> u64 {
        let text = get(self.admin, "/metrics");
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Waits until a metric has this value.
    pub fn until_at_least(&self, name: &str, label: &str, value: u64) {
        let end = Instant::now() + PATIENCE;
        while self.metric(name, label) < value {
            assert!(Instant::now() < end, "{name} is {} after {PATIENCE:?}", self.metric(name, label));
            std::thread::sleep(Duration::from_millis(10));
        }
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
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}
