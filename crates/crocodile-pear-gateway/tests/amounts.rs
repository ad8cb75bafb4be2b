//! The costs of requests: counted for operators, shared by gateways, and charged also where a client leaves early.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::stage;
use stage::redis::Redis;
use stage::scene::Scene;
use stage::shop::{Gate, Shop, answer};

const USER: [(&str, &str); 1] = [("user", "ada")];

#[test]
fn limits_that_do_not_apply_are_counted() {
    let scene = Scene::new(
        "amounts-missing",
        "endpoints: { GET /a: { rate_limit: { rate: 1/1h, by: $headers.user }, in_flight: { limit: 1, by: $headers.user }, pipeline: [ { respond: { status: 204 } } ] } }\n",
    );
    let mut client = scene.client();
    for _ in 0..3 {
        assert_eq!(client.get("/a").status, 204);
    }
    assert_eq!(client.ask("GET", "/a", &USER, "").status, 204);
    assert_eq!(client.ask("GET", "/a", &USER, "").status, 429);
    let count = |layer: &str, result: &str| {
        let labels = format!("http_route=\"/a\",layer=\"{layer}\",limit=\"default\",result=\"{result}\"");
        scene.metric(&format!("crocodile_pear_limit_requests_total{{{labels}}}"))
    };
    assert_eq!(["allowed", "refused", "missing"].map(|result| count("rate_limit", result)), [1, 1, 3]);
    assert_eq!(["allowed", "refused", "missing"].map(|result| count("in_flight", result)), [1, 0, 3]);
}

#[test]
fn what_is_used_beyond_a_limit_is_counted() {
    let model = Shop::open(|_, stream| {
        stream.write_all(&answer(200, "content-type: application/json\r\n", "{\"usage\":{\"total_tokens\":25}}"))
    });
    let scene = Scene::new(
        "amounts-beyond",
        &format!(
            "upstreams: {{ llm: 'http://{}' }}\nendpoints: {{ POST /chat: {{ rate_limit: {{ rate: 10/1h, cost: .usage.total_tokens }}, pipeline: [ {{ request: llm / }} ] }} }}\n",
            model.address
        ),
    );
    let mut client = scene.client();
    assert_eq!(client.ask("POST", "/chat", &[], "{}").status, 200);
    assert_eq!(client.ask("POST", "/chat", &[], "{}").status, 429);
    assert_eq!(scene.metric("crocodile_pear_limit_cost_total"), 25);
    assert_eq!(scene.metric("crocodile_pear_limit_overshoot_total"), 15);
}

/// A stream of events that stops after three, until a gate opens.
fn stream(gate: Gate) -> Shop {
    Shop::open(move |asked, stream| {
        if asked.target == "/silent" {
            gate.wait();
            return stream.write_all(&answer(200, "", ""));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")?;
        stream.write_all("data: {\"n\":1}\n\n".repeat(3).as_bytes())?;
        gate.wait();
        stage::shop::close()
    })
}

#[test]
fn a_client_who_leaves_early_pays_for_what_was_sent() {
    let gate = Gate::default();
    let model = stream(gate.clone());
    let limit = "{ rate: 100/1h, cost: .usage.total_tokens }";
    let scene = Scene::new(
        "amounts-leaves",
        &format!(
            "upstreams: {{ llm: 'http://{}' }}\nendpoints:\n  POST /stream: {{ rate_limit: {limit}, pipeline: [ {{ request: llm /stream }} ] }}\n  \
             POST /silent: {{ rate_limit: {limit}, pipeline: [ {{ request: llm /silent }} ] }}\n",
            model.address
        ),
    );
    let cost = |route: &str| scene.metric(&format!("crocodile_pear_limit_cost_total{{http_route=\"{route}\""));
    let send = |path: &str| {
        let mut client = TcpStream::connect(scene.gateway.address).unwrap();
        write!(client, "POST {path} HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{{}}").unwrap();
        client
    };
    let mut client = send("/stream");
    let mut said = String::new();
    while said.matches("data: ").count() < 3 {
        let mut piece = [0; 1024];
        let read = client.read(&mut piece).unwrap();
        assert!(read > 0, "{said}");
        said += &String::from_utf8_lossy(&piece[..read]);
    }
    drop(client);
    stage::until("three events are charged", || cost("/stream") == 3);
    let client = send("/silent");
    stage::until("the model is asked", || model.calls() == 2);
    drop(client);
    stage::until("one unit is charged", || cost("/silent") == 1);
    gate.open();
}

#[test]
fn two_gateways_count_costs_and_quotas_together() {
    let Some(mut redis) = Redis::start() else { return };
    let model = Shop::open(|_, stream| {
        stream.write_all(&answer(200, "content-type: application/json\r\n", "{\"usage\":{\"total_tokens\":4}}"))
    });
    let config = format!(
        "store: {{ redis: 'redis://127.0.0.1:{}', timeout: 2s }}\nupstreams: {{ llm: 'http://{}' }}\nendpoints:\n  POST /chat:\n    \
         rate_limit: {{ rate: 10/1h, by: $headers.user, cost: .usage.total_tokens }}\n    \
         quota: {{ amount: 100, per: month, by: $headers.user, cost: '($headers.n // 1) | tonumber' }}\n    \
         pipeline: [ {{ request: llm / }} ]\n",
        redis.port, model.address
    );
    let scenes = ["amounts-one", "amounts-two"].map(|name| Scene::new(name, &config));
    for scene in &scenes {
        stage::until("it is connected", || scene.metric("crocodile_pear_store_up") == 1);
    }
    let ask = |scene: &Scene, n: &str| {
        let reply = scene.client().ask("POST", "/chat", &[USER[0], ("n", n)], "{}");
        (reply.status, reply.field("ratelimit").unwrap_or_default().to_owned())
    };
    let charged = || {
        scenes
            .iter()
            .map(|scene| scene.metric("crocodile_pear_limit_cost_total{http_route=\"/chat\",layer=\"rate_limit\""))
            .sum::<u64>()
    };
    let (status, told) = ask(&scenes[0], "30");
    assert_eq!(status, 200);
    assert!(told.starts_with("\"quota\";r=70;"), "{told}");
    stage::until("the cost is charged", || charged() == 4);
    // What is more than the quota is refused, and takes nothing of it. The limit before it counts a request without a cost.
    assert_eq!(ask(&scenes[1], "71").0, 429);
    stage::until("one is charged", || charged() == 5);
    assert_eq!(ask(&scenes[1], "30").0, 200);
    stage::until("the cost is charged", || charged() == 9);
    assert_eq!(ask(&scenes[0], "30").0, 200);
    stage::until("the cost is charged", || charged() == 13);
    assert_eq!(scenes.iter().map(|scene| scene.metric("crocodile_pear_limit_overshoot_total")).sum::<u64>(), 3);
    assert_eq!(ask(&scenes[1], "1").0, 429);
    // Another consumer has limits of its own.
    assert_eq!(scenes[1].client().ask("POST", "/chat", &[("user", "joe")], "{}").status, 200);
    // While the store is away, each gateway has its part.
    redis.kill();
    stage::until("the store is missed", || {
        scenes[0].client().ask("POST", "/chat", &[("user", "eve")], "{}");
        scenes[0].metric("crocodile_pear_store_up") == 0
    });
    let limited = || scenes[0].client().ask("POST", "/chat", &[("user", "eve")], "{}").status == 429;
    stage::until("its own part is used up", limited);
}
