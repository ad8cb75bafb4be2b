//! Every failure at every place: its kind, URL, index, status and cause.

use std::error::Error as _;
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crocodile_pear::{CallId, Client, Error, Kind, Observe, One, Upstream};
use crocodile_pear_peers::absent::nobody;
use crocodile_pear_peers::authority::Authority;
use crocodile_pear_peers::served::Served;
use crocodile_pear_peers::shop::{Asked, Shop, answer, close};
use http::StatusCode;

/// The properties that a failure must have, besides its URL and index.
struct Wanted {
    kind: Kind,
    status: Option<u16>,
    /// Whether something caused it. A status is its own cause.
    cause: bool,
}

fn wanted(kind: Kind, status: Option<u16>, cause: bool) -> Wanted {
    Wanted { kind, status, cause }
}

/// The servers that fail.
struct Failing {
    url: String,
    refusing: String,
    distrusted: String,
    _servers: (Shop, socket2::Socket, Served),
}

/// Fails as its path says.
fn fail(asked: &Asked, out: &mut TcpStream) -> std::io::Result<()> {
    const JSON: &str = "content-type: application/json\r\n";
    match asked.target.as_str() {
        "/good" => out.write_all(&answer(200, JSON, "[1, 2]")),
        "/reset" => close(),
        "/cut" => {
            out.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n[1, ")?;
            close()
        }
        "/missing" => out.write_all(&answer(404, JSON, "{}")),
        "/unread" => out.write_all(&answer(401, JSON, "<html>")),
        "/moved" => out.write_all(&answer(302, "location: /good\r\n", "")),
        "/broken" => out.write_all(&answer(500, JSON, "<html>")),
        "/malformed" => out.write_all(&answer(200, JSON, "[1, ")),
        "/typed" => out.write_all(&answer(200, JSON, r#"["one", "two"]"#)),
        _ => out.write_all(&answer(400, "", "")),
    }
}

impl Failing {
    fn new() -> Self {
        let shop = Shop::open(|asked, out| {
            // The connection stays open, without an answer.
            if asked.target == "/late" { Ok(()) } else { fail(asked, out) }
        });
        let (held, refusing) = nobody().unwrap();
        let identity = Authority::new().sign(&["localhost", "127.0.0.1"]);
        let config = identity.server(&[&rustls::version::TLS13]);
        let secure = Served::secured(config, async |_| {});
        Failing {
            url: format!("http://{}", shop.address),
            refusing: format!("http://{refusing}"),
            distrusted: format!("https://{}", secure.address),
            _servers: (shop, held, secure),
        }
    }

    /// Each failure of a call: its URL, and what is wanted.
    fn all(&self) -> Vec<(String, Wanted)> {
        let at = |path: &str| format!("{}{path}", self.url);
        vec![
            (at("/late"), wanted(Kind::Timeout, None, true)),
            (format!("{}/a", self.refusing), wanted(Kind::Unreachable, None, true)),
            ("http://no-such-name.invalid/a".to_owned(), wanted(Kind::Unreachable, None, true)),
            (format!("{}/a", self.distrusted), wanted(Kind::Unreachable, None, true)),
            (at("/reset"), wanted(Kind::Reset, None, true)),
            (at("/cut"), wanted(Kind::Cut, Some(200), true)),
            (at("/missing"), wanted(Kind::Refused(StatusCode::NOT_FOUND), Some(404), false)),
            (at("/unread"), wanted(Kind::Refused(StatusCode::UNAUTHORIZED), Some(401), false)),
            (at("/moved"), wanted(Kind::Unusable, Some(302), false)),
            (at("/broken"), wanted(Kind::Unusable, Some(500), false)),
            (at("/malformed"), wanted(Kind::Malformed, Some(200), true)),
            (at("/typed"), wanted(Kind::Malformed, Some(200), true)),
        ]
    }
}

/// A client that waits for no answer for long; the resolver is one that refuses, so that no name is asked of anybody.
fn client() -> Client {
    let (held, address) = nobody().unwrap();
    std::mem::forget(held);
    let limits = Upstream::default().first_byte_timeout(Duration::from_millis(300));
    Client::builder().resolver([address]).defaults(limits).build().unwrap()
}

fn numbers(client: &Client, url: &str) -> One<Vec<u64>> {
    client.get(url).as_json()
}

fn check(place: &str, error: &Error, url: &str, index: u64, wanted: &Wanted) {
    let seen = format!("{place} {url}: {error:?}, status {:?}, cause {:?}", error.upstream_status(), error.source());
    assert_eq!(error.kind(), wanted.kind, "{seen}");
    assert_eq!(error.url().map(ToString::to_string).as_deref(), Some(url), "{seen}");
    assert_eq!(error.call().map(|call| call.index), Some(index), "{seen}");
    assert_eq!(error.upstream_status().map(|status| status.as_u16()), wanted.status, "{seen}");
    assert_eq!(error.source().is_some(), wanted.cause, "{seen}");
    assert_eq!(error.is_timeout(), wanted.kind == Kind::Timeout, "{seen}");
    assert_eq!(error.is_decode(), wanted.kind == Kind::Malformed, "{seen}");
}

#[tokio::test]
async fn a_single_call_says_what_failed_and_where() {
    let (failing, client) = (Failing::new(), client());
    for (url, wanted) in failing.all() {
        let error = numbers(&client, &url).await.unwrap_err();
        check("single", &error, &url, 0, &wanted);
    }
}

#[tokio::test]
async fn a_call_of_a_join_says_which_one_it_is() {
    let (failing, client) = (Failing::new(), client());
    let good = format!("{}/good", failing.url);
    for (url, wanted) in failing.all() {
        let calls = (numbers(&client, &good), numbers(&client, &good), numbers(&client, &url).name("third"));
        let error = client.join(calls).await.unwrap_err();
        check("join", &error, &url, 2, &wanted);
        assert_eq!(error.call().and_then(|call| call.name.as_deref()), Some("third"));
    }
}

#[tokio::test]
async fn an_item_of_a_list_says_which_one_it_is_and_fails_alone() {
    let (failing, client) = (Failing::new(), client());
    for (url, wanted) in failing.all() {
        let (c, good, bad) = (client.clone(), format!("{}/good", failing.url), url.clone());
        let call = move |id: &u64| numbers(&c, if *id == 3 { &bad } else { &good });
        let items: Vec<Result<_, Error>> = client.items(0..5_u64).call(2, call).ordered().collect().await;
        assert_eq!(items.iter().filter(|item| item.is_ok()).count(), 4, "{url}");
        check("item", items[3].as_ref().unwrap_err(), &url, 3, &wanted);
    }
}

#[tokio::test]
async fn a_stream_says_where_it_broke() {
    let (failing, client) = (Failing::new(), client());
    for (url, wanted) in failing.all() {
        let items: Vec<Result<u64, Error>> = client.get(url.as_str()).list(".[]").collect().await;
        let at = items.iter().position(Result::is_err).unwrap();
        check("streamed", items[at].as_ref().unwrap_err(), &url, at as u64, &wanted);
        // What was whole before the break is there.
        assert_eq!(at, usize::from(url.ends_with("/cut") || url.ends_with("/malformed")), "{url}: {items:?}");
    }
}

#[tokio::test]
async fn a_failed_response_has_the_error_in_its_extensions() {
    let (failing, client) = (Failing::new(), client());
    for (url, wanted) in failing.all() {
        let response = numbers(&client, &url).into_response().await;
        let error = response.extensions().get::<Error>().unwrap().clone();
        check("response", &error, &url, 0, &wanted);
        assert_eq!(response.status(), wanted.kind.status());
        let document = response.into_body().bytes().await.unwrap();
        let read = Error::from_document(&document).unwrap();
        assert_eq!((read.kind(), read.upstream_status()), (error.kind(), error.upstream_status()));
        assert!(!String::from_utf8_lossy(&document).contains(&failing.url), "no address is for clients");
        let error = numbers(&client, &url).try_into_response().await.unwrap_err();
        check("try", &error, &url, 0, &wanted);
    }
}

#[tokio::test]
async fn closures_that_fail_or_panic_are_one_failed_item() {
    let client = Client::new();
    let odd = |n: u64| if n == 1 { Err(std::io::Error::other("odd")) } else { Ok(n) };
    let items: Vec<Result<u64, Error>> = client.items(0..3).try_map(odd).collect().await;
    let error = items[1].as_ref().unwrap_err();
    assert_eq!((error.kind(), items.iter().filter(|item| item.is_ok()).count()), (Kind::Closure, 2));
    assert_eq!(error.source().unwrap().to_string(), "odd");

    let panics = |n: u64| assert!(n != 1, "one is too many");
    let items: Vec<Result<(), Error>> = client.items(0..3).map(panics).collect().await;
    let error = items[1].as_ref().unwrap_err();
    assert_eq!((error.kind(), items.iter().filter(|item| item.is_ok()).count()), (Kind::Panic, 2));
    assert!(error.to_string().contains("one is too many"), "{error}");

    let late = async |n: u64| -> Result<u64, Error> {
        tokio::task::yield_now().await;
        assert!(n != 1);
        Ok(n)
    };
    let items: Vec<Result<u64, Error>> = client.items(0..3).then(2, late).ordered().collect().await;
    let error = items[1].as_ref().unwrap_err();
    assert_eq!((error.kind(), error.call().unwrap().index), (Kind::Panic, 1));
    let error = One::of(1).map(|_| panic!("never")).map(|never: u8| never).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Panic);
}

/// The kinds with which calls ended.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<(u64, Kind)>>>);

impl Observe for Ends {
    fn ended(&self, call: &CallId, outcome: Result<StatusCode, &Error>, _: Duration, _: u64) {
        if let Err(error) = outcome {
            self.0.lock().unwrap().push((call.index, error.kind()));
        }
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_ends_as_cancelled() {
    let failing = Failing::new();
    let ends = Ends::default();
    let client = Client::builder().observe(ends.clone()).build().unwrap();
    let late = format!("{}/late", failing.url);
    let missing = format!("{}/missing", failing.url);
    let error = client.join((numbers(&client, &late), numbers(&client, &missing))).await.unwrap_err();
    assert_eq!(error.call().unwrap().index, 1);
    let ends = ends.0.lock().unwrap().clone();
    assert!(ends.contains(&(0, Kind::Cancelled)), "{ends:?}");
}

#[tokio::test]
async fn a_body_that_breaks_after_the_head_says_which_call_it_was() {
    let failing = Failing::new();
    let url = format!("{}/cut", failing.url);
    let response = Client::new().get(url.as_str()).name("copy").send().await.unwrap();
    assert_eq!(response.status(), 200);
    let error = response.into_body().bytes().await.unwrap_err();
    check("after the head", &error, &url, 0, &wanted(Kind::Cut, Some(200), true));
    assert_eq!(error.call().unwrap().name.as_deref(), Some("copy"));
}
