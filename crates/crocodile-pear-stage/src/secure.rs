//! A gateway with files of its own, and clients that speak TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, StreamOwned, SupportedProtocolVersion};

use crate::authority::{Authority, Identity, provider};
use crate::gateway::Gateway;
use crate::{PATIENCE, found, scratch};

pub use rustls::ALL_VERSIONS;

pub const ENDPOINTS: &str = "
upstreams: { echo: 'http://127.0.0.1:9' }
endpoints:
  GET /who: { pipeline: [{ respond: { body: '{scheme: $client.protocol}' } }] }
  POST /echo: { max_body: 8MiB, pipeline: [{ respond: { body: '$body' } }] }
";

/// A gateway that was started in a folder.
pub struct Scene {
    pub gateway: Gateway,
}

/// A folder of a test's own.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let folder = scratch("tls").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file, whole or not at all.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let draft = self.path(&format!("{name}.new"));
        fs::write(&draft, bytes).unwrap();
        fs::rename(draft, self.path(name)).unwrap();
    }

    /// Writes `NAME.pem` and `NAME.key`.
    pub fn identity(&self, name: &str, identity: &Identity) {
        self.write(&format!("{name}.key"), identity.key.serialize_pem());
        self.write(&format!("{name}.pem"), identity.certificate.pem());
    }

    pub fn start(&self, config: &str) -> Scene {
        self.write("gateway.yaml", config);
        let gateway = Gateway::run(self.path("gateway.yaml"));
        Scene { gateway }
    }
}

impl Scene {
    /// Waits until the metrics have all of these lines.
    pub fn until_metrics(&self, wanted: &[String]) {
        let admin = self.gateway.admin().unwrap();
        let metrics = || ask(&mut dial(admin), "localhost", "/metrics").unwrap();
        let has = |metrics: &str, line: &String| metrics.lines().any(|known| known == line);
        let look = || Some(metrics()).filter(|metrics| wanted.iter().all(|line| has(metrics, line)));
        found(look, || format!("{wanted:#?} in {}", metrics()));
    }

    /// The addresses of all listeners, in the order of the configuration.
    pub fn addresses(&self, count: usize) -> Vec<SocketAddr> {
        self.gateway.logged("*listening on*").unwrap();
        loop {
            let said = self.gateway.said();
            let lines = said.lines().filter(|line| line.contains("listening on http"));
            let address = |line: &str| line.split("://").nth(1)?.split(',').next()?.parse().ok();
            let addresses: Vec<SocketAddr> = lines.filter_map(address).collect();
            if addresses.len() == count {
                return addresses;
            }
            std::thread::yield_now();
        }
    }
}

pub fn trusting(authority: &Authority, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    verifying(authority, versions).with_no_client_auth()
}

/// The same with a certificate of its own.
pub fn showing(
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
    identity: &Identity,
) -> ClientConfig {
    verifying(authority, versions).with_client_auth_cert(identity.chain(), identity.private()).unwrap()
}

fn verifying(
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(&authority.pem()).unwrap()).unwrap();
    ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
}

pub type Client = StreamOwned<ClientConnection, TcpStream>;

/// A socket that waits for an answer, but not for ever.
pub fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Connects, sends `before` in clear, and makes the handshake.
pub fn connect(address: SocketAddr, config: &Arc<ClientConfig>, name: &str, before: &[u8]) -> std::io::Result<Client> {
    let session = ClientConnection::new(config.clone(), ServerName::try_from(name.to_owned()).unwrap()).unwrap();
    let mut client = StreamOwned::new(session, dial(address));
    client.sock.write_all(before)?;
    while client.conn.is_handshaking() {
        client.conn.complete_io(&mut client.sock)?;
    }
    Ok(client)
}

/// Sends a GET, and reads the answer to the end of the connection.
pub fn get(client: &mut (impl Read + Write), path: &str) -> std::io::Result<String> {
    ask(client, "gateway.test", path)
}

/// The same for another host.
fn ask(client: &mut (impl Read + Write), host: &str, path: &str) -> std::io::Result<String> {
    write!(client, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")?;
    let mut text = Vec::new();
    client.read_to_end(&mut text)?;
    Ok(String::from_utf8(text).unwrap())
}

/// The certificate that a client was shown.
pub fn shown(client: &Client) -> &[u8] {
    client.conn.peer_certificates().unwrap()[0].as_ref()
}

/// The bytes up to the end of the connection, however that ends.
pub fn rest(client: &mut impl Read) -> String {
    let mut text = Vec::new();
    let _ = client.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}
