//! Figures over minutes, hours and days: they are exact, and they survive a restart.

use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::stage::found;
use crate::stage::front::Scene;
use crate::stage::shop::Shop;

const CONFIG: &str = r#"
analytics: { folder: '${FOLDER}', size: 1 MiB, by: '$headers["x-client"]', top: 2 }
upstreams: { shop: 'http://${SHOP}' }
endpoints:
  GET /one: shop /1
  GET /bad: shop /bad
  GET /three: { pipeline: [requests: { a: shop /1, b: shop /2, c: shop /3 }, merge: '{a: $a, b: $b, c: $c}'] }
"#;

/// A body of 100 bytes, or a failure.
fn shop() -> Shop {
    Shop::open(|asked, stream| {
        let (status, body) = match asked.target.as_str() {
            "/bad" => ("500 Internal Server Error", String::new()),
            _ => ("200 OK", format!("{{\"text\":\"{}\"}}", "x".repeat(89))),
        };
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all([head, body].concat().as_bytes())
    })
}

fn rows(scene: &Scene, query: &str) -> Vec<Value> {
    serde_json::from_str(&scene.admin(&format!("/analytics?{query}"))).unwrap()
}

fn sum(rows: &[Value], name: &str) -> u64 {
    rows.iter().map(|row| row[name].as_u64().unwrap()).sum()
}

/// The rows of all routes together, when this number of requests is counted. A request is counted a moment after its answer,
/// and the files are opened a moment after the gateway listens.
fn all(scene: &Scene, requests: u64) -> Vec<Value> {
    let rows = || serde_json::from_str::<Vec<Value>>(&scene.admin("/analytics?last=2d&span=day&by=all")).ok();
    found(
        || rows().filter(|rows| sum(rows, "requests") >= requests),
        || format!("{requests} requests, but {:?}", rows()),
    )
}

fn figures(row: &Value, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| row[*name].as_u64().unwrap()).collect()
}

#[test]
fn figures_are_exact_and_survive_a_restart() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("analytics");
    let _ = std::fs::remove_dir_all(&folder);
    let config = CONFIG.replace("${FOLDER}", folder.to_str().unwrap());
    let shop = shop();
    let mut scene = Scene::new(&config, &shop);
    let mut sent = 0;
    for (client, count) in [("ada", 30), ("bob", 20), ("eve", 5), ("kim", 1)] {
        for _ in 0..count {
            let fields = format!("host: test\r\nx-client: {client}\r\n");
            sent += scene.get("/three", &fields).body.len() as u64;
        }
    }
    for _ in 0..10 {
        assert_eq!(scene.get("/bad", "host: test\r\n").head.status, 500);
        assert_eq!(scene.get("/one", "host: test\r\n").body.len(), 100);
        assert_eq!(scene.get("/none", "host: test\r\n").head.status, 404);
    }
    for round in 0..2 {
        let all = all(&scene, 86);
        let sum = |name: &str| sum(&all, name);
        assert_eq!((sum("requests"), sum("errors"), sum("refused")), (86, 10, 10), "{round}: {all:?}");
        let of = |route: &str| {
            let routes = rows(&scene, "last=1h&span=hour");
            let mut found = routes.into_iter().filter(|row| row["route"] == route);
            found.next().unwrap_or_else(|| panic!("no row for {route}"))
        };
        let three = of("GET /three");
        let names = ["requests", "upstream_calls", "saved_requests", "received_bytes", "sent_bytes"];
        assert_eq!(figures(&three, &names), [56, 168, 112, 16_800, sent]);
        assert!(three["p99_ms"].is_f64(), "{three}");
        let names = ["requests", "upstream_calls", "saved_requests", "saved_bytes"];
        assert_eq!(figures(&of("GET /one"), &names), [10, 10, 0, 0]);
        let whole = rows(&scene, "last=24h&span=all");
        let one: Vec<_> = whole.iter().filter(|row| row["route"] == "GET /three").collect();
        assert_eq!(one.iter().map(|row| &row["requests"]).collect::<Vec<_>>(), [56], "{whole:?}");
        let consumers = rows(&scene, "last=1h&span=hour&by=consumer");
        let mut told: Vec<_> =
            consumers.iter().filter_map(|row| Some((row["consumer"].as_str()?, row["requests"].as_u64()?))).collect();
        told.sort_unstable();
        assert_eq!(told, [("ada", 30), ("bob", 20), ("other", 6)]);
        let csv = scene.admin("/analytics?last=1h&span=hour&by=route,consumer&format=csv");
        assert!(csv.starts_with("time,route,consumer,requests,errors,refused,duration_us,"), "{csv}");
        assert!(csv.contains(",\"GET /three\",\"ada\",30,0,0,"), "{csv}");
        if round == 0 {
            scene.gateway.signal("TERM").unwrap();
            scene.gateway.ended().unwrap();
            scene = Scene::new(&config, &shop);
        }
    }
    assert!(scene.admin("/analytics?last=week").contains("`last` is `week`; write `90m`, `24h` or `7d`"));
}

#[test]
fn a_folder_that_cannot_be_used_is_told() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("analytics-file");
    std::fs::write(&file, "").unwrap();
    let scene = Scene::new(&CONFIG.replace("${FOLDER}", file.to_str().unwrap()), &shop());
    let told = || scene.admin("/analytics").contains("is not open yet or cannot be opened: see the log").then_some(());
    found(told, || scene.admin("/analytics"));
}
