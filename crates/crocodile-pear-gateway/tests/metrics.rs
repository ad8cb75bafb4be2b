//! The metrics for operators: exact, in the formats that their programs read, and of a bounded size.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;

use crate::stage;

use stage::gateway::Gateway;
use stage::ports::free_address;
use stage::shop::{Shop, answer};
use stage::until;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// An upstream that answers with the status that begins the path, as in `/404/item`, and ten bytes.
fn upstream() -> SocketAddr {
    let shop = Shop::open(|asked, stream| {
        let status = asked.target.get(1..4).and_then(|status| status.parse().ok()).ok_or(ErrorKind::InvalidData)?;
        stream.write_all(&answer(status, "content-type: application/json\r\n", r#"{"a":1234}"#))
    });
    shop.address
}

/// The first line, and the length of the body behind the head.
fn head(reader: &mut impl BufRead) -> Option<(String, u64)> {
    let (mut first, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            return Some((first?, length));
        }
        first.get_or_insert(line);
    }
}

/// A connection of a client.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream))
    }

    /// The status of the answer, and its body.
    fn ask(&mut self, method: &str, path: &str, body: &str, fields: &str) -> (u16, Vec<u8>) {
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n{fields}\r\n{body}");
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let (first, length) = head(&mut self.0).unwrap();
        let mut body = vec![0; length as usize];
        self.0.read_exact(&mut body).unwrap();
        (first.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }
}

struct Scene {
    gateway: Gateway,
    admin: SocketAddr,
    file: std::path::PathBuf,
}

impl Scene {
    fn new(name: &str, config: &str) -> Self {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("metrics_{name}.yaml"));
        fs::write(&file, format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 2\n{config}")).unwrap();
        let gateway = Gateway::start(["run".as_ref(), file.as_os_str()], []).unwrap();
        let admin = gateway.admin().unwrap();
        Scene { gateway, admin, file }
    }

    fn client(&self) -> Client {
        Client::connect(self.gateway.address)
    }

    fn scrape(&self) -> String {
        let (status, text) = Client::connect(self.admin).ask("GET", "/metrics", "", "");
        assert_eq!(status, 200);
        String::from_utf8(text).unwrap()
    }

    /// Samples by name and labels.
    fn samples(&self) -> BTreeMap<String, f64> {
        let text = self.scrape();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples
            .map(|line| line.rsplit_once(' ').unwrap())
            .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
            .collect()
    }
}

fn shop(name: &str) -> (Scene, SocketAddr, SocketAddr) {
    let (shop, dead) = (upstream(), free_address());
    let config = format!(
        "upstreams: {{ shop: 'http://{shop}/', dead: 'http://{dead}' }}\nendpoints:\n  \
         GET /item/{{id}}:\n    pipeline:\n      - request: shop /200/item/{{id}}\n  \
         POST /order:\n    pipeline:\n      - request: shop /201/order\n  \
         GET /gone:\n    pipeline:\n      - request: shop /404/gone\n  \
         GET /dead:\n    pipeline:\n      - request: dead /\n  \
         GET /both:\n    pipeline:\n      - requests: {{ one: shop /200/one, two: shop /200/two }}\n      - merge: '[$one, $two]'\n"
    );
    (Scene::new(name, &config), shop, dead)
}

/// How many rounds of ten requests each client makes. `METRICS_ROUNDS=2500` makes 100,000 requests.
fn rounds() -> u64 {
    std::env::var("METRICS_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(250)
}

const CLIENTS: u64 = 4;

#[test]
fn ten_thousand_requests_of_known_outcome_are_counted_exactly() {
    let (scene, shop, dead) = shop("exact");
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let mut client = scene.client();
            scope.spawn(move || {
                for round in 0..rounds() {
                    (0..4).for_each(|at| assert_eq!(client.ask("GET", &format!("/item/{round}{at}"), "", "").0, 200));
                    (0..2).for_each(|_| assert_eq!(client.ask("POST", "/order", "seven b", "").0, 201));
                    assert_eq!(client.ask("GET", "/gone", "", "").0, 404);
                    assert_eq!(client.ask("GET", "/dead", "", "").0, 502);
                    assert_eq!(client.ask("GET", "/both", "", "").0, 200);
                    assert_eq!(client.ask("DELETE", "/nowhere", "", "").0, 404);
                }
            });
        }
    });
    let all = CLIENTS * rounds();
    // The last answers may be there a moment before they are counted.
    until("everything is counted", || {
        let counted = scene
            .samples()
            .into_iter()
            .filter(|(name, _)| name.starts_with("http_server_request_duration_seconds_count"));
        counted.map(|(_, count)| count).sum::<f64>() >= (all * 10) as f64
    });
    let seen = scene.samples();
    let served = |route: &str, method: &str, status: u16| {
        let mut labels =
            format!("http_route=\"{route}\",http_request_method=\"{method}\",http_response_status_code=\"{status}\"");
        if status == 502 {
            labels.push_str(",error_type=\"unreachable\"");
        }
        let buckets = seen[&format!("http_server_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}}")];
        let count = seen[&format!("http_server_request_duration_seconds_count{{{labels}}}")];
        assert!(seen[&format!("http_server_request_duration_seconds_sum{{{labels}}}")] > 0.0);
        assert!((buckets - count).abs() < 0.5);
        count as u64
    };
    assert_eq!(served("/item/{id}", "GET", 200), all * 4);
    assert_eq!(served("/order", "POST", 201), all * 2);
    assert_eq!(served("/gone", "GET", 404), all);
    assert_eq!(served("/dead", "GET", 502), all);
    assert_eq!(served("/both", "GET", 200), all);
    assert_eq!(served("", "DELETE", 404), all);
    let of = |name: String| seen.get(&name).copied().unwrap_or_else(|| panic!("no {name}")) as u64;
    let series = seen.keys().filter(|name| name.starts_with("http_server_request_duration_seconds_count")).count();
    assert_eq!(series, 6, "nothing else is counted");
    for route in ["/item/{id}", "/order", "/gone", "/dead", "/both", ""] {
        assert_eq!(of(format!("http_server_active_requests{{http_route=\"{route}\"}}")), 0);
    }
    assert_eq!(of("http_server_request_body_bytes_total{http_route=\"/order\"}".to_owned()), all * 2 * 7);
    assert_eq!(of("http_server_response_body_bytes_total{http_route=\"/order\"}".to_owned()), all * 2 * 10);
    assert_eq!(of("crocodile_pear_response_head_duration_seconds_count{http_route=\"/order\"}".to_owned()), all * 2);
    let called = |upstream: &str, server: SocketAddr, end: &str| {
        let labels = format!("upstream=\"{upstream}\",server_address=\"{server}\",{end}");
        of(format!("http_client_request_duration_seconds_count{{{labels}}}"))
    };
    assert_eq!(called("shop", shop, "http_response_status_code=\"200\""), all * 6);
    assert_eq!(called("shop", shop, "http_response_status_code=\"201\""), all * 2);
    assert_eq!(called("shop", shop, "http_response_status_code=\"404\""), all);
    assert_eq!(called("dead", dead, "error_type=\"unreachable\""), all);
    let step = |route: &str, step: &str| {
        of(format!("crocodile_pear_step_duration_seconds_count{{http_route=\"{route}\",step=\"{step}\",index=\"0\"}}"))
    };
    assert_eq!([step("/both", "requests.one"), step("/both", "requests.two"), step("/gone", "request")], [all; 3]);
    assert_eq!(of("crocodile_pear_responses_total{status=\"2xx\"}".to_owned()), all * 7);
    // The clients have left: the connection of this scrape is the operators'.
    until("all have left", || scene.samples()["crocodile_pear_connections_open"] < 0.5);
    assert_eq!(of("crocodile_pear_connections_opened_total".to_owned()), CLIENTS);
}

/// A client that leaves before its answer is counted as 499, and is not active for ever.
#[test]
fn a_client_that_leaves_is_counted() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let config = format!(
        "upstreams: {{ silent: 'http://{}' }}\nendpoints:\n  GET /wait:\n    pipeline:\n      - request: silent /\n",
        silent.local_addr().unwrap()
    );
    let scene = Scene::new("leaves", &config);
    let mut client = scene.client();
    client.0.get_mut().write_all(b"GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let _call = silent.accept().unwrap();
    let active = || scene.samples()["http_server_active_requests{http_route=\"/wait\"}"] as u64;
    assert_eq!(active(), 1);
    drop(client);
    until("it is not active", || active() == 0);
    let labels = "http_route=\"/wait\",http_request_method=\"GET\",http_response_status_code=\"499\"";
    let seen = scene.samples();
    assert_eq!(seen[&format!("http_server_request_duration_seconds_count{{{labels}}}")] as u64, 1);
    let called = seen.iter().find(|(name, _)| {
        name.starts_with("http_client_request_duration_seconds_count") && name.contains("error_type=\"cancelled\"")
    });
    assert_eq!(*called.unwrap().1 as u64, 1);
}

#[test]
fn a_reload_is_counted_and_counters_go_on() {
    let (scene, _, _) = shop("reload");
    scene.client().ask("GET", "/gone", "", "");
    let gone = "http_server_request_duration_seconds_count{http_route=\"/gone\",http_request_method=\"GET\",http_response_status_code=\"404\"}";
    until("it is counted", || scene.samples().contains_key(gone));
    scene.gateway.signal("HUP").unwrap();
    scene.gateway.logged("*configuration reloaded*").unwrap();
    scene.client().ask("GET", "/gone", "", "");
    until("it is counted on", || scene.samples()[gone] as u64 == 2);
    fs::write(&scene.file, "nonsense").unwrap();
    scene.gateway.signal("HUP").unwrap();
    scene.gateway.logged("*the old one stays in use*").unwrap();
    let seen = scene.samples();
    for result in ["success", "failure"] {
        assert_eq!(seen[&format!("crocodile_pear_reloads_total{{result=\"{result}\"}}")] as u64, 1);
    }
    assert!(seen["crocodile_pear_configuration_read_timestamp_seconds"] >= seen["process_start_time_seconds"].floor());
    assert!(seen.keys().any(|name| name.starts_with("crocodile_pear_build_info{version=")));
}

#[test]
fn a_scraper_gets_openmetrics_and_gzip_if_it_takes_them() {
    let (scene, _, _) = shop("formats");
    scene.client().ask("GET", "/gone", "", "");
    let fields = "accept: application/openmetrics-text;version=1.0.0\r\naccept-encoding: gzip\r\n";
    let (_, zipped) = Client::connect(scene.admin).ask("GET", "/metrics", "", fields);
    let mut text = String::new();
    GzDecoder::new(zipped.as_slice()).read_to_string(&mut text).unwrap();
    assert!(text.ends_with("\n# EOF\n"));
    let mut names = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
        let (name, kind) = line["# TYPE ".len()..].split_once(' ').unwrap();
        assert!(!names.contains(&name), "{name} is there twice");
        assert!(kind != "counter" || !name.ends_with("_total"), "{line}");
        names.push(name);
    }
    assert!(text.contains("\n# UNIT http_server_request_duration_seconds seconds\n"));
    assert!(
        text.contains("\n# TYPE crocodile_pear_reloads counter\ncrocodile_pear_reloads_total{result=\"success\"} 0\n")
    );
}

#[test]
fn promtool_has_no_complaint() {
    if Command::new("promtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        assert!(std::env::var_os("CI").is_none(), "promtool is missing");
        println!("skipped: install prometheus to run this test");
        return;
    }
    let (scene, _, _) = shop("promtool");
    for path in ["/item/1", "/gone", "/dead", "/both", "/nowhere"] {
        scene.client().ask("GET", path, "", "");
    }
    let text = scene.scrape();
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = promtool.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert_eq!((said.stdout.len(), said.stderr.len()), (0, 0), "{}", String::from_utf8_lossy(&said.stdout));
}

#[test]
fn a_thousand_routes_and_fifty_servers_fit_into_a_scrape() {
    let shop = upstream();
    let mut config = "upstreams:\n".to_owned();
    for server in 0..50 {
        writeln!(config, "  api{server}: http://{shop}/200/{server}").unwrap();
    }
    config.push_str("endpoints:\n");
    for route in 0..1_000 {
        let server = route % 50;
        writeln!(config, "  GET /shop/section/{route}/{{id}}:\n    pipeline:\n      - request: api{server} /{{id}}")
            .unwrap();
    }
    let scene = Scene::new("size", &config);
    let mut client = scene.client();
    for route in 0..1_000 {
        assert_eq!(client.ask("GET", &format!("/shop/section/{route}/7"), "", "").0, 200);
    }
    let begun = Instant::now();
    let text = scene.scrape();
    println!("{} routes, {} bytes, {:?}", 1_000, text.len(), begun.elapsed());
    assert_eq!(
        text.lines().filter(|line| line.starts_with("http_server_request_duration_seconds_count")).count(),
        1_000
    );
    assert!(text.len() <= 4 << 20, "{} bytes", text.len());
}
