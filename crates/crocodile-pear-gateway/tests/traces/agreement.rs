//! Metrics, the access log, traces, analytics and the operators' page say the same of the same requests.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::Value;
use socket2::Socket;

use crate::stage::PATIENCE;
use crate::stage::absent::nobody;
use crate::stage::client::exchange;
use crate::stage::found as wait;
use crate::stage::gateway::Gateway;
use crate::stage::logs::Folder;
use crate::stage::scene::Client;
use crate::stage::shop::{Asked, Shop, answer};
use crate::traces::collector::{attribute, decode, server};

/// How many rounds each client makes. `AGREEMENT_ROUNDS=2800` makes 100,000 requests.
fn rounds() -> u64 {
    std::env::var("AGREEMENT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(140)
}

const CLIENTS: u64 = 4;

/// The requests of each client in a round, and the statuses of their answers.
const ROUND: [(&str, u16); 9] = [
    ("/item/1", 200),
    ("/item/2", 200),
    ("/gone", 404),
    ("/bad", 500),
    ("/dead", 502),
    ("/kept", 200),
    ("/private", 401),
    ("/nowhere", 404),
    ("/limited", 429),
];

/// In every so many rounds a client leaves before its answer.
const LEAVES: u64 = 25;

/// So many requests may be ahead of their traces: the queue of the gateway is bounded.
const AHEAD: u64 = 4_000;

/// So many of `/limited` are answered, over all clients.
const LIMIT: u64 = 3;

/// Requests of one outcome: the route, the status, and the type of the error.
type Outcomes = BTreeMap<(String, u16, String), u64>;

struct Scene {
    gateway: Gateway,
    admin: SocketAddr,
    folder: Folder,
    silent: Mutex<TcpListener>,
    shop: Shop,
    _absent: Socket,
}

impl Scene {
    /// With what the collector is sent.
    fn new() -> (Self, Receiver<Asked>) {
        let shop = Shop::open(|asked, stream| {
            let status = asked.target[1..4].parse().unwrap();
            let fields = "content-type: application/json\r\ncache-control: max-age=600\r\n";
            stream.write_all(&answer(status, fields, r#"{"a":1234}"#))
        });
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let (absent, dead) = nobody().unwrap();
        let (collector, asked) = server(&[200]);
        let folder = Folder::new("agreement");
        // Nobody here knows the password.
        let users = "ada:$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n";
        std::fs::write(folder.path("users"), users).unwrap();
        let config = format!(
            "listen: 127.0.0.1:0
admin: 127.0.0.1:0
threads: 2
traces: {{ to: 'http://{collector}', sample: 100% }}
analytics: {{ folder: FOLDER/figures, by: '$client.address' }}
log: {{ access: {{ format: json, to: FOLDER/access.log }} }}
upstreams:
  shop: http://{shop}
  kept: {{ url: 'http://{shop}', cache: on }}
  dead: http://{dead}
  silent: http://{quiet}
endpoints:
  GET /item/{{id}}: shop /200/{{id}}
  GET /gone: {{ pipeline: [{{ request: shop /404 }}] }}
  GET /bad: shop /500
  GET /dead: dead /
  GET /kept: kept /200/kept
  GET /limited: {{ rate_limit: {{ rate: {LIMIT}/1h }}, pipeline: [{{ request: shop /200/limited }}] }}
  GET /private: {{ authenticate: [{{ basic: {{ users: FOLDER/users }} }}], pipeline: [{{ request: shop /200/private }}] }}
  GET /wait: silent /
",
            shop = shop.address,
            quiet = silent.local_addr().unwrap(),
        );
        let config = config.replace("FOLDER", folder.path("").to_str().unwrap().trim_end_matches('/'));
        std::fs::write(folder.path("gateway.yaml"), config).unwrap();
        let gateway = Gateway::run(folder.path("gateway.yaml"));
        let admin = gateway.admin().unwrap();
        (Scene { gateway, admin, folder, silent: Mutex::new(silent), shop, _absent: absent }, asked)
    }

    fn get(&self, path: &str) -> String {
        let answer =
            exchange(self.admin, format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"));
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    /// A client that leaves when its call has arrived.
    fn leave(&self) {
        let mut client = TcpStream::connect(self.gateway.address).unwrap();
        let mut call = {
            // One at a time, so that the call that arrives is its own.
            let silent = self.silent.lock().unwrap();
            client.write_all(b"GET /wait HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
            silent.accept().unwrap().0
        };
        drop(client);
        // The gateway ends the call, a second after the client has closed: it may have closed one direction only.
        let _ = call.read_to_end(&mut Vec::new());
    }

    /// All requests; what became of them. `seen` is how many traces were read: no more are made than may wait.
    fn play(&self, seen: &AtomicU64) -> Outcomes {
        let (expected, made) = (Mutex::default(), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = Client::connect(self.gateway.address);
                    for round in 0..rounds() {
                        while made.load(Ordering::Relaxed) > seen.load(Ordering::Relaxed) + AHEAD {
                            thread::yield_now();
                        }
                        made.fetch_add(ROUND.len() as u64, Ordering::Relaxed);
                        for (path, usual) in ROUND {
                            let status = client.get(path).status;
                            assert!(status == usual || (path, status) == ("/limited", 200), "{path}: {status}");
                            note(&expected, route(path), status, error(path, status));
                        }
                        if round % LEAVES == 0 {
                            // Beside the next rounds.
                            scope.spawn(|| self.leave());
                            note(&expected, "/wait", 499, "");
                        }
                    }
                });
            }
        });
        expected.into_inner().unwrap()
    }

    /// The samples of a metric, by labels.
    fn counted(&self, name: &str) -> Vec<(Labels, u64)> {
        let metrics = self.get("/metrics");
        let samples = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once("} "));
        let labels = |text: &str| {
            let pairs =
                text.trim_end_matches('"').split("\",").map(|pair| pair.split_once("=\"").unwrap_or((pair, "")));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        samples.map(|(told, value)| (labels(told), value.parse::<f64>().unwrap() as u64)).collect()
    }
}

fn route(path: &str) -> &str {
    match path {
        "/nowhere" => "",
        _ if path.starts_with("/item/") => "/item/{id}",
        _ => path,
    }
}

fn error(path: &str, status: u16) -> &'static str {
    match (path, status) {
        ("/bad", _) => "500",
        ("/dead", _) => "unreachable",
        _ => "",
    }
}

fn note(outcomes: &Mutex<Outcomes>, route: &str, status: u16, error: &str) {
    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
    *outcomes.entry((route.to_owned(), status, error.to_owned())).or_default() += 1;
}

/// Calls by upstream, and by status or by the type of the error.
type Calls = BTreeMap<(String, String), u64>;

/// The traces, read while the requests are made.
fn follow(asked: &Receiver<Asked>, seen: &AtomicU64, all: u64) -> (Outcomes, Calls) {
    let (mut outcomes, mut calls) = (Outcomes::new(), Calls::new());
    while seen.load(Ordering::Relaxed) < all {
        let asked = asked.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{seen:?} of {all} traces"));
        for span in decode(&asked) {
            let told = |name: &str| attribute(&span, name).unwrap_or_default();
            let (status, error) = (told("http.response.status_code"), told("error.type"));
            if span.kind == SpanKind::Server as i32 {
                seen.fetch_add(1, Ordering::Relaxed);
                // A client that has left was told no status.
                let gone = error == "client-gone";
                let (status, error) = if gone { (499, "".into()) } else { (status.parse().unwrap(), error) };
                let route = told("http.route").trim_start_matches("GET ").to_owned();
                *outcomes.entry((route, status, error)).or_default() += 1;
            } else if span.kind == SpanKind::Client as i32 {
                let end = match (told("crocodile_pear.dropped").as_str(), status.as_str()) {
                    ("true", _) => "cancelled".to_owned(),
                    (_, "") => error,
                    _ => status,
                };
                *calls.entry((told("crocodile_pear.upstream"), end)).or_default() += 1;
            }
        }
    }
    (outcomes, calls)
}

fn logged(scene: &Scene, all: u64) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for line in scene.folder.lines("access.log", all as usize) {
        let line: Value = serde_json::from_str(&line).unwrap();
        let told = |name: &str| line[name].as_str().unwrap_or_default().trim_start_matches("GET ").to_owned();
        let status = line["http.response.status_code"].as_u64().unwrap() as u16;
        *outcomes.entry((told("http.route"), status, told("error.type"))).or_default() += 1;
    }
    outcomes
}

#[test]
fn metrics_log_traces_analytics_and_page_agree() {
    let (scene, asked) = Scene::new();
    let all = CLIENTS * (rounds() * ROUND.len() as u64 + rounds().div_ceil(LEAVES));
    let (begun, seen) = (Instant::now(), AtomicU64::new(0));
    let (expected, (traced, traced_calls)) = thread::scope(|scope| {
        let player = scope.spawn(|| scene.play(&seen));
        let traced = follow(&asked, &seen, all);
        (player.join().unwrap(), traced)
    });
    println!("{all} requests in {:?}", begun.elapsed());
    assert_eq!(expected.values().sum::<u64>(), all);
    assert_eq!(traced, expected, "traces");
    assert_eq!(logged(&scene, all), expected, "access log");
    let requests = "http_server_request_duration_seconds_count";
    wait(|| (sum(&scene.counted(requests)) == all).then_some(()), || scene.get("/metrics"));
    let by_outcome = |(labels, count): (Labels, u64)| {
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        ((label("http_route"), label("http_response_status_code").parse().unwrap(), label("error_type")), count)
    };
    let counted: Outcomes = scene.counted(requests).into_iter().map(by_outcome).collect();
    assert_eq!(counted, expected, "metrics");
    calls_agree(&scene, &traced_calls);
    limits_agree(&scene, all);
    figures_agree(&scene, &expected);
}

type Labels = BTreeMap<String, String>;

fn sum(samples: &[(Labels, u64)]) -> u64 {
    samples.iter().map(|(_, count)| count).sum()
}

/// Compares the calls in metrics and traces with those that the upstream received.
fn calls_agree(scene: &Scene, traced: &Calls) {
    let by_end = |(labels, count): (Labels, u64)| {
        let end = labels.get("error_type").or(labels.get("http_response_status_code")).unwrap();
        ((labels["upstream"].clone(), end.clone()), count)
    };
    let counted: Calls = scene.counted("http_client_request_duration_seconds_count").into_iter().map(by_end).collect();
    assert_eq!(&counted, traced, "calls");
    let each = CLIENTS * rounds();
    let to = |upstream: &str, end: &str| counted[&(upstream.to_owned(), end.to_owned())];
    assert_eq!([to("shop", "404"), to("shop", "500"), to("dead", "unreachable")], [each; 3]);
    assert_eq!((to("shop", "200"), to("silent", "cancelled")), (each * 2 + LIMIT, CLIENTS * rounds().div_ceil(LEAVES)));
    let asked: u64 = ["200", "404", "500"].iter().map(|end| to("shop", end)).sum();
    assert_eq!(asked + to("kept", "200"), scene.shop.calls() as u64);
    let kept = scene.counted("crocodile_pear_upstream_cache_requests_total");
    assert_eq!(sum(&kept), each, "{kept:?}");
    assert!(kept.iter().any(|(labels, hits)| labels["result"] == "hit" && *hits >= each - CLIENTS), "{kept:?}");
}

/// The counts of limits, authentication and consumers are those of the requests that were sent.
fn limits_agree(scene: &Scene, all: u64) {
    let each = CLIENTS * rounds();
    let limits = scene.counted("crocodile_pear_limit_requests_total");
    let results: Vec<_> = limits
        .iter()
        .map(|(labels, count)| (labels["http_route"].as_str(), labels["result"].as_str(), *count))
        .collect();
    assert_eq!(
        results,
        [("/limited", "allowed", LIMIT), ("/limited", "refused", each - LIMIT), ("/limited", "missing", 0)]
    );
    let found = scene.counted("crocodile_pear_authentications_total");
    assert!(found.iter().any(|(labels, count)| labels["result"] == "missing" && *count == each), "{found:?}");
    let consumers = scene.counted("crocodile_pear_consumer_requests_total");
    assert!(consumers.iter().all(|(labels, _)| labels["consumer"] == "127.0.0.1"));
    assert_eq!(sum(&consumers), all, "{consumers:?}");
}

/// Compares the analytics with the page, for each route: all requests, and those that failed.
fn figures_agree(scene: &Scene, expected: &Outcomes) {
    let mut wanted: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for ((route, status, _), count) in expected {
        let (all, failed) = wanted.entry(route.clone()).or_default();
        *all += count;
        *failed += if *status >= 500 { *count } else { 0 };
    }
    let by_route = |rows: &Value, name: &str, all: &str, failed: &str| -> BTreeMap<String, (u64, u64)> {
        let mut told: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for row in rows.as_array().unwrap() {
            let sums =
                told.entry(row[name].as_str().unwrap_or_default().trim_start_matches("GET ").to_owned()).or_default();
            *sums = (sums.0 + row[all].as_u64().unwrap(), sums.1 + row[failed].as_u64().unwrap());
        }
        told
    };
    let analytics = scene.json("/analytics?last=1h&span=minute");
    assert_eq!(by_route(&analytics, "route", "requests", "errors"), wanted, "analytics");
    let page = scene.json("/status");
    assert_eq!(by_route(&page["routes"], "name", "all", "all_failed"), wanted, "page");
    let (all, failed) = wanted.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!((page["total"]["requests"].as_u64(), page["total"]["failed"].as_u64()), (Some(all), Some(failed)));
}
