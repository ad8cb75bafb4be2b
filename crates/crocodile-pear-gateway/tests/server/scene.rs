//! A server with a handler that does as the path says, and clients that speak bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::message::body::{AnswerBody, PulledBody};
use crocodile_pear::unstable::request::facts::ClientAddress;
use crocodile_pear_gateway::http::response;
use crocodile_pear_gateway::net::address::Address;
use crocodile_pear_gateway::server::{
    ClientRequest, Connection, Handler, Listeners, Observer, Refusal, Reply, ResponseEnd, Settings, Shutdown, serve,
};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};

/// Longer than anything here takes: a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(90);

pub struct Scene {
    pub address: SocketAddr,
    pub shutdown: Shutdown,
    pub seen: Arc<Mutex<Vec<(ClientAddress, String)>>>,
    pub left: Receiver<&'static str>,
    pub came: Receiver<&'static str>,
    /// How answers ended, and after how many bytes.
    pub ended: Receiver<(String, u64)>,
    server: Option<JoinHandle<std::io::Result<()>>>,
}

impl Scene {
    pub fn new(settings: Settings) -> Self {
        let listeners = Listeners::bind(([127, 0, 0, 1], 0).into(), 1).unwrap();
        let &Address::Network(address) = listeners.address() else { panic!("no port") };
        let shutdown = Shutdown::default();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (leaves, left) = mpsc::channel();
        let (comes, came) = mpsc::channel();
        let (ends_told, ended) = mpsc::channel();
        let play = Play { seen: seen.clone(), leaves, comes, ends: ends_told };
        let ends = shutdown.clone();
        let server = thread::spawn(move || serve(listeners, &settings, &ends, |_| play.clone()));
        Scene { address, shutdown, seen, left, came, ended, server: Some(server) }
    }

    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let client = Client(stream);
        // An earlier client may have had the same port.
        let peer = client.peer();
        self.seen.lock().unwrap().retain(|(of, _)| *of != peer);
        client
    }

    /// The requests that the handler read from one client.
    pub fn seen_of(&self, client: &Client) -> Vec<String> {
        let peer = client.peer();
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(of, _)| *of == peer).map(|(_, reading)| reading.clone()).collect()
    }

    pub fn join(mut self) -> std::io::Result<()> {
        self.server.take().unwrap().join().unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.shutdown.end();
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Close {
    Clean,
    Reset,
}

pub struct Client(pub TcpStream);

impl Client {
    fn peer(&self) -> ClientAddress {
        ClientAddress::from(self.0.local_addr().unwrap())
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// Reads up to and with `end`.
    pub fn until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        let mut byte = [0];
        while !read.ends_with(end.as_bytes()) {
            match self.0.read(&mut byte) {
                Ok(1) => read.push(byte[0]),
                other => panic!("{other:?} after {}", read.escape_ascii()),
            }
        }
        String::from_utf8(read).unwrap()
    }

    /// Reads to the end of the connection.
    pub fn rest(&mut self) -> (String, Close) {
        let mut read = Vec::new();
        let close = match self.0.read_to_end(&mut read) {
            Ok(_) => Close::Clean,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Close::Reset,
            Err(error) => panic!("{error} after {}", read.escape_ascii()),
        };
        (String::from_utf8_lossy(&read).into_owned(), close)
    }
}

#[derive(Clone)]
struct Play {
    seen: Arc<Mutex<Vec<(ClientAddress, String)>>>,
    leaves: Sender<&'static str>,
    comes: Sender<&'static str>,
    ends: Sender<(String, u64)>,
}

struct Watch(Sender<(String, u64)>);

impl Observer for Watch {
    fn ended(self: Box<Self>, end: &ResponseEnd) {
        let _ = self.0.send((format!("{:?}", end.how), end.bytes));
    }
}

/// Tells when it is dropped.
struct Told(&'static str, Sender<&'static str>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.1.send(self.0);
    }
}

impl Handler for Play {
    async fn handle(&self, request: ClientRequest) -> Reply {
        let response = self.play(request).await.map(AnswerBody::Pulled);
        Reply { response, observer: Some(Box::new(Watch(self.ends.clone()))), ready: None }
    }

    fn refuse(&self, refusal: Refusal, _: Option<HeaderValue>, _: &Arc<Connection>) -> Reply {
        response::refusal(&refusal).into()
    }
}

impl Play {
    async fn play(&self, request: ClientRequest) -> Response<PulledBody> {
        let path = request.target.path().to_owned();
        match path.as_str() {
            "/hang" => {
                let _told = Told("handler", self.leaves.clone());
                let _ = self.comes.send("handler");
                std::future::pending().await
            }
            "/drip" => {
                let told = Told("body", self.leaves.clone());
                let first = stream::iter([piece("first")]);
                Response::new(streamed(first.chain(stream::pending().map(move |piece| {
                    let _ = &told;
                    piece
                }))))
            }
            "/endless" | "/events" => {
                let told = Told("body", self.leaves.clone());
                let chunk = Bytes::from(vec![b'x'; 32 * 1024]);
                let mut response = Response::new(streamed(stream::repeat_with(move || {
                    let _ = &told;
                    Ok(Frame::data(chunk.clone()))
                })));
                if path == "/events" {
                    response.headers_mut().insert("content-type", HeaderValue::from_static("text/event-stream"));
                }
                response
            }
            "/unhurried" => {
                request.pace.iter().for_each(|pace| pace.unhurried());
                self.echo(request).await
            }
            "/fail" => {
                let failure = Err(Error::new(Kind::Cut, "the upstream broke"));
                Response::new(streamed(stream::iter([piece("first"), failure])))
            }
            "/short" => sized("10", streamed(stream::iter([piece("1234")]))),
            "/long" => sized("4", streamed(stream::iter([piece("1234567890")]))),
            "/lie" => sized("10", full(Bytes::new())),
            "/chunks" => Response::new(streamed(stream::iter([piece("one"), piece("two")]))),
            "/trailers" => {
                let mut trailers = HeaderMap::new();
                trailers.insert("server-timing", HeaderValue::from_static("total;dur=1"));
                let last = Ok(Frame::trailers(trailers));
                let mut response = Response::new(streamed(stream::iter([piece("body"), last])));
                response.headers_mut().insert("trailer", HeaderValue::from_static("server-timing"));
                response
            }
            "/hints" => {
                for (status, link) in [(103, "</a>"), (102, ""), (103, "</b>")] {
                    let fields = [("link", link), ("content-length", "3"), ("connection", "x")];
                    let fields = fields.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
                    let status = http::StatusCode::from_u16(status).unwrap();
                    if let Some(interim) = &request.side_channel.interim {
                        interim.interim(status, &HeaderMap::from_iter(fields));
                    }
                }
                self.echo(request).await
            }
            "/interim" => {
                let mut response = Response::new(full("early".into()));
                *response.status_mut() = http::StatusCode::EARLY_HINTS;
                response
            }
            "/unread" => Response::new(full("unread".into())),
            _ => self.echo(request).await,
        }
    }

    async fn echo(&self, request: ClientRequest) -> Response<PulledBody> {
        let body = match request.body.collect(usize::MAX).await {
            Ok(body) => body,
            Err(error) => {
                let mut response = Response::new(full("broken body".into()));
                *response.status_mut() = error.status();
                return response;
            }
        };
        let body = String::from_utf8_lossy(&body).into_owned();
        let reading = format!("{} {} [{body}]", request.method, request.target.as_str());
        self.seen.lock().unwrap().push((request.connection.peer, reading.clone()));
        Response::new(full(reading.into()))
    }
}

fn piece(text: &'static str) -> Result<Frame<Bytes>, Error> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

fn streamed(pieces: impl futures_util::Stream<Item = Result<Frame<Bytes>, Error>> + Send + 'static) -> PulledBody {
    Box::pin(StreamBody::new(pieces))
}

fn full(bytes: Bytes) -> PulledBody {
    Box::pin(Full::new(bytes).map_err(|never| match never {}))
}

fn sized(length: &'static str, body: PulledBody) -> Response<PulledBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert("content-length", HeaderValue::from_static(length));
    response
}
