//! Pebble, and a DNS server for which every name is this machine.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};

use crate::stage::accept::Accepting;
use crate::stage::authority::{Authority, provider};
use crate::stage::ports::free_port;
use crate::stage::secure::{ALL_VERSIONS, Folder, Scene, connect, get, trusting};
use crate::stage::within;

/// The module of Pebble, which needs Go 1.24.
const MODULE: &str = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1";

/// An order takes a second or two; the machine may be busy.
pub const LONG: Duration = Duration::from_secs(30);

/// The key of an external account in base64url.
pub const EAB: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

pub struct Pebble {
    /// Where it looks for answers.
    pub http: u16,
    pub tls: u16,
    port: u16,
    admin: u16,
    folder: PathBuf,
    program: PathBuf,
    authority: Authority,
    dns: SocketAddr,
    child: Option<Child>,
    settings: Value,
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Pebble {
    /// Starts Pebble; `None` where it cannot be had. `settings` are added to its configuration.
    pub fn start(folder: &Folder, settings: Value) -> Option<Self> {
        let mut pebble = Self::install(folder, settings)?;
        pebble.run();
        Some(pebble)
    }

    /// Installs a Pebble that does not run yet.
    pub fn install(folder: &Folder, settings: Value) -> Option<Self> {
        let program = program()?;
        let authority = Authority::new();
        folder.write("pebble-ca.pem", authority.pem());
        folder.identity("pebble", &authority.sign(&["127.0.0.1"]));
        let [http, tls, port, admin] = free_ports();
        let folder = folder.0.clone();
        Some(Pebble { http, tls, port, admin, folder, program, authority, dns: dns(), child: None, settings })
    }

    pub fn run(&mut self) {
        let mut pebble = json!({
            "listenAddress": format!("127.0.0.1:{}", self.port),
            "managementListenAddress": format!("127.0.0.1:{}", self.admin),
            "certificate": self.folder.join("pebble.pem"), "privateKey": self.folder.join("pebble.key"),
            "httpPort": self.http, "tlsPort": self.tls, "keyAlgorithm": "ecdsa", "retryAfter": {"authz": 1, "order": 1},
        });
        for (name, value) in self.settings.as_object().unwrap() {
            pebble[name] = value.clone();
        }
        let config = self.folder.join("pebble.json");
        fs::write(&config, json!({"pebble": pebble}).to_string()).unwrap();
        let log = fs::File::options().create(true).append(true).open(self.folder.join("pebble.log")).unwrap();
        let child = Command::new(&self.program)
            .args(["-config".as_ref(), config.as_os_str(), "-dnsserver".as_ref(), self.dns.to_string().as_ref()])
            .envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "1"), ("PEBBLE_AUTHZREUSE", "0")])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap());
        let listens = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
        let listening = within(LONG, || [self.port, self.admin].iter().all(listens).then_some(()));
        assert!(listening.is_some(), "Pebble does not listen: {}", self.log());
    }

    /// Stops it: its accounts and orders are forgotten.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The fields of `acme` that lead to it.
    pub fn acme(&self) -> String {
        format!("directory: 'https://127.0.0.1:{}/dir', ca: pebble-ca.pem, folder: kept", self.port)
    }

    /// The log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("pebble.log")).unwrap_or_default()
    }

    /// Whether an order has replaced a certificate. Pebble does not find the order of a certificate whose serial number begins
    /// with a zero byte, and refuses what would replace it: one of 128.
    pub fn has_replaced(&self) -> bool {
        let log = self.log();
        let serials = log.split("Issued certificate serial ").skip(1).filter_map(|rest| rest.split(' ').next());
        log.contains("is a replacement of") || serials.into_iter().any(|serial| serial.len() < 16)
    }

    /// A page of its management.
    fn page(&self, path: &str) -> String {
        let client = Arc::new(trusting(&self.authority, ALL_VERSIONS));
        let address = ([127, 0, 0, 1], self.admin).into();
        let page = get(&mut connect(address, &client, "127.0.0.1", b"").unwrap(), path).unwrap();
        page.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// A client that trusts what it signs.
    pub fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let root = self.page("/roots/0");
        roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(ALL_VERSIONS).unwrap();
        let mut client = builder.with_root_certificates(roots).with_no_client_auth();
        // A session of before would show the certificate of before.
        client.resumption = Resumption::disabled();
        Arc::new(client)
    }

    /// Says that a certificate is to be renewed in this window.
    pub fn advise(&self, certificate: &str, window: &Value) {
        let client = Arc::new(trusting(&self.authority, ALL_VERSIONS));
        let body = json!({"Certificate": certificate, "ARIResponse": window.to_string()}).to_string();
        let mut stream = connect(([127, 0, 0, 1], self.admin).into(), &client, "127.0.0.1", b"").unwrap();
        write!(
            stream,
            "POST /set-renewal-info/ HTTP/1.1\r\nhost: a\r\nuser-agent: a\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// Waits for a line of a gateway's log that has all of these parts.
pub fn logged(scene: &Scene, parts: &[&str]) -> String {
    logged_times(scene, parts, 1)
}

/// Waits until so many lines have all of these parts; answers the last.
pub fn logged_times(scene: &Scene, parts: &[&str], times: usize) -> String {
    let look = || {
        let said = scene.gateway.said();
        let mut found = said.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
        found.nth(times - 1).map(str::to_owned)
    };
    within(LONG, look).unwrap_or_else(|| panic!("no {times} lines with {parts:?} in {}", scene.gateway.said()))
}

/// Ports that nobody listens on.
pub fn free_ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| free_port())
}

/// The program: installed, or built with Go.
fn program() -> Option<PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = PROGRAM.get_or_init(|| {
        let runs = |program: &Path| {
            Command::new(program).arg("-version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
        let built = folder.join("pebble");
        let installed = PathBuf::from("pebble");
        if let Some(program) = [installed, built.clone()].into_iter().find(|program| runs(program)) {
            return Some(program);
        }
        let install = |go: &str| Command::new(go).args(["install", MODULE]).env("GOBIN", &folder).status();
        ["go", "/usr/local/go/bin/go"].into_iter().find(|go| install(go).is_ok_and(|status| status.success()))?;
        Some(built)
    });
    if found.is_none() {
        crate::stage::skip("Pebble, or Go 1.24 to build it with,");
    }
    found.clone()
}

/// Answers that every name is 127.0.0.1; those that end with `nowhere.test` are not there. Pebble asks over TCP.
fn dns() -> SocketAddr {
    Accepting::begin(answer).address
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut query)?;
        let reply = reply(&query);
        let length = u16::try_from(reply.len()).unwrap().to_be_bytes();
        stream.write_all(&[&length[..], &reply].concat())?;
    }
    Ok(())
}

/// RFC 1035, 4.1.
fn reply(query: &[u8]) -> Vec<u8> {
    let name = query[12..].iter().position(|&byte| byte == 0).map_or(0, |end| 12 + end + 1);
    let question = &query[12..name + 4];
    let address = query[name..name + 2] == [0, 1];
    let known = !question.windows(12).any(|part| part == b"nowhere\x04test");
    let mut reply = query[..2].to_vec();
    reply.extend([0x81, if known { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(address && known), 0, 0, 0, 0]);
    reply.extend(question);
    if address && known {
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    reply
}
