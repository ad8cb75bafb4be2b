//! Requests and answers, as a client library sees them.

use std::future::{Future, poll_fn};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear_gateway::server::Settings;
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::task::JoinHandle;

use crate::server::scene::{PATIENCE, Scene};

const SHORT: Duration = Duration::from_millis(100);

/// A client; its connection is driven beside it.
pub struct Client {
    pub send: SendRequest<Bytes>,
    pub ends: JoinHandle<Result<(), h2::Error>>,
}

pub async fn connect(scene: &Scene) -> Client {
    connect_with(scene, &h2::client::Builder::new()).await
}

pub async fn connect_with(scene: &Scene, builder: &h2::client::Builder) -> Client {
    let stream = tokio::net::TcpStream::connect(scene.address).await.unwrap();
    let (send, connection) = builder.handshake(stream).await.unwrap();
    Client { send, ends: tokio::spawn(connection) }
}

pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("in time") })
}

fn request(method: &str, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("http://h{path}")).body(()).unwrap()
}

impl Client {
    pub async fn get(&mut self, path: &str) -> Response<RecvStream> {
        self.ask(request("GET", path)).await
    }

    pub async fn ask(&mut self, request: Request<()>) -> Response<RecvStream> {
        poll_fn(|cx| self.send.poll_ready(cx)).await.unwrap();
        self.send.send_request(request, true).unwrap().0.await.unwrap()
    }

    pub async fn post(&mut self, path: &str, body: &'static str) -> Response<RecvStream> {
        let (answer, mut send) = self.send.send_request(request("POST", path), false).unwrap();
        send.send_data(Bytes::from_static(body.as_bytes()), true).unwrap();
        answer.await.unwrap()
    }
}

pub async fn text(response: Response<RecvStream>) -> Result<String, h2::Error> {
    Ok(whole(response).await?.0)
}

pub async fn whole(response: Response<RecvStream>) -> Result<(String, Option<HeaderMap>), h2::Error> {
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        text.extend_from_slice(&data);
    }
    Ok((String::from_utf8(text).unwrap(), body.trailers().await?))
}

#[test]
fn requests_go_side_by_side_on_one_connection() {
    let scene = Scene::new(Settings::default());
    run(async {
        let mut client = connect(&scene).await;
        let mut hanging = client.send.clone();
        let (_hangs, _) = hanging.send_request(request("GET", "/hang"), true).unwrap();
        for _ in 0..3 {
            assert_eq!(text(client.get("/a?b=c").await).await.unwrap(), "GET /a?b=c []");
            assert_eq!(text(client.post("/a", "hello").await).await.unwrap(), "POST /a [hello]");
        }
        assert_eq!(text(client.ask(request("HEAD", "/a")).await).await.unwrap(), "");
    });
}

#[test]
fn an_answer_says_its_length_and_its_date_and_nothing_of_http1() {
    let scene = Scene::new(Settings::default());
    run(async {
        let mut client = connect(&scene).await;
        let answer = client.get("/a").await;
        assert_eq!(answer.headers()["content-length"], "9");
        assert!(answer.headers().contains_key("date"));
        assert!(!client.get("/chunks").await.headers().contains_key("content-length"));
    });
}

#[test]
fn trailers_and_interim_answers_reach_the_client() {
    let scene = Scene::new(Settings::default());
    run(async {
        let mut client = connect(&scene).await;
        let (body, trailers) = whole(client.get("/trailers").await).await.unwrap();
        assert_eq!(body, "body");
        assert_eq!(trailers.unwrap()["server-timing"], "total;dur=1");
        let (mut answer, _) = client.send.send_request(request("GET", "/hints"), true).unwrap();
        for (status, link) in [(103, "</a>"), (102, ""), (103, "</b>")] {
            let hint = poll_fn(|cx| answer.poll_informational(cx)).await.unwrap().unwrap();
            assert_eq!((hint.status().as_u16(), hint.headers()["link"].to_str().unwrap()), (status, link));
            assert_eq!(hint.headers().len(), 1);
        }
        assert_eq!(text(answer.await.unwrap()).await.unwrap(), "GET /hints []");
    });
}

#[test]
fn a_client_that_waits_for_100_is_told_when_its_body_is_wanted() {
    let scene = Scene::new(Settings::default());
    run(async {
        let mut client = connect(&scene).await;
        let mut expecting = request("POST", "/a");
        expecting.headers_mut().insert("expect", "100-continue".parse().unwrap());
        let (mut answer, mut send) = client.send.send_request(expecting.clone(), false).unwrap();
        let hint = poll_fn(|cx| answer.poll_informational(cx)).await.unwrap().unwrap();
        assert_eq!(hint.status(), StatusCode::CONTINUE);
        send.send_data(Bytes::from_static(b"hello"), true).unwrap();
        assert_eq!(text(answer.await.unwrap()).await.unwrap(), "POST /a [hello]");
        *expecting.uri_mut() = "http://h/unread".parse().unwrap();
        let (mut answer, _send) = client.send.send_request(expecting, false).unwrap();
        assert_eq!(text((&mut answer).await.unwrap()).await.unwrap(), "unread");
    });
}

#[test]
fn an_answer_that_breaks_is_reset_behind_what_came() {
    let scene = Scene::new(Settings::default());
    run(async {
        let mut client = connect(&scene).await;
        for (path, first) in [("/fail", "first"), ("/short", "1234"), ("/long", ""), ("/lie", "")] {
            let answer = client.get(path).await;
            let mut body = answer.into_body();
            let mut came = Vec::new();
            let error = loop {
                match body.data().await {
                    Some(Ok(data)) => came.extend_from_slice(&data),
                    Some(Err(error)) => break error,
                    None => panic!("{path} ended well"),
                }
            };
            assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR), "{path}");
            assert_eq!(String::from_utf8_lossy(&came), first, "{path}");
            let (how, bytes) = soon(|| scene.ended.try_recv().ok()).await;
            assert!(how.starts_with("Failed("), "{path}: {how}");
            assert_eq!(bytes, first.len() as u64, "{path}");
        }
        assert_eq!(text(client.get("/a").await).await.unwrap(), "GET /a []");
    });
}

#[test]
fn an_answer_ends_when_its_last_byte_has_left() {
    let scene = Scene::new(Settings::default());
    run(async {
        let mut client = connect(&scene).await;
        for (path, length) in [("/a", 9), ("/chunks", 6), ("/trailers", 4)] {
            text(client.get(path).await).await.unwrap();
            assert_eq!(soon(|| scene.ended.try_recv().ok()).await, ("Whole".to_owned(), length), "{path}");
        }
        client.ask(request("HEAD", "/a")).await;
        assert_eq!(soon(|| scene.ended.try_recv().ok()).await, ("Whole".to_owned(), 0));
    });
}

#[test]
fn a_stream_that_is_reset_stops_its_work_and_no_other() {
    let scene = Scene::new(Settings::default());
    run(async {
        let mut client = connect(&scene).await;
        let (answer, mut send) = client.send.send_request(request("POST", "/hang"), false).unwrap();
        send.send_data(Bytes::from_static(b"x"), false).unwrap();
        assert_eq!(came(&scene).await, "handler");
        send.send_reset(Reason::CANCEL);
        drop(answer);
        assert_eq!(left(&scene).await, "handler");
        let answer = client.get("/drip").await;
        let mut body = answer.into_body();
        body.data().await.unwrap().unwrap();
        drop(body);
        assert_eq!(left(&scene).await, "body");
        let (how, bytes) = soon(|| scene.ended.try_recv().ok()).await;
        assert_eq!((how.as_str(), bytes), ("ClientReset(CANCEL)", 5));
        assert_eq!(text(client.get("/a").await).await.unwrap(), "GET /a []");
    });
}

#[test]
fn a_connection_that_ends_stops_all_its_work() {
    let scene = Scene::new(Settings::default());
    run(async {
        let mut client = connect(&scene).await;
        let (_answer, _) = client.send.send_request(request("GET", "/hang"), true).unwrap();
        let mut other = client.send.clone();
        let (_answer, _) = other.send_request(request("GET", "/hang"), true).unwrap();
        for _ in 0..2 {
            came(&scene).await;
        }
        client.ends.abort();
        for _ in 0..2 {
            assert_eq!(left(&scene).await, "handler");
        }
    });
}

#[test]
fn the_body_of_a_request_may_go_on_while_its_answer_comes() {
    let scene = Scene::new(Settings::default());
    run(async {
        let mut client = connect(&scene).await;
        let (answer, mut send) = client.send.send_request(request("POST", "/drip"), false).unwrap();
        let mut body = answer.await.unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "first");
        send.send_data(Bytes::from_static(b"more"), true).unwrap();
    });
}

#[test]
fn a_server_that_stops_says_so_and_serves_what_came() {
    let scene = Scene::new(Settings::default());
    let shutdown = scene.shutdown.clone();
    run(async {
        let mut client = connect(&scene).await;
        let (answer, mut send) = client.send.send_request(request("POST", "/a"), false).unwrap();
        send.send_data(Bytes::from_static(b"he"), false).unwrap();
        text(client.get("/b").await).await.unwrap();
        shutdown.begin();
        let error = loop {
            match poll_fn(|cx| client.send.poll_ready(cx)).await {
                Ok(()) => match client.send.send_request(request("GET", "/c"), true) {
                    Ok((answer, _)) => match answer.await {
                        Ok(answer) => drop(text(answer).await),
                        Err(error) => break error,
                    },
                    Err(error) => break error,
                },
                Err(error) => break error,
            }
        };
        assert!(error.is_go_away() || error.reason() == Some(Reason::NO_ERROR), "{error:?}");
        send.send_data(Bytes::from_static(b"llo"), true).unwrap();
        assert_eq!(text(answer.await.unwrap()).await.unwrap(), "POST /a [hello]");
        client.ends.await.unwrap().unwrap();
    });
    scene.join().unwrap();
}

#[test]
fn a_body_that_does_not_go_on_is_told() {
    let scene = Scene::new(Settings { body: SHORT, ..Settings::default() });
    run(async {
        let mut client = connect(&scene).await;
        let (answer, mut send) = client.send.send_request(request("POST", "/a"), false).unwrap();
        send.send_data(Bytes::from_static(b"he"), false).unwrap();
        assert_eq!(answer.await.unwrap().status(), StatusCode::REQUEST_TIMEOUT);
    });
}

#[test]
fn a_window_that_stays_closed_ends_its_stream_alone() {
    let scene = Scene::new(Settings { write: SHORT, ..Settings::default() });
    run(async {
        let mut client = connect_with(&scene, h2::client::Builder::new().initial_window_size(10)).await;
        for path in ["/endless", "/lengthy-path-that-is-answered-at-once"] {
            let mut body = client.get(path).await.into_body();
            body.data().await.unwrap().unwrap();
            let error = loop {
                match body.data().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break error,
                    None => panic!("{path} ended well"),
                }
            };
            assert_eq!(error.reason(), Some(Reason::CANCEL), "{path}");
            assert_eq!(soon(|| scene.ended.try_recv().ok()).await, ("ClientSlow".to_owned(), 10), "{path}");
        }
        assert_eq!(client.ask(request("HEAD", "/a")).await.status(), StatusCode::OK);
    });
}

async fn left(scene: &Scene) -> &'static str {
    soon(|| scene.left.try_recv().ok()).await
}

async fn came(scene: &Scene) -> &'static str {
    soon(|| scene.came.try_recv().ok()).await
}

/// Waits for what another thread does, while the client goes on.
async fn soon<T>(look: impl Fn() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
