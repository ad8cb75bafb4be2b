//! Unix sockets, to clients, to operators and to upstreams, through the real binary.

// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustls::{ClientConnection, StreamOwned};

use crate::stage::PATIENCE;
use crate::stage::asked::Asked;
use crate::stage::authority::Authority;
use crate::stage::gateway::Gateway;
use crate::stage::secure;
use crate::stage::shop::answer;

const ENDPOINTS: &str = "
upstreams: { echo: 'http://127.0.0.1:9' }
endpoints:
  GET /who: { pipeline: [{ respond: { body: '$client.address' } }] }
  GET /port: { pipeline: [{ respond: { body: '$client.port' } }] }
";

/// A folder with a short path: that of a socket is bounded.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("crocodile-pear-unix-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes the configuration, with `FOLDER` for where it is.
    fn write(&self, config: &str) -> PathBuf {
        let path = self.path("gateway.yaml");
        fs::write(&path, config.replace("FOLDER", self.0.to_str().unwrap())).unwrap();
        path
    }

    fn start(&self, config: &str) -> Gateway {
        Gateway::run(self.write(config))
    }

    /// The message of a gateway that does not start.
    fn refused(&self, config: &str) -> String {
        let mut run = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
        let output = run.arg("run").arg(self.write(config)).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        said.replace(self.0.to_str().unwrap(), "FOLDER").lines().last().unwrap_or_default().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn dial(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The body of what is answered to a GET on a connection of its own.
fn get(client: &mut (impl Read + Write), path: &str, fields: &str) -> String {
    write!(client, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{fields}\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or(text)
}

#[test]
fn clients_and_operators_are_served_at_sockets_that_are_removed_at_the_end() {
    let folder = Folder::new("served");
    let listen = "listen: ['127.0.0.1:0', 'unix:FOLDER/a.sock', { address: 'unix:FOLDER/b.sock', mode: 0600 }]
admin: unix:FOLDER/admin.sock
threads: 2";
    let mut gateway = folder.start(&[listen, ENDPOINTS].concat());
    gateway.logged("*listening on http://unix:*/b.sock*").unwrap();
    let sockets = ["a.sock", "b.sock", "admin.sock"].map(|name| folder.path(name));
    let modes = sockets.each_ref().map(|path| fs::metadata(path).unwrap().permissions().mode() & 0o777);
    assert_eq!(modes, [0o660, 0o600, 0o660]);
    for path in &sockets[..2] {
        for _ in 0..8 {
            assert_eq!(get(&mut dial(path), "/who", ""), "\"unix:\"");
        }
        assert_eq!(get(&mut dial(path), "/port", ""), "null");
    }
    assert_eq!(get(&mut dial(&sockets[2]), "/ready", ""), "ready\n");
    gateway.signal("HUP").unwrap();
    gateway.logged("*configuration reloaded*").unwrap();
    assert_eq!(get(&mut dial(&sockets[0]), "/who", ""), "\"unix:\"");
    gateway.signal("INT").unwrap();
    gateway.signal("INT").unwrap();
    gateway.ended().unwrap();
    assert!(sockets.iter().all(|path| !path.exists()));
}

#[test]
fn a_socket_that_is_left_over_is_replaced_and_one_in_use_is_told() {
    let folder = Folder::new("left");
    let config = ["listen: ['127.0.0.1:0', 'unix:FOLDER/a.sock']", ENDPOINTS].concat();
    let mut killed = folder.start(&config);
    killed.logged("*unix:*").unwrap();
    killed.signal("KILL").unwrap();
    killed.ended().unwrap();
    assert!(folder.path("a.sock").exists());
    let _serving = folder.start(&config);
    assert_eq!(get(&mut dial(&folder.path("a.sock")), "/who", ""), "\"unix:\"");
    let said = folder.refused(&config);
    let wanted = "error: unix:FOLDER/a.sock is taken: another process listens there; stop it or choose another path";
    assert_eq!(said, wanted);
    assert_eq!(get(&mut dial(&folder.path("a.sock")), "/who", ""), "\"unix:\"");
}

#[test]
fn where_no_socket_can_be_made_is_told() {
    let folder = Folder::new("places");
    fs::write(folder.path("text"), "text").unwrap();
    for (place, wanted) in [
        ("text", "error: unix:FOLDER/text is a file, but no socket: remove it or choose another path"),
        ("gone/a.sock", "error: unix:FOLDER/gone/a.sock cannot be made: there is no folder FOLDER/gone"),
    ] {
        assert_eq!(folder.refused(&format!("listen: unix:FOLDER/{place}{ENDPOINTS}")), wanted);
    }
    assert_eq!(fs::read_to_string(folder.path("text")).unwrap(), "text");
}

#[test]
fn a_proxy_at_a_socket_is_believed_where_it_is_trusted() {
    let folder = Folder::new("trust");
    for (trust, wanted) in [
        ("[unix]", "\"192.0.2.7\""),
        ("['unix:']", "\"192.0.2.7\""),
        ("[unix:]", "\"192.0.2.7\""),
        ("[0.0.0.0/0, '::/0']", "\"unix:\""),
    ] {
        let listen = format!("listen: ['127.0.0.1:0', 'unix:FOLDER/a.sock']\nclients: {{ trust: {trust} }}");
        let mut gateway = folder.start(&[&listen, ENDPOINTS].concat());
        gateway.logged("*unix:*").unwrap();
        let told = get(&mut dial(&folder.path("a.sock")), "/who", "x-forwarded-for: 1.1.1.1, 192.0.2.7\r\n");
        assert_eq!(told, wanted, "{trust}");
        gateway.signal("TERM").unwrap();
        gateway.ended().unwrap();
    }
}

#[test]
fn who_may_ask_can_be_those_at_sockets() {
    let folder = Folder::new("addresses");
    let listen = "listen: ['127.0.0.1:0', 'unix:FOLDER/a.sock']\naddresses: { allow: [unix] }";
    let gateway = folder.start(&[listen, ENDPOINTS].concat());
    gateway.logged("*unix:*").unwrap();
    assert_eq!(get(&mut dial(&folder.path("a.sock")), "/who", ""), "\"unix:\"");
    assert!(get(&mut secure::dial(gateway.address), "/who", "").contains("\"status\":403"));
}

#[test]
fn the_proxy_protocol_and_tls_go_over_a_socket() {
    let (folder, authority) = (Folder::new("tls"), Authority::new());
    let identity = authority.sign(&["gateway.test"]);
    fs::write(folder.path("own.pem"), identity.certificate.pem()).unwrap();
    fs::write(folder.path("own.key"), identity.key.serialize_pem()).unwrap();
    let listen = "listen:
- 127.0.0.1:0
- { address: 'unix:FOLDER/a.sock', proxy_protocol: on, tls: { certificate: own.pem, key: own.key } }
clients: { trust: [unix] }";
    let gateway = folder.start(&[listen, ENDPOINTS].concat());
    gateway.logged("*https://unix:*").unwrap();
    let config = Arc::new(secure::trusting(&authority, secure::ALL_VERSIONS));
    let session = ClientConnection::new(config, "gateway.test".try_into().unwrap()).unwrap();
    let mut client = StreamOwned::new(session, dial(&folder.path("a.sock")));
    client.sock.write_all(b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n").unwrap();
    assert_eq!(get(&mut client, "/who", ""), "\"192.0.2.7\"");
}

/// Answers each request with its first line and its host.
fn app(listener: UnixListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        thread::spawn(move || -> std::io::Result<()> {
            let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
            while let Some(asked) = Asked::read(&mut reader)? {
                let told = format!("{} HTTP/1.1\r\nhost: {}\r\n", asked.call(), asked.field("host"));
                writer.write_all(&answer(200, "", told))?;
            }
            Ok(())
        });
    }
}

#[test]
fn upstreams_are_reached_at_sockets() {
    let folder = Folder::new("upstream");
    for name in ["one.sock", "two.sock"] {
        let listener = UnixListener::bind(folder.path(name)).unwrap();
        thread::spawn(move || app(listener));
    }
    let gateway = folder.start(
        "listen: 127.0.0.1:0
admin: unix:FOLDER/admin.sock
upstreams:
  app: { url: 'http://app.test/api', socket: FOLDER/one.sock, health: { path: /alive } }
  both:
    servers:
      - { url: 'http://app.test', socket: FOLDER/one.sock }
      - { url: 'http://app.test', socket: FOLDER/two.sock }
  gone: { url: 'http://app.test', socket: FOLDER/gone.sock }
endpoints:
  GET /items: app /items
  GET /both: both /
  GET /gone: gone /
",
    );
    let ask = |path: &str| get(&mut secure::dial(gateway.address), path, "");
    for _ in 0..3 {
        assert_eq!(ask("/items"), "GET /api/items HTTP/1.1\r\nhost: app.test\r\n");
        assert_eq!(ask("/both"), "GET / HTTP/1.1\r\nhost: app.test\r\n");
    }
    let gone = ask("/gone");
    assert!(gone.contains("\"status\":502") && !gone.contains("sock"), "{gone}");
    let metrics = get(&mut dial(&folder.path("admin.sock")), "/metrics", "");
    for name in ["one.sock", "two.sock"] {
        let label = format!("upstream=\"both\",server=\"unix:{}\"", folder.path(name).display());
        assert!(metrics.contains(&label), "{label} in {metrics}");
    }
}
