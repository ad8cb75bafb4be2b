//! TLS to PostgreSQL: what the URL asks for is what happens, and who is not trusted is told nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use crocodile_pear_demo::postgres::other;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::databases::database::Database;
use crate::stage::accept::Accepting;
use crate::stage::authority::{Authority, Identity};
use crate::stage::scene::Scene;
use crate::stage::until;

const ENDPOINTS: &str = "endpoints:
  GET /tls:
    pipeline:
      - sql: { to: main, query: select ssl from pg_stat_ssl where pid = pg_backend_pid(), one: true }
  GET /late:
    pipeline:
      - sql: { to: main, query: select pg_advisory_lock(8)::text as a, timeout: 500ms }
";

/// A server with TLS that lets `guest` in with a password, and with TLS only.
fn secured(identity: &Identity) -> Option<Database> {
    let database = Database::start()?;
    let session = database.connect();
    session.run("create role guest login password 'secret'").unwrap();
    for (name, text) in [("server.pem", identity.certificate.pem()), ("server.key", identity.key.serialize_pem())] {
        let file = database.folder().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some((user, group)) = other().unwrap() {
            chown(&file, Some(user), Some(group)).unwrap();
        }
        let setting = if name.ends_with(".key") { "ssl_key_file" } else { "ssl_cert_file" };
        session.run(&format!("alter system set {setting} = '{}'", file.display())).unwrap();
    }
    let who = "hostssl all guest 127.0.0.1/32 scram-sha-256\nhostnossl all guest 127.0.0.1/32 reject\n\
               local all guest scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n";
    fs::write(database.folder().join("data/pg_hba.conf"), who).unwrap();
    session.run("alter system set ssl = on").unwrap();
    session.run("select pg_reload_conf()").unwrap();
    until("it has TLS", || database.connect().one("show ssl").as_deref() == Some("on"));
    Some(database)
}

fn file(name: &str, authority: &Authority) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("databases_{name}.pem"));
    fs::write(&file, authority.pem()).unwrap();
    file
}

/// A gateway whose database is at this port under the name `db.test`.
fn scene(name: &str, port: u16, parameters: &str, authority: Option<&Path>) -> Scene {
    let ca = authority.map_or(String::new(), |file| format!(", ca: '{}'", file.display()));
    let url = format!("postgres://guest:secret@db.test:{port}/postgres?hostaddr=127.0.0.1{parameters}");
    let database = format!("databases: {{ main: {{ url: '{url}', connect: 60s{ca} }} }}\n");
    Scene::new(&format!("databases_{name}"), &format!("{database}{ENDPOINTS}"))
}

#[test]
fn what_the_url_asks_for_is_what_happens() {
    let authority = Authority::new();
    let Some(database) = secured(&authority.sign(&["db.test"])) else { return };
    let ca = file("tls_right", &authority);
    for (name, parameters, ca) in [
        ("verify_full", "&sslmode=verify-full", Some(&*ca)),
        ("require_ca", "&sslmode=require", Some(&*ca)),
        ("require", "&sslmode=require", None),
        ("prefer", "", None),
        ("direct", "&sslmode=verify-full&sslnegotiation=direct", Some(&*ca)),
    ] {
        if name == "direct" && number(&database) < 17 {
            continue;
        }
        let scene = scene(&format!("tls_{name}"), database.port, parameters, ca);
        let reply = scene.client().get("/tls");
        assert_eq!(reply.body, r#"{"ssl":true}"#, "{name}: {}", scene.gateway.said());
    }
    // Without TLS this server lets nobody in.
    let plain = scene("tls_disable", database.port, "&sslmode=disable", None);
    assert_eq!(plain.client().get("/tls").status, 503);
}

/// The first number of the version.
fn number(database: &Database) -> u32 {
    let version = database.connect().one("show server_version_num").unwrap();
    version.parse::<u32>().unwrap() / 10_000
}

#[test]
fn a_statement_is_stopped_over_tls_too() {
    let authority = Authority::new();
    let Some(database) = secured(&authority.sign(&["db.test"])) else { return };
    let scene = scene("tls_late", database.port, "&sslmode=verify-full", Some(&file("tls_late", &authority)));
    let session = database.connect();
    session.run("select pg_advisory_lock(8)").unwrap();
    assert_eq!(scene.client().get("/late").status, 504);
    scene.until("it is stopped", || session.sessions("wait_event = 'advisory'") == 0);
}

#[test]
fn a_server_without_tls_is_told_nothing_where_tls_is_required() {
    let Some(database) = Database::shared() else { return };
    database.connect().run("create role guest login password 'secret'").unwrap();
    let preferred = scene("tls_none_prefer", database.port, "&sslmode=prefer", None);
    assert_eq!(preferred.client().get("/tls").body, r#"{"ssl":false}"#);
    for (name, mode) in [("require", "require"), ("full", "verify-full")] {
        let scene = scene(&format!("tls_none_{name}"), database.port, &format!("&sslmode={mode}"), None);
        assert_eq!(scene.client().get("/tls").status, 503);
        scene.gateway.logged("*server does not support TLS*").unwrap();
    }
    let (port, heard) = pretender(None);
    let scene = scene("tls_none_heard", port, "&sslmode=require", None);
    assert_eq!(scene.client().get("/tls").status, 503);
    for _ in 0..2 {
        assert_eq!(heard.recv().unwrap(), "");
    }
}

#[test]
fn a_server_that_is_not_trusted_is_told_nothing() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let ca = file("tls_trusted", &authority);
    let past = |params: &mut rcgen::CertificateParams| params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let cases = [
        ("stranger", stranger.sign(&["db.test"]), "UnknownIssuer"),
        ("name", authority.sign(&["other.test"]), "not valid for name"),
        ("address", authority.sign(&["127.0.0.1"]), "not valid for name"),
        ("expired", authority.sign_with(&["db.test"], past), "xpired"),
    ];
    for (name, identity, reason) in cases {
        for mode in ["verify-full", "require"] {
            let (port, heard) = pretender(Some(&identity));
            let name = format!("tls_{name}_{mode}");
            let scene = scene(&name, port, &format!("&sslmode={mode}"), Some(&ca));
            assert_eq!(scene.client().get("/tls").status, 503, "{name}");
            // At the start and for the request.
            for _ in 0..2 {
                assert_eq!(heard.recv().unwrap(), "", "{name}");
            }
            scene.gateway.logged(&format!("*{reason}*")).unwrap();
        }
    }
    // It would have heard something.
    let (port, heard) = pretender(Some(&authority.sign(&["db.test"])));
    let _scene = scene("tls_heard", port, "&sslmode=verify-full", Some(&ca));
    assert!(heard.recv().unwrap().contains("guest"));
}

/// Something that begins like PostgreSQL, and tells what each client says behind the question for TLS; without an identity it has none.
fn pretender(identity: Option<&Identity>) -> (u16, Receiver<String>) {
    let config = identity.map(|identity| Arc::new(identity.server(rustls::ALL_VERSIONS)));
    let (tell, heard) = channel();
    let accepting = Accepting::begin(move |stream| {
        let _ = tell.send(hear(stream, config.clone()));
        Ok(())
    });
    (accepting.address.port(), heard)
}

fn hear(mut stream: TcpStream, config: Option<Arc<ServerConfig>>) -> String {
    let mut question = [0; 8];
    stream.read_exact(&mut question).unwrap();
    assert_eq!(question[4..], 80_877_103_u32.to_be_bytes());
    let mut said = [0; 1024];
    let read = match config {
        Some(config) => {
            stream.write_all(b"S").unwrap();
            StreamOwned::new(ServerConnection::new(config).unwrap(), stream).read(&mut said)
        }
        None => {
            stream.write_all(b"N").unwrap();
            stream.read(&mut said)
        }
    };
    String::from_utf8_lossy(&said[..read.unwrap_or(0)]).into_owned()
}

#[test]
fn a_unix_socket_needs_no_name() {
    let Some(database) = Database::shared() else { return };
    let folder = database.folder().display().to_string().replace('/', "%2F");
    let url = format!("postgres://postgres@{folder}:{}/postgres", database.port);
    let scene = Scene::new("databases_tls_socket", &format!("databases: {{ main: '{url}' }}\n{ENDPOINTS}"));
    assert_eq!(scene.client().get("/tls").body, r#"{"ssl":false}"#, "{}", scene.gateway.said());
}

#[test]
fn a_word_of_tls_is_honoured_or_refused() {
    let ca = file("tls_words", &Authority::new());
    let ca = format!(", ca: '{}'", ca.display());
    for (parameters, ca, wanted) in [
        ("sslmode=verify-ca", "", "write `sslmode=verify-full`"),
        ("sslmode=allow", "", "write `sslmode=prefer`"),
        ("sslmode=on", "", "there is no such `sslmode`"),
        ("sslmode=prefer", &*ca, "the certificate of this database is not checked"),
        ("sslmode=disable", &*ca, "the certificate of this database is not checked"),
        ("sslrootcert=a.pem", "", "write `ca: FILE`"),
        ("sslcert=a.pem&sslkey=a.key", "", "certificates of clients of PostgreSQL are not supported"),
        ("sslcrl=a.pem", "", "a parameter of TLS in this URL is not supported"),
        ("channel_binding=require", "", "`channel_binding=require` is not supported"),
        ("sslnegotiation=direct", "", "`sslnegotiation=direct` needs TLS"),
        ("sslmode=verify-full", ", ca: nowhere.pem", "cannot read `nowhere.pem`"),
    ] {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("databases_tls_words.yaml");
        let database = format!("url: 'postgres://guest:hunter2@127.0.0.1:1/d?{parameters}'{ca}");
        fs::write(&file, format!("databases: {{ main: {{ {database} }} }}\nendpoints: {{}}\n")).unwrap();
        let check = Command::new(env!("CARGO_BIN_EXE_crocodile-pear")).arg("check").arg(&file).output().unwrap();
        let said = String::from_utf8(check.stdout).unwrap();
        assert!(!check.status.success() && said.contains(wanted), "{parameters}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}
