//! The metrics for operators: exact, in the formats that their programs read, and of a bounded size.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use flate2::read::GzDecoder;

use crate::stage;

use stage::client::Client;
use stage::ports::free_address;
use stage::scene::Scene;
use stage::shop::{Shop, answer};
use stage::until;

/// An upstream that answers with the status that begins the path, as in `/404/item`, and ten bytes.
fn upstream() -> SocketAddr {
    let shop = Shop::open(|asked, stream| {
        let status = asked.target.get(1..4).and_then(|status| status.parse().ok()).ok_or(ErrorKind::InvalidData)?;
        stream.write_all(&answer(status, "content-type: application/json\r\n", r#"{"a":1234}"#))
    });
    shop.address
}

/// Samples by name and labels.
fn samples(scene: &Scene) -> BTreeMap<String, f64> {
    let text = scene.metrics();
    let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit_once(' ').unwrap());
    samples.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
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
                    (0..4).for_each(|at| assert_eq!(client.get(&format!("/item/{round}{at}")).status, 200));
                    (0..2).for_each(|_| assert_eq!(client.call("POST /order", "", "seven b").status, 201));
                    assert_eq!(client.get("/gone").status, 404);
                    assert_eq!(client.get("/dead").status, 502);
                    assert_eq!(client.get("/both").status, 200);
                    assert_eq!(client.call("DELETE /nowhere", "", "").status, 404);
                }
            });
        }
    });
    let all = CLIENTS * rounds();
    // The last answers may be there a moment before they are counted.
    until("everything is counted", || {
        let counted = samples(&scene)
            .into_iter()
            .filter(|(name, _)| name.starts_with("http_server_request_duration_seconds_count"));
        counted.map(|(_, count)| count).sum::<f64>() >= (all * 10) as f64
    });
    let seen = samples(&scene);
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
    until("all have left", || samples(&scene)["crocodile_pear_connections_open"] < 0.5);
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
    client.write("GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let _call = silent.accept().unwrap();
    let active = || samples(&scene)["http_server_active_requests{http_route=\"/wait\"}"] as u64;
    assert_eq!(active(), 1);
    drop(client);
    until("it is not active", || active() == 0);
    let labels = "http_route=\"/wait\",http_request_method=\"GET\",http_response_status_code=\"499\"";
    let seen = samples(&scene);
    assert_eq!(seen[&format!("http_server_request_duration_seconds_count{{{labels}}}")] as u64, 1);
    let called = seen.iter().find(|(name, _)| {
        name.starts_with("http_client_request_duration_seconds_count") && name.contains("error_type=\"cancelled\"")
    });
    assert_eq!(*called.unwrap().1 as u64, 1);
}

#[test]
fn a_reload_is_counted_and_counters_go_on() {
    let (scene, _, _) = shop("reload");
    scene.client().get("/gone");
    let gone = "http_server_request_duration_seconds_count{http_route=\"/gone\",http_request_method=\"GET\",http_response_status_code=\"404\"}";
    until("it is counted", || samples(&scene).contains_key(gone));
    scene.gateway.signal("HUP").unwrap();
    scene.gateway.logged("*configuration reloaded*").unwrap();
    scene.client().get("/gone");
    until("it is counted on", || samples(&scene)[gone] as u64 == 2);
    fs::write(&scene.file, "nonsense").unwrap();
    scene.gateway.signal("HUP").unwrap();
    scene.gateway.logged("*the old one stays in use*").unwrap();
    let seen = samples(&scene);
    for result in ["success", "failure"] {
        assert_eq!(seen[&format!("crocodile_pear_reloads_total{{result=\"{result}\"}}")] as u64, 1);
    }
    assert!(seen["crocodile_pear_configuration_read_timestamp_seconds"] >= seen["process_start_time_seconds"].floor());
    assert!(seen.keys().any(|name| name.starts_with("crocodile_pear_build_info{version=")));
}

#[test]
fn a_scraper_gets_openmetrics_and_gzip_if_it_takes_them() {
    let (scene, _, _) = shop("formats");
    scene.client().get("/gone");
    let fields = "host: localhost\r\naccept: application/openmetrics-text;version=1.0.0\r\naccept-encoding: gzip\r\n";
    let mut client = Client::connect(scene.gateway.admin().unwrap()).unwrap();
    client.ask("GET", format!("GET /metrics HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
    client.head().unwrap();
    let zipped = client.rest().unwrap();
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
        stage::skip("prometheus");
        return;
    }
    let (scene, _, _) = shop("promtool");
    for path in ["/item/1", "/gone", "/dead", "/both", "/nowhere"] {
        scene.client().get(path);
    }
    let text = scene.metrics();
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
        assert_eq!(client.get(&format!("/shop/section/{route}/7")).status, 200);
    }
    let begun = Instant::now();
    let text = scene.metrics();
    println!("{} routes, {} bytes, {:?}", 1_000, text.len(), begun.elapsed());
    assert_eq!(
        text.lines().filter(|line| line.starts_with("http_server_request_duration_seconds_count")).count(),
        1_000
    );
    assert!(text.len() <= 4 << 20, "{} bytes", text.len());
}
