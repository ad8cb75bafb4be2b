//! A gateway that writes an access log into a folder, and its clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::exchange;
use crate::found;
use crate::gateway::Gateway;

/// The configuration.
pub const SERVED: &str = "
endpoints:
  GET /hello/{name}: { pipeline: [{ respond: { body: '\"hello\"' } }] }
  /teapot: { pipeline: [{ respond: { status: 418, body: '\"tea\"' } }] }
";

/// A folder of a test, which goes with it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("crocodile-pear-access-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes the configuration, with `FOLDER` for where it is.
    pub fn write(&self, config: &str) {
        let config = format!("{config}{SERVED}").replace("FOLDER", self.0.to_str().unwrap());
        fs::write(self.path("gateway.yaml"), config).unwrap();
    }

    pub fn start(&self, log: &str) -> Gateway {
        self.write(&format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 2\nlog: {{ access: {log} }}"));
        Gateway::run(self.path("gateway.yaml"))
    }

    /// The lines of a file, as soon as it has so many.
    pub fn lines(&self, name: &str, count: usize) -> Vec<String> {
        let path = self.path(name);
        let text = found(|| Some(read(&path)).filter(|text| text.lines().count() >= count), || read(&path));
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8(bytes).expect("UTF-8")).unwrap_or_default()
}

/// The value of a metric.
pub fn metric(gateway: &Gateway, name: &str) -> f64 {
    let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let metrics = exchange(gateway.admin().unwrap(), request);
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).rsplit(' ').next().unwrap().parse().unwrap()
}

/// Makes a named pipe.
pub fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}
