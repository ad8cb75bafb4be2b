//! The built-in example upstreams: several small APIs on one listener, the same data on every start.

mod llm;
mod picture;
pub mod postgres;
mod prose;
mod reply;
mod shapes;
mod shop;
mod streamflow;
mod thumbnails;
mod trial;
mod users;
mod weather;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use reply::{Reply, parameter};
use streamflow::Streamflow;
use thumbnails::Thumbnails;

/// The settings of the example upstreams.
#[derive(Clone, Copy, Debug)]
pub struct Demo {
    /// How long every answer waits, unless its request says `?latency=MS` or `?latency=none`.
    pub latency: Duration,
    /// How many cases Streamflow's inbox holds.
    pub cases: usize,
}

impl Default for Demo {
    fn default() -> Self {
        Self { latency: Duration::ZERO, cases: streamflow::CASES }
    }
}

/// The first fifty users as JSON, as `/users/api/users` answers: 55,205 bytes, as in the thesis.
pub async fn fifty_users() -> Bytes {
    match users::list(None).into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    }
}

/// Serves the example upstreams for as long as it is polled. Dropping it closes their connections.
pub async fn upstreams(listener: TcpListener, settings: Demo) {
    let apis = Arc::new(Apis::new(settings));
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, Arc::clone(&apis)));
            }
            // Out of file descriptors, most likely: some come back as connections end.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, apis: Arc<Apis>) {
    // Without it only the latency would suffer.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let apis = Arc::clone(&apis);
        async move { Ok::<_, Infallible>(apis.answer(request).await) }
    });
    // A connection that breaks is its client's business.
    let _ = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
}

struct Apis {
    latency: Duration,
    streamflow: Streamflow,
    thumbnails: Thumbnails,
}

impl Apis {
    fn new(settings: Demo) -> Self {
        Self { latency: settings.latency, streamflow: Streamflow::new(settings.cases), thumbnails: Thumbnails::new() }
    }

    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let Some(latency) = self.latency(request.uri().query()) else {
            return reply::problem(StatusCode::BAD_REQUEST, "latency is a number of milliseconds, or none");
        };
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let path = request.uri().path().to_owned();
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match segments.as_slice() {
            ["echo", ..] => return trial::echo(request).await,
            ["status", code] => return trial::status(code),
            ["llm", "v1", "chat", "completions"] => return llm::complete(request).await,
            ["graphql"] if *request.method() == Method::POST => return shapes::graphql(request).await,
            ["session", rest @ ..] => {
                let found = shapes::session(request.method(), rest, request.headers());
                return found.unwrap_or_else(|| reply::not_found(&path));
            }
            ["django", rest @ ..] if request.method() == Method::GET => {
                let found = shapes::django(rest, request.uri().query(), request.headers());
                return found.unwrap_or_else(|| reply::not_found(&path));
            }
            ["shop", rest @ ..] => {
                let found = shop::answer(request.method(), rest, request.uri().query(), request.headers());
                return found.unwrap_or_else(|| reply::not_found(&path));
            }
            _ => {}
        }
        let found = self.read(&segments, request.uri().query()).await;
        match *request.method() {
            Method::GET | Method::HEAD => found.unwrap_or_else(|| reply::not_found(&path)),
            _ if found.is_some() => reply::not_allowed(),
            _ => reply::not_found(&path),
        }
    }

    async fn read(&self, segments: &[&str], query: Option<&str>) -> Option<Reply> {
        match segments {
            ["weather", "data", "2.5", "weather"] => Some(weather::current(query)),
            ["users", "api", "users"] => Some(users::list(query)),
            ["users", "api", "users", id] => users::one(id),
            ["thumbnails", name] => self.thumbnails.one(name),
            ["streamflow", "api", rest @ ..] => self.streamflow.find(rest),
            ["page", name] => thumbnails::page(name),
            ["slow", ms] => trial::slow(ms.parse().ok()?).await,
            ["s3", "bucket"] => Some(shapes::bucket(query)),
            ["cursors", "events"] => Some(shapes::events(query)),
            ["press", "rss", items] => shapes::feed(items.parse().ok()?),
            ["drip", lines, ms] => Some(trial::drip(lines.parse().ok()?, ms.parse().ok()?)),
            ["blob", bytes] => Some(trial::blob(bytes.parse().ok()?)),
            _ => None,
        }
    }

    fn latency(&self, query: Option<&str>) -> Option<Duration> {
        match parameter(query, "latency").as_deref() {
            None | Some("") => Some(self.latency),
            Some("none") => Some(Duration::ZERO),
            Some(ms) => ms.parse().ok().map(Duration::from_millis),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Sends a request on its own connection. Returns the whole answer as text.
    async fn ask(request: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let server = tokio::spawn(upstreams(listener, Demo::default()));
        let mut stream = TcpStream::connect(address).await.expect("listening");
        stream.write_all(request.as_bytes()).await.expect("open");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer");
        server.abort();
        String::from_utf8(answer).expect("text")
    }

    async fn get(path: &str) -> String {
        ask(&format!("GET {path} HTTP/1.1\r\nhost: demo\r\nconnection: close\r\n\r\n")).await
    }

    #[tokio::test]
    async fn a_page_has_its_type_and_length() {
        let answer = get("/users/api/users/1").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("content-type: application/json\r\n"), "{answer}");
        assert!(answer.contains("content-length: 286\r\n"), "{answer}");
    }

    #[tokio::test]
    async fn a_head_has_the_length_and_no_body() {
        let answer = ask("HEAD /users/api/users/1 HTTP/1.1\r\nhost: demo\r\nconnection: close\r\n\r\n").await;
        assert!(answer.contains("content-length: 286\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    }

    #[tokio::test]
    async fn an_unknown_page_is_a_problem() {
        let answer = get("/users/api/users/0").await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        assert!(answer.contains("content-type: application/problem+json\r\n"), "{answer}");
    }

    #[tokio::test]
    async fn a_page_is_not_posted_to() {
        let request =
            "POST /users/api/users/1 HTTP/1.1\r\nhost: demo\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let answer = ask(request).await;
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    }

    #[tokio::test]
    async fn an_echo_tells_the_request() {
        let request = "PUT /echo/a?b=c HTTP/1.1\r\nhost: demo\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi";
        let answer = ask(request).await;
        assert!(
            answer.ends_with(concat!(
                r#"{"method":"PUT","path":"/echo/a","query":"b=c","#,
                r#""headers":{"host":"demo","connection":"close","content-length":"2"},"body":"hi"}"#
            )),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn a_drip_comes_line_by_line() {
        let answer = get("/drip/2/1").await;
        assert!(answer.contains("\r\n\r\nB\r\n{\"line\":1}\n\r\nB\r\n{\"line\":2}\n\r\n0\r\n\r\n"), "{answer}");
    }

    #[tokio::test]
    async fn a_blob_is_as_long_as_asked() {
        let answer = get("/blob/100000").await;
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains("content-length: 100000"), "{head}");
        assert_eq!(body.len(), 100_000);
    }

    #[tokio::test]
    async fn a_status_is_as_asked() {
        assert!(get("/status/503").await.starts_with("HTTP/1.1 503 "));
        assert!(get("/status/204").await.ends_with("\r\n\r\n"));
        assert!(get("/status/100").await.starts_with("HTTP/1.1 400 "));
    }

    #[tokio::test]
    async fn the_gallery_has_its_three_files() {
        for (name, kind) in [("html", "text/html"), ("css", "text/css"), ("js", "text/javascript")] {
            let answer = get(&format!("/page/gallery.{name}")).await;
            assert!(answer.contains(&format!("content-type: {kind}; charset=utf-8\r\n")), "{answer}");
        }
    }

    #[test]
    fn a_request_sets_its_own_latency() {
        let apis = Apis::new(Demo { latency: Duration::from_millis(20), cases: 1 });
        assert_eq!(apis.latency(None), Some(Duration::from_millis(20)));
        assert_eq!(apis.latency(Some("q=a&latency=5")), Some(Duration::from_millis(5)));
        assert_eq!(apis.latency(Some("latency=")), Some(Duration::from_millis(20)));
        assert_eq!(apis.latency(Some("latency=none")), Some(Duration::ZERO));
        assert_eq!(apis.latency(Some("latency=soon")), None);
    }

    #[test]
    fn parameters_are_decoded() {
        assert_eq!(parameter(Some("a=1&q=New+York%2CUS"), "q").as_deref(), Some("New York,US"));
        assert_eq!(parameter(Some("qq=1"), "q"), None);
    }
}
