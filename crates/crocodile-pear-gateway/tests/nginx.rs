//! The import of nginx's configurations, beside nginx itself: each shape of a server is imported, and both answer the same
//! requests over upstreams of the same kind. Status, body, header fields, and what the upstreams get are compared.
//! `NGINX_SHAPES=all cargo test --test gateway nginx::` compares all pairs of features.

mod command;
mod intended;
mod real;
mod shapes;
mod upstream;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::stage;
use stage::client::Client;
use stage::gateway::Gateway;

use real::Nginx;
use shapes::Shape;
use upstream::{Call, Upstream};

/// How many shapes there must be at least.
const SHAPES: usize = 200;

/// The share of the pairs of features that the suite compares: one in so many.
const ONE_IN: usize = 24;

/// The outcome of a request at one of the two servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    status: u16,
    fields: Vec<(String, String)>,
    body: String,
    calls: Vec<Call>,
}

impl Served {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[test]
fn imported_servers_answer_as_those_of_nginx_do() {
    let one_in = if std::env::var("NGINX_SHAPES").is_ok_and(|all| all == "all") { 1 } else { ONE_IN };
    let shapes = shapes::all(one_in);
    assert!(shapes.len() >= SHAPES, "only {} shapes", shapes.len());
    let (theirs, ours) = (Upstream::start(), Upstream::start());
    let (there, here) = (folder("theirs"), folder("ours"));
    let Some(nginx) = Nginx::start(&there, |listen| file(&shapes, theirs.address, listen)) else { return };
    let listen = stage::ports::free_address();
    fs::write(here.join("nginx.conf"), file(&shapes, ours.address, listen)).unwrap();
    let mut import = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    let import = import.args(["import", "nginx", "nginx.conf", "-o", "out.yaml", "--json"]).current_dir(&here);
    let report: Value = serde_json::from_slice(&import.output().unwrap().stdout).unwrap();
    // An upgrade with a password is warned of: nginx has nothing to look at the page with.
    let is_known =
        |problem: &&Value| !problem["message"].as_str().unwrap().starts_with("browsers send the credentials");
    let problems: Vec<&Value> = report["check"].as_array().unwrap().iter().filter(is_known).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    let reported = |setting: &&Value| setting["state"] == "reported";
    let missing: Vec<&Value> = report["settings"].as_array().unwrap().iter().filter(reported).collect();
    // A rewrite that fits some paths has no form beside a path of `proxy_pass`, or with a redirect.
    let is_conditional = |setting: &&&Value| {
        let message = setting["message"].as_str().unwrap();
        let known = [
            "fits some paths",
            "some paths of this location",
            "`$1` has no counterpart",
            "a password and `auth_request`",
            "not looked up among files",
        ];
        !known.iter().any(|known| message.contains(known))
    };
    let missing: Vec<&&Value> = missing.iter().filter(is_conditional).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let gateway = Gateway::run(here.join("out.yaml"));
    let (mut different, mut listed) = (Vec::new(), 0);
    let has_both = |shape: &&Shape| {
        let asks = shape.begins("service") || shape.has("user of the service");
        asks && (shape.begins("password") || shape.has("no password here"))
    };
    for shape in shapes.iter().filter(|shape| !has_both(shape)) {
        for request in shape.requests() {
            let mut theirs = serve(nginx.address, &theirs, &request);
            let mut ours = serve(gateway.address, &ours, &request);
            let (nginx, import) = (theirs.clone(), ours.clone());
            if theirs == ours {
                continue;
            }
            if ours.status == 501 {
                // It is reported.
                continue;
            }
            let reasons = intended::settle(shape, &request, &mut theirs, &mut ours);
            listed += 1;
            if theirs != ours {
                let line = request.split("\r\n").next().unwrap_or_default();
                different.push(format!("{}: {line}\n  nginx {nginx:?}\n  ours  {import:?}\n  {reasons:?}", shape.name));
            }
        }
    }
    println!("{} shapes, {} requests, {listed} intended differences", shapes.len(), shapes.len() * 5);
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
}

/// A folder with what configurations name.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("nginx").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("files/sub")).unwrap();
    let users = "ada:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
    for (name, text) in [
        ("users", users),
        ("files/a.txt", "a\n"),
        ("files/index.html", "<p>index</p>\n"),
        ("files/sub/b.json", "{\"b\":1}\n"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    readable(&folder);
    folder
}

/// Workers of nginx may run as another user.
fn readable(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o755));
}

/// Sends a request, and notes what the upstream got of it.
fn serve(address: SocketAddr, upstream: &Upstream, request: &str) -> Served {
    let mut client = Client::connect(address).unwrap();
    client.ask(request.split(' ').next().unwrap_or_default(), request.as_bytes()).unwrap();
    let head = client.head().unwrap();
    let body = client.rest().unwrap();
    const FIELDS: [&str; 5] = ["location", "cache-control", "content-type", "content-encoding", "www-authenticate"];
    let compared = |name: &str| FIELDS.contains(&name) || name.starts_with("x-");
    let host = request.split("Host: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap_or_default();
    let value = |value: &str| {
        let value = value.replace(&upstream.address.to_string(), "UP");
        // nginx puts its own address before a path.
        let own = format!("http://{host}:{}", address.port());
        let value = value.replace(&own, "").replace(&format!("http://{host}"), "");
        // Of the header fields of RFC 7617, nginx writes one.
        value.replace(", charset=\"UTF-8\"", "")
    };
    let mut fields: Vec<(String, String)> =
        head.fields.iter().filter(|(name, _)| compared(name)).map(|(name, text)| (name.clone(), value(text))).collect();
    fields.sort();
    let is_packed = fields.iter().any(|(name, _)| name == "content-encoding");
    let body = if is_packed { "packed".to_owned() } else { String::from_utf8_lossy(&body).into_owned() };
    Served { status: head.status, fields, body, calls: upstream.take() }
}

/// A configuration of nginx. The first server is for hosts that no other has.
fn file(shapes: &[Shape], upstream: SocketAddr, listen: SocketAddr) -> String {
    let servers: String = shapes.iter().map(|shape| shape.server(&listen.to_string())).collect();
    let text = format!(
        r#"
worker_processes 1;
daemon off;
pid nginx.pid;
error_log stderr;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path tmp;
    proxy_temp_path tmp/proxy;
    fastcgi_temp_path tmp/fastcgi;
    uwsgi_temp_path tmp/uwsgi;
    scgi_temp_path tmp/scgi;
    server_names_hash_max_size 8192;
    proxy_cache_path tmp/cache keys_zone=api:1m;
    limit_req_zone $host zone=slow:1m rate=1r/m;
    limit_req_zone $http_x_client zone=field:1m rate=1r/m;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
    map $http_x_a $kind {{ default other; 1 first; "two" second; }}
    types {{ text/plain txt; text/html html; application/json json; }}
    upstream several {{ server UP; server UP weight=2; keepalive 4; }}
    server {{ listen {listen} default_server; return 404; }}
{servers}}}
"#
    );
    text.replace("UP", &upstream.to_string())
}
