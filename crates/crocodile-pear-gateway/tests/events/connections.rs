//! Connections to a database: how they are made, lost and made again, and what outlives a reload.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::events::database::Database;
use crate::stage::authority::Authority;
use crate::stage::scene::Scene;

/// A configuration with one source.
fn config(source: &str, purge: &str) -> String {
    format!(
        "events: [{{ {source}, purge: '{purge}' }}]\nendpoints: {{ GET /a: {{ pipeline: [respond: {{ body: '1' }}] }} }}\n"
    )
}

const PIDS: &str = "select string_agg(pid::text, ',') from pg_stat_activity where application_name = 'crocodile-pear'";

#[test]
fn a_lost_connection_is_told_and_made_again() {
    let Some(database) = Database::start() else { return };
    let source = format!("postgres: '{}', channel: items", database.url());
    let scene = Scene::new("lost", &config(&source, "."));
    scene.gateway.logged("*listening to events*items*").unwrap();
    let session = database.connect();
    for lost in 1..=3 {
        scene.listens(1);
        session.run(&format!("select pg_terminate_backend({})", session.one(PIDS).unwrap())).unwrap();
        scene.until("it is lost", || scene.metric("crocodile_pear_events_connections_lost_total") == lost);
        scene.until("it listens again", || scene.count("listening to events") == lost as usize + 1);
    }
    session.run("notify items, 'a'").unwrap();
    scene.until("it hears", || scene.metric("crocodile_pear_events_received_total") == 1);
}

#[test]
fn a_connection_that_is_silent_is_noticed() {
    let Some(database) = Database::start() else { return };
    let source = format!("postgres: '{}', channel: items, heartbeat: 200ms", database.url());
    let scene = Scene::new("silent", &config(&source, "."));
    scene.listens(1);
    let session = database.connect();
    let pid = Pid::from_raw(session.one(PIDS).unwrap().parse().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let begun = Instant::now();
    scene.gateway.logged("*events cannot be received*it did not answer within 200ms*").unwrap();
    println!("noticed after {:?}", begun.elapsed());
    // A new connection has a process of its own.
    scene.until("it listens again", || scene.count("listening to events") == 2);
    kill_process(pid, Signal::CONT).unwrap();
}

#[test]
fn a_reload_keeps_the_connection_and_takes_the_new_expression() {
    let Some(database) = Database::start() else { return };
    let source = format!("postgres: '{}', channel: items", database.url());
    let scene = Scene::new("reload", &config(&source, "."));
    scene.listens(1);
    let session = database.connect();
    let before = session.one(PIDS);
    scene.reload(&config(&source, "error(\"not this\")"));
    session.run("notify items, 'a'").unwrap();
    scene.gateway.logged("*cannot read an event*not this*").unwrap();
    assert_eq!(session.one(PIDS), before);
    assert_eq!(scene.count("listening to events"), 1);
    // Another channel is another connection, and the old one ends.
    scene.reload(&config(&format!("postgres: '{}', channel: others", database.url()), "."));
    scene.gateway.logged("*listening to events*others*").unwrap();
    scene.until("there is one", || session.one(PIDS).is_some_and(|pids| !pids.contains(',')));
    assert_ne!(session.one(PIDS), before);
    scene.reload("endpoints: { GET /a: { pipeline: [respond: { body: '1' }] } }\n");
    scene.until("there is none", || session.one(PIDS).is_none());
    assert_eq!(scene.metric("crocodile_pear_events_up"), 0);
}

#[test]
fn tls_is_made_as_the_url_says() {
    let Some(database) = Database::start() else { return };
    let (right, wrong) = (Authority::new(), Authority::new());
    let identity = right.sign(&["localhost"]);
    let keep = |name: &str, pem: &[u8]| {
        let file = database.folder().join(name);
        fs::write(&file, pem).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let owner = fs::metadata(database.folder()).unwrap();
        chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
        file.display().to_string()
    };
    let certificate = keep("server.pem", identity.certificate.pem().as_bytes());
    let key = keep("server.key", identity.key.serialize_pem().as_bytes());
    let [right, wrong] =
        [("right.pem", right), ("wrong.pem", wrong)].map(|(name, authority)| keep(name, &authority.pem()));
    let session = database.connect();
    let url =
        |rest: &str| format!("postgres: 'postgres://postgres@localhost:{}/postgres?{rest}, channel: a", database.port);
    let told = |name: &str, source: &str, wanted: &str| {
        let scene = Scene::new(name, &config(source, "."));
        scene.gateway.logged(wanted).unwrap_or_else(|_| panic!("{}", scene.gateway.said()));
    };
    told("tls_none", &url("sslmode=require'"), "*events cannot be received*server does not support TLS*");
    for setting in ["ssl_cert_file", "ssl_key_file"] {
        let file = if setting == "ssl_key_file" { &key } else { &certificate };
        session.run(&format!("alter system set {setting} = '{file}'")).unwrap();
    }
    session.run("alter system set ssl = on").unwrap();
    session.run("select pg_reload_conf()").unwrap();
    crate::stage::until("it speaks TLS", || session.one("show ssl").as_deref() == Some("on"));
    told("tls_require", &url("sslmode=require'"), "*listening to events*");
    told("tls_verify", &url(&format!("sslmode=verify-full', ca: '{right}'")), "*listening to events*");
    told("tls_wrong", &url(&format!("sslmode=verify-full', ca: '{wrong}'")), "*cannot be received*UnknownIssuer*");
    let address = url(&format!("sslmode=verify-full', ca: '{right}'")).replace("localhost", "127.0.0.1");
    told("tls_name", &address, "*cannot be received*not valid for name*");
    // Those that encrypt are seen to do so.
    let scene = Scene::new("tls_prefer", &config(&url("'"), "."));
    scene.listens(1);
    let encrypted =
        "select ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'crocodile-pear'";
    assert_eq!(session.one(encrypted).as_deref(), Some("t"));
}

#[test]
fn a_password_is_shown_nowhere() {
    let Some(database) = Database::start() else { return };
    let session = database.connect();
    session.run("create role app login password 'wrong'").unwrap();
    session.run("alter system set password_encryption = 'scram-sha-256'").unwrap();
    let hba = session.one("show hba_file").unwrap();
    fs::write(&hba, "host all app 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n").unwrap();
    session.run("select pg_reload_conf()").unwrap();
    let url = format!("postgres://app:hunter2@127.0.0.1:{}/postgres", database.port);
    let scene = Scene::new("password", &config(&format!("postgres: '{url}', channel: a"), "."));
    scene.gateway.logged("*cannot be received*password authentication failed*").unwrap();
    session.run("alter role app password 'hunter2'").unwrap();
    scene.gateway.logged("*listening to events*").unwrap();
    assert!(!scene.gateway.said().contains("hunter2"), "{}", scene.gateway.said());
    assert!(!scene.metrics().contains("hunter2"));
}
