//! The programs of `examples/`, each against a server of its own.

#[path = "../../examples/failures.rs"]
mod failures;
#[path = "../../examples/hello.rs"]
mod hello;
#[path = "../../examples/mock.rs"]
mod mock;
#[path = "../../examples/observed.rs"]
mod observed;
#[path = "../../examples/page.rs"]
mod page;
#[path = "../../examples/runtimes.rs"]
mod runtimes;
#[path = "../../examples/signed.rs"]
mod signed;
#[path = "../../examples/streams.rs"]
mod streams;
#[path = "../../examples/users.rs"]
mod users;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use crocodile_pear::{Client, Kind};
use crocodile_pear_peers::served::Served;
use crocodile_pear_peers::shop::{Gate, Shop, answer};
use futures_util::{StreamExt, TryStreamExt, poll};
use http::{HeaderMap, HeaderValue};

const JSON: &str = "content-type: application/json\r\n";

/// A server that answers with what a closure gives for a target, and with 404 where it gives nothing.
fn shop(body: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> (Shop, String) {
    let shop = Shop::open(move |asked, out| match body(&asked.target) {
        Some(body) => out.write_all(&answer(200, JSON, body)),
        None => out.write_all(&answer(404, JSON, "{}")),
    });
    let url = format!("http://{}", shop.address);
    (shop, url)
}

fn user(target: &str) -> Option<String> {
    let id = target.strip_prefix("/users/")?;
    Some(format!(r#"{{"name": "user {id}"}}"#))
}

#[tokio::test]
async fn hello_says_the_name() {
    let (_shop, url) = shop(user);
    assert_eq!(hello::name(&format!("{url}/users/7")).await.unwrap(), "user 7");
}

#[tokio::test]
async fn a_page_is_three_calls_at_once_and_a_call_that_fails_has_its_fallback() {
    let (_shop, url) = shop(|target| {
        Some(match target {
            "/user/7" => r#"{"name": "Lund"}"#.to_owned(),
            "/orders" => r#"[{"total": 1.5}, {"total": 2}]"#.to_owned(),
            _ => return None,
        })
    });
    let front = Served::run(|listener| axum::serve(listener, page::router(url)).into_future());
    let page = Client::new().get(format!("http://{}/page", front.address)).text().await.unwrap();
    assert_eq!(page, r#"{"name":"Lund","total":3.5,"news":[]}"#);
}

#[tokio::test]
async fn the_error_of_a_page_is_the_programs_own() {
    let (_shop, url) = shop(|target| (target == "/user/7").then(|| r#"{"name": "Lund"}"#.to_owned()));
    let front = Served::run(|listener| axum::serve(listener, page::router(url)).into_future());
    let page = Client::new().get(format!("http://{}/page", front.address)).whole().await.unwrap();
    assert_eq!((page.status().as_u16(), &page.body()[..]), (404, &b"refused"[..]));
}

#[tokio::test]
async fn users_are_in_the_order_of_their_ids_and_at_most_20_calls_are_in_flight() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, highest) = (now.clone(), most.clone());
    let (shop, url) = shop(move |target| {
        highest.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::yield_now();
        counted.fetch_sub(1, Ordering::SeqCst);
        user(target)
    });
    let names = users::names(&Client::new(), &url, (0..200).collect()).await.unwrap();
    let wanted: Vec<(u64, String)> = (0..200).map(|id| (id, format!("user {id}"))).collect();
    assert_eq!(names, wanted);
    assert!(shop.connections() <= 20 && most.load(Ordering::SeqCst) <= 20, "{} connections", shop.connections());
}

#[tokio::test]
async fn a_user_that_is_late_holds_nobody_up() {
    let gate = Gate::default();
    let held = gate.clone();
    let (_shop, url) = shop(move |target| {
        if target == "/users/0" {
            held.wait();
        }
        user(target)
    });
    let mut users = users::arriving(&Client::new(), &url, (0..200).collect());
    let mut seen = Vec::new();
    while seen.len() < 199 {
        seen.push(users.try_next().await.unwrap().unwrap().0);
    }
    assert!(!seen.contains(&0));
    gate.open();
    assert_eq!(users.try_next().await.unwrap(), Some((0, "user 0".to_owned())));
    assert_eq!(users.try_next().await.unwrap(), None);
}

#[tokio::test]
async fn calls_are_signed_by_a_token_that_is_fetched_once() {
    let tokens = Arc::new(AtomicUsize::new(0));
    let counted = tokens.clone();
    let shop = Shop::open(move |asked, out| {
        let body = match asked.target.as_str() {
            "/token" => {
                counted.fetch_add(1, Ordering::SeqCst);
                r#"{"token": "t"}"#.to_owned()
            }
            target if asked.field("x-signature") != format!("t:{target}") => {
                return out.write_all(&answer(401, "", ""));
            }
            "/orders" => r#"{"orders": [{"user": 1, "total": 5}, {"user": 2, "total": 20}]}"#.to_owned(),
            target => user(target).unwrap_or_default(),
        };
        out.write_all(&answer(200, JSON, body))
    });
    let api = format!("http://{}", shop.address);
    let response = signed::orders(&signed::client(&api).unwrap(), &api).await;
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    assert_eq!(response.into_body().text().await.unwrap(), "{\"name\":\"user 2\",\"total\":20.0}\n");
    assert_eq!(tokens.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mock_has_the_timeouts_and_retries_of_sockets() {
    let (name, late) = mock::cities(mock::Mock::default()).await.unwrap();
    assert_eq!((name.as_str(), late), ("Lund", Kind::Timeout));
}

#[tokio::test]
async fn a_failure_is_told_in_one_line() {
    let (_shop, url) = shop(|_| None);
    let error = failures::numbers(&Client::new(), &format!("{url}/numbers")).await.unwrap_err();
    assert_eq!(failures::advice(&error), "there is no such thing");
    let line = failures::line(&error);
    assert_eq!(line, format!("{url}/numbers: the upstream answered 404 Not Found (refused, status 404, call 0)"));
}

#[test]
fn every_runtime_makes_calls() {
    let (_shop, url) = shop(user);
    let url = format!("{url}/users/7");
    for run in [runtimes::current_thread, runtimes::multi_thread, runtimes::local_set, runtimes::single_shot] {
        assert_eq!(run(&url).unwrap(), r#"{"name": "user 7"}"#);
    }
}

#[tokio::test]
async fn an_observer_sees_calls_and_traces_go_on() {
    let shop = Shop::open(|asked, out| {
        let fields = [asked.field("traceparent"), asked.field("user-agent"), asked.field("via")].join("|");
        out.write_all(&answer(200, "", fields))
    });
    let (url, metrics) = (format!("http://{}", shop.address), Arc::<observed::Metrics>::default());
    let client = observed::client(&url, metrics.clone()).unwrap();
    let trace = HeaderValue::from_static("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let served = HeaderMap::from_iter([("traceparent".parse().unwrap(), trace.clone())]);
    let fields = observed::get(&client, &url, &served).await.unwrap();
    assert_eq!(fields, format!("{}|report/1.0|", trace.to_str().unwrap()));
    let (ended, bytes) = metrics.read();
    assert_eq!((ended.get("200"), bytes), (Some(&1), fields.len() as u64));
}

#[tokio::test]
async fn words_and_lines_are_there_before_the_stream_ends() {
    let gate = Gate::default();
    let held = gate.clone();
    let shop = Shop::open(move |asked, out| {
        let (media, first, second) = match asked.target.as_str() {
            "/words" => ("text/event-stream", "data: {\"delta\": \"Good\"}\n\n", "data: {\"delta\": \" day\"}\n\n"),
            _ => ("application/x-ndjson", "{\"n\": 1}\n", "{\"n\": 2}\n"),
        };
        write!(out, "HTTP/1.1 200 OK\r\ncontent-type: {media}\r\nconnection: close\r\n\r\n{first}")?;
        held.wait();
        out.write_all(second.as_bytes())?;
        Err(std::io::ErrorKind::ConnectionAborted.into())
    });
    let (client, url) = (Client::new(), format!("http://{}", shop.address));
    let mut words = streams::words(&client, &format!("{url}/words"));
    let mut lines = streams::lines(&client, &format!("{url}/lines"));
    assert_eq!(words.try_next().await.unwrap().as_deref(), Some("Good"));
    assert_eq!(lines.try_next().await.unwrap().unwrap()["n"], 1);
    assert!(poll!(words.next()).is_pending());
    gate.open();
    assert_eq!(words.try_next().await.unwrap().as_deref(), Some(" day"));
    assert_eq!(lines.try_next().await.unwrap().unwrap()["n"], 2);
    assert!(lines.try_next().await.unwrap().is_none());
}

/// The size of the large bodies: a part of a gigabyte in the suite.
fn large() -> u64 {
    std::env::var("LIBRARY_BYTES").ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(64 << 20)
}

#[tokio::test]
async fn a_large_body_goes_up_and_down_in_little_memory() {
    if !alone("programs::a_large_body_goes_up_and_down_in_little_memory") {
        return;
    }
    let size = large();
    let shop = Served::begin(move |stream| async move {
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        std::thread::spawn(move || serve_large(stream, size)).join().unwrap();
    });
    let (client, url) = (Client::new(), format!("http://{}/", shop.address));
    let before = resident();
    assert_eq!(streams::upload(&client, &url, size).await.unwrap(), size.to_string());
    let mut slow = Slow { taken: 0, turn: false };
    assert_eq!(streams::download(&client, &url, &mut slow).await.unwrap(), size);
    assert_eq!(slow.taken, size);
    let more = resident().saturating_sub(before);
    assert!(more < 40 << 20, "{} MiB more", more >> 20);
}

/// Reads a `PUT` of any size and says how long it was, or answers a `GET` with as many bytes.
fn serve_large(mut stream: std::net::TcpStream, size: u64) {
    let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if reader.read(&mut byte).unwrap() == 0 {
            return;
        }
        head.push(byte[0]);
    }
    if head.starts_with(b"PUT") {
        let length = std::io::copy(&mut reader.take(size), &mut std::io::sink()).unwrap().to_string();
        stream.write_all(&answer(200, "connection: close\r\n", length)).unwrap();
        return;
    }
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n").unwrap();
    std::io::copy(&mut std::io::repeat(b'x').take(size), &mut stream).unwrap();
}

/// A reader that is not ready every other time.
struct Slow {
    taken: u64,
    turn: bool,
}

impl tokio::io::AsyncWrite for Slow {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.turn = !self.turn;
        if self.turn {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.taken += bytes.len() as u64;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Whether the test is alone in its process, so that its memory is its own. Otherwise it is run in one.
pub fn alone(test: &str) -> bool {
    if std::env::var_os("LIBRARY_ALONE").is_some() {
        return true;
    }
    let mut own = std::process::Command::new(std::env::current_exe().unwrap());
    let done = own.args(["--exact", test, "--nocapture"]).env("LIBRARY_ALONE", "yes").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    false
}

/// The memory of this process that is in use, in bytes.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    let kibibytes: u64 = line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0);
    kibibytes << 10
}
