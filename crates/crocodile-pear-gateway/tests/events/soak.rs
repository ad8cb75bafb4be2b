//! Requests of all kinds for some time, under purges, restarts of the upstream and reloads: each answer is one that the
//! upstream gave, and was allowed to be given then. Both sides keep a log, and the two are compared.
//!
//! `SOAK=600 cargo test --test gateway events::soak -- --ignored --nocapture` takes ten minutes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Query};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::stage::pause;
use crate::stage::ports::free_address;
use crate::stage::scene::Scene;
use crate::stage::served::{Served, bind};
use crate::stage::test_rng::TestRng;

/// Items, two of each kind; each has two queries and two languages. So few are asked for again while they are fresh, stale, and
/// just purged.
const ITEMS: u64 = 16;
/// Purges find this many groups of items.
const GROUPS: u64 = 4;
/// Clients that ask at once.
const CLIENTS: u64 = 8;
/// Requests in ten minutes.
const REQUESTS: u64 = 50_000;
/// Ages are whole seconds, and clocks of two processes are read one after the other.
const SLACK: Duration = Duration::from_millis(1100);

/// The `cache-control` of an item's answers.
fn says(item: u64) -> (&'static str, Lasts) {
    match item % 8 {
        0 => ("max-age=1", Lasts::For(1)),
        1 => ("max-age=5", Lasts::For(5)),
        2 => ("public, s-maxage=3, max-age=60", Lasts::For(3)),
        3 => ("no-store", Lasts::No),
        4 => ("private, max-age=60", Lasts::No),
        5 => ("max-age=1, stale-while-revalidate=3", Lasts::For(4)),
        6 => ("max-age=1, stale-if-error=3", Lasts::For(4)),
        _ => ("no-cache", Lasts::No),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Lasts {
    For(u64),
    /// The item answers one request.
    No,
}

/// When the upstream gave what: each body comes once, and may be confirmed later.
type Given = Arc<Mutex<HashMap<String, Vec<Instant>>>>;

struct Upstream {
    address: SocketAddr,
    given: Given,
    serial: Arc<AtomicU64>,
    served: Option<Served>,
}

impl Upstream {
    fn new() -> Self {
        let mut upstream =
            Upstream { address: free_address(), given: Given::default(), serial: Arc::default(), served: None };
        upstream.start();
        upstream
    }

    fn start(&mut self) {
        let (given, serial) = (self.given.clone(), self.serial.clone());
        let app = Router::new().route(
            "/items/{item}",
            get(move |path: Path<u64>, query: Query<HashMap<String, String>>, headers: HeaderMap| {
                let (given, serial) = (given.clone(), serial.clone());
                async move { answer(path.0, &query.0, &headers, &given, &serial) }
            }),
        );
        let serve = |listener| async { axum::serve(listener, app).await };
        self.served = Some(Served::run_on(bind(self.address), serve));
    }

    /// All connections are reset, and nobody listens for a moment.
    fn restart(&mut self, away: Duration) {
        // Its listener is closed behind this.
        drop(self.served.take());
        pause(away);
        self.start();
    }
}

fn answer(
    item: u64,
    query: &HashMap<String, String>,
    headers: &HeaderMap,
    given: &Given,
    serial: &AtomicU64,
) -> Response {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let tag = text("if-none-match").trim_matches('"').to_owned();
    let mut given = given.lock().unwrap();
    // Half of what is asked about has not changed.
    if let Some(times) = given.get_mut(&tag).filter(|_| serial.fetch_add(1, Ordering::SeqCst).is_multiple_of(2)) {
        times.push(Instant::now());
        return (StatusCode::NOT_MODIFIED, fields(item, &tag)).into_response();
    }
    let number = serial.fetch_add(1, Ordering::SeqCst);
    let q = query.get("q").map(String::as_str).unwrap_or_default();
    let body = format!("{item}-{q}-{}-{number}", text("accept-language"));
    given.insert(body.clone(), vec![Instant::now()]);
    (fields(item, &body), body).into_response()
}

fn fields(item: u64, body: &str) -> [(&'static str, String); 4] {
    let tags = format!("item-{item}, group-{}", item % GROUPS);
    [
        ("cache-control", says(item).0.to_owned()),
        ("vary", "accept-language".to_owned()),
        ("etag", format!("\"{body}\"")),
        ("cache-tag", tags),
    ]
}

/// An answer, as its client saw it.
struct Seen {
    item: u64,
    /// The beginning of its body.
    asked: String,
    body: String,
    status: u16,
    began: Instant,
}

/// A purge: of an item or a group. What was given before it is not given to who asks after it; but what may stand in for an upstream
/// that fails may do so after a soft one.
struct Purged {
    group: bool,
    hard: bool,
    number: u64,
    began: Instant,
    ended: Instant,
}

fn config(upstream: SocketAddr, turn: u64) -> String {
    let extra = if turn.is_multiple_of(2) { "  GET /more: { pipeline: [respond: { body: '1' }] }\n" } else { "" };
    format!(
        "upstreams: {{ shop: {{ url: 'http://{upstream}', forward: [accept-language], cache: {{ stale_if_error: 0s }} }} }}\n\
         endpoints:\n  'GET /items/{{id}}': shop /items/{{id}}?*\n{extra}"
    )
}

#[test]
#[ignore = "it takes as many seconds as SOAK says"]
fn soak() {
    let seconds: u64 = std::env::var("SOAK").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(60);
    let time = Duration::from_secs(seconds);
    let mut upstream = Upstream::new();
    let scene = Scene::new("soak", &config(upstream.address, 0));
    let begun = Instant::now();
    let stop = AtomicBool::new(false);
    let (seen, purged, restarts, reloads) = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn({
                    let (scene, stop) = (&scene, &stop);
                    move || client(scene, number, seconds, stop)
                })
            })
            .collect();
        let purger = scope.spawn(|| purge(&scene, &stop));
        let (mut turn, mut dice) = (0, TestRng(7));
        while begun.elapsed() < time {
            pause(Duration::from_millis(500 + dice.number(1000)));
            turn += 1;
            match turn % 2 {
                0 => scene.reload(&config(upstream.address, turn / 2)),
                _ => upstream.restart(Duration::from_millis(dice.number(200))),
            }
        }
        stop.store(true, Ordering::SeqCst);
        let seen: Vec<Seen> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (seen, purger.join().unwrap(), turn.div_ceil(2), turn / 2)
    });
    let wrong = compare(&seen, &purged, &upstream.given.lock().unwrap());
    let good = seen.iter().filter(|seen| seen.status == 200).count();
    println!(
        "{} requests ({good} answered with 200) in {:?}, {} purges, {restarts} restarts, {reloads} reloads; {} calls; {} wrong",
        seen.len(),
        begun.elapsed(),
        purged.len(),
        upstream.serial.load(Ordering::SeqCst),
        wrong.len()
    );
    let results = ["hit", "stale", "revalidated", "collapsed", "miss"].map(|result| {
        let name = format!("crocodile_pear_upstream_cache_requests_total{{upstream=\"shop\",result=\"{result}\"}}");
        (result, scene.metric(&name))
    });
    println!("{results:?}");
    assert!(results.iter().take(3).all(|(_, count)| *count > 0), "each of them is tried: {results:?}");
    assert!(wrong.is_empty(), "{}", wrong[..wrong.len().min(20)].join("\n"));
    assert!(good * 10 > seen.len() * 8, "most requests are answered");
}

fn client(scene: &Scene, number: u64, seconds: u64, stop: &AtomicBool) -> Vec<Seen> {
    let (mut client, mut dice, mut seen) = (scene.client(), TestRng(number + 11), Vec::new());
    let each = REQUESTS / CLIENTS * seconds.min(600) / 600;
    let apart = Duration::from_secs_f64(seconds as f64 / each.max(1) as f64);
    let begun = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        let item = dice.number(ITEMS);
        let (q, language) = (dice.number(2), dice.of(&["en", "sv"]));
        let began = Instant::now();
        let reply = client.ask("GET", &format!("/items/{item}?q={q}"), &[("accept-language", language)], "");
        seen.push(Seen {
            item,
            asked: format!("{item}-{q}-{language}-"),
            body: reply.body,
            status: reply.status,
            began,
        });
        let due = begun + apart * seen.len() as u32;
        pause(due.saturating_duration_since(Instant::now()));
    }
    seen
}

fn purge(scene: &Scene, stop: &AtomicBool) -> Vec<Purged> {
    let (mut dice, mut purged) = (TestRng(3), Vec::new());
    while !stop.load(Ordering::SeqCst) {
        let (group, mode) = (dice.rare(4), dice.of(&["soft", "hard"]));
        let number = dice.number(if group { GROUPS } else { ITEMS });
        let tag = if group { format!("group-{number}") } else { format!("item-{number}") };
        let began = Instant::now();
        scene.purge(&format!("{{\"tag\": \"{tag}\", \"mode\": \"{mode}\"}}"));
        purged.push(Purged { group, hard: mode == "hard", number, began, ended: Instant::now() });
        pause(Duration::from_millis(20 + dice.number(200)));
    }
    purged
}

/// The answers that the upstream did not give, or that were not allowed.
fn compare(seen: &[Seen], purged: &[Purged], given: &HashMap<String, Vec<Instant>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for answer in seen {
        if answer.status != 200 {
            if !matches!(answer.status, 502..=504) {
                wrong.push(format!("{} for {}", answer.status, answer.asked));
            }
            continue;
        }
        let times = given.get(&answer.body).filter(|_| answer.body.starts_with(&answer.asked));
        let Some(times) = times else {
            wrong.push(format!("{} was answered with {}", answer.asked, answer.body));
            continue;
        };
        // When it was given last before it was seen: a little later than the request began, if it was fetched for that.
        let last = times.iter().rev().find(|time| **time <= answer.began).copied();
        let fetched = times.iter().any(|time| *time > answer.began);
        let lives = match (says(answer.item).1, last) {
            (_, None) => true,
            (Lasts::For(seconds), Some(last)) => answer.began <= last + Duration::from_secs(seconds) + SLACK,
            (Lasts::No, Some(_)) => false,
        };
        if !fetched && !lives {
            wrong.push(format!("{} is too old, {:?}", answer.body, last.map(|last| answer.began - last)));
        }
        let about = |purge: &&Purged| {
            let number = if purge.group { answer.item % GROUPS } else { answer.item };
            let stands_in = says(answer.item).0.contains("stale-if-error") && !purge.hard;
            number == purge.number && purge.ended < answer.began && !stands_in
        };
        // The latest one that had ended.
        let latest = purged.iter().filter(about).max_by_key(|purge| purge.began);
        if let (Some(purge), false, Some(last)) = (latest, fetched, last)
            && last < purge.began
        {
            wrong.push(format!("{} was purged {:?} before", answer.body, answer.began - purge.ended));
        }
    }
    wrong
}
