//! A gateway that writes an access log into a folder, and its clients.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::gateway::Gateway;
use crate::{PATIENCE, found};

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
        Gateway::start(["run".into(), self.path("gateway.yaml")], []).unwrap()
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

/// The whole answer to the bytes of a request, which says `connection: close`.
pub fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(request).unwrap();
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// A connection that asks one thing after the other.
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let connection = TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection.set_nodelay(true).unwrap();
        Client(BufReader::new(connection))
    }

    /// Sends a request, and reads its answer; the status.
    pub fn ask(&mut self, request: &str) -> u16 {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut status, mut length) = (0, 0);
        for at in 0.. {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            match line.trim_end().split_once(": ") {
                _ if at == 0 => status = line[9..12].parse().unwrap(),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        status
    }
}

/// The value of a metric.
pub fn metric(gateway: &Gateway, name: &str) -> f64 {
    let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let metrics = ask(gateway.admin().unwrap(), request);
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).rsplit(' ').next().unwrap().parse().unwrap()
}

/// Makes a named pipe.
pub fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}
