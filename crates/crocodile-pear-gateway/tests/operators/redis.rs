//! TLS to Redis: the certificate is checked, and what crosses the wire is encrypted.

use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::stage::authority::Authority;
use crate::stage::ports::free_port;
use crate::stage::secure::Folder;
use crate::stage::{Program, scene::Client, until};

/// A server that speaks TLS alone, with a password; nothing where none is installed, or one without TLS.
fn redis(folder: &Folder, port: u16) -> Option<Program> {
    let path = |name: &str| folder.path(name).display().to_string();
    let arguments = [
        ["--port", "0"],
        ["--tls-port", &port.to_string()],
        ["--bind", "127.0.0.1"],
        ["--tls-cert-file", &path("redis.pem")],
        ["--tls-key-file", &path("redis.key")],
        ["--tls-auth-clients", "no"],
        ["--requirepass", "hunter2"],
        ["--save", ""],
    ];
    let server = Command::new("redis-server").args(arguments.concat()).stdout(Stdio::null()).spawn();
    let Ok(server) = server else {
        crate::stage::skip("redis-server");
        return None;
    };
    let server = Program(server);
    until("redis-server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    Some(server)
}

fn config(port: u16, scheme: &str, ca: &str) -> String {
    let (tls, ca) = if ca.is_empty() {
        (String::new(), String::new())
    } else {
        (format!(", tls: {{ ca: {ca} }}"), format!(", ca: {ca}"))
    };
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 1\n\
         store: {{ redis: '{scheme}://:hunter2@127.0.0.1:{port}', timeout: 2s{tls} }}\n\
         events: [ {{ redis: '{scheme}://:hunter2@127.0.0.1:{port}', channel: items, purge: .{ca} }} ]\n\
         endpoints:\n  GET /a:\n    rate_limit: {{ rate: 3/1h, burst: 3, by: $query.key }}\n    pipeline: [respond: {{ body: 'true' }}]\n"
    )
}

#[test]
fn redis_is_spoken_to_over_tls() {
    let folder = Folder::new("redis");
    let (ours, others) = (Authority::new(), Authority::new());
    folder.identity("redis", &ours.sign(&["127.0.0.1"]));
    folder.write("ours.pem", ours.pem());
    folder.write("others.pem", others.pem());
    let port = free_port();
    let Some(_redis) = redis(&folder, port) else { return };
    // Two gateways count together: both have authenticated, and read each other's counts.
    let scenes = [(), ()].map(|()| folder.start(&config(port, "rediss", "ours.pem")));
    for scene in &scenes {
        scene.until_metrics(&["crocodile_pear_store_up 1".to_owned()]);
        scene.gateway.logged("*listening to events*").unwrap();
    }
    let mut clients = scenes.each_ref().map(|scene| Client::connect(scene.gateway.address));
    let statuses: Vec<u16> = (0..6).map(|at| clients[at % 2].get("/a?key=x").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
    // A server whose authority is not trusted gets no password, nor one that speaks no TLS.
    for (scheme, ca, why) in [("rediss", "others.pem", "UnknownIssuer"), ("rediss", "", "UnknownIssuer")] {
        let scene = folder.start(&config(port, scheme, ca));
        let said = scene.gateway.logged("*the store is unavailable*").unwrap();
        assert!(said.contains(why) && !said.contains("hunter2"), "{said}");
    }
}
