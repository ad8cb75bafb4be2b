//! Servers at Unix sockets: reached like any other.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crocodile_pear::unstable::config::spec::Timeout;
use crocodile_pear::unstable::error::Kind;
use crocodile_pear::unstable::net::protocol::Protocol;
use crocodile_pear::unstable::net::tls::TlsSettings;
use crocodile_pear::unstable::upstream::{ReadyUpstream, UpstreamSettings};
use http::Response;
use rustls::version::TLS13;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio_rustls::TlsAcceptor;

use crate::call::{count, fetch, get, upstream};
use crate::peers::authority::Authority;

/// A socket file that is removed at the end.
struct File(PathBuf);

impl File {
    /// Not below the build's folder, whose path may be too long for a socket.
    fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("crocodile-pear-{}-{}.sock", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        File(std::env::temp_dir().join(name))
    }

    fn bind(&self) -> UnixListener {
        UnixListener::bind(&self.0).unwrap()
    }

    fn upstream(&self, url: &str, set: impl FnOnce(&mut UpstreamSettings)) -> Arc<ReadyUpstream> {
        upstream(url, |settings| {
            settings.servers[0].socket = Some(Arc::from(Path::new(&self.0)));
            set(settings);
        })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Answers every request of a connection with its head.
async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Option<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", head.len());
        stream.write_all(&[answer.as_bytes(), &head].concat()).await.ok()?;
        stream.flush().await.ok()?;
    }
}

#[tokio::test]
async fn a_server_at_a_unix_socket_is_called_as_its_url_says_and_its_connection_is_kept() {
    let file = File::new();
    let listener = file.bind();
    tokio::spawn(async move {
        loop {
            tokio::spawn(echo(listener.accept().await.unwrap().0));
        }
    });
    let upstream = file.upstream("http://app.test/api", |_| {});
    for _ in 0..3 {
        let told = fetch(&upstream, get("/items")).await.unwrap();
        let told = String::from_utf8_lossy(&told);
        assert!(told.starts_with("GET /api/items HTTP/1.1\r\n") && told.contains("\r\nhost: app.test\r\n"), "{told}");
    }
    assert_eq!(count(&upstream), [1, 2, 0]);
    let state = upstream.servers().next().unwrap();
    assert_eq!(*state.address, *format!("unix:{}/api", file.0.display()));
}

#[tokio::test]
async fn http2_goes_over_a_unix_socket() {
    let file = File::new();
    let listener = file.bind();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, mut answer))) = connection.accept().await {
            let text = request.uri().to_string().into();
            answer.send_response(Response::new(()), false).unwrap().send_data(text, true).unwrap();
        }
    });
    let upstream = file.upstream("http://app.test/api", |settings| settings.protocol = Protocol::Http2);
    for _ in 0..3 {
        assert_eq!(fetch(&upstream, get("/a")).await.unwrap(), "http://app.test/api/a");
    }
    assert_eq!(count(&upstream)[0], 1);
}

#[tokio::test]
async fn tls_over_a_unix_socket_is_checked_by_the_name_in_the_url() {
    let (file, authority) = (File::new(), Authority::new());
    let listener = file.bind();
    let acceptor = TlsAcceptor::from(Arc::new(authority.sign(&["app.test"]).server(&[&TLS13])));
    tokio::spawn(async move {
        loop {
            let (stream, acceptor) = (listener.accept().await.unwrap().0, acceptor.clone());
            tokio::spawn(async move { echo(acceptor.accept(stream).await.ok()?).await });
        }
    });
    let trusting = |settings: &mut UpstreamSettings| {
        settings.tls = TlsSettings { ca: Some(authority.pem()), ..TlsSettings::default() }
    };
    fetch(&file.upstream("https://app.test", trusting), get("/")).await.unwrap();
    let other = fetch(&file.upstream("https://other.test", trusting), get("/")).await.unwrap_err();
    assert_eq!(
        (other.kind(), other.detail()),
        (Kind::Unreachable, "the upstream's certificate is not valid for this host name")
    );
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on_is_told_without_its_path() {
    let file = File::new();
    let upstream = file.upstream("http://app.test", |_| {});
    let missing = fetch(&upstream, get("/")).await.unwrap_err();
    assert_eq!((missing.kind(), missing.detail()), (Kind::Unreachable, "connection failed"));
    drop(file.bind());
    let stale = fetch(&upstream, get("/")).await.unwrap_err();
    assert_eq!((stale.kind(), stale.detail()), (Kind::Unreachable, "connection refused"));
    assert_eq!(upstream.servers().next().unwrap().connect_failures, (2, 0));
}

/// Where TCP would let a call wait, the system refuses it.
#[tokio::test]
async fn a_full_queue_is_waited_for() {
    let file = File::new();
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    socket.bind(&socket2::SockAddr::unix(&file.0).unwrap()).unwrap();
    socket.listen(0).unwrap();
    socket.set_nonblocking(true).unwrap();
    let listener = UnixListener::from_std(socket.into()).unwrap();
    let waits = std::os::unix::net::UnixStream::connect(&file.0).unwrap();
    let soon = |settings: &mut UpstreamSettings| settings.timeouts.connect = Timeout::After(Duration::from_millis(20));
    let late = fetch(&file.upstream("http://app.test", soon), get("/")).await.unwrap_err();
    assert_eq!((late.kind(), late.detail()), (Kind::Timeout, "connecting timed out"));
    let upstream = file.upstream("http://app.test", |_| {});
    let serve = async {
        drop((listener.accept().await, waits));
        echo(listener.accept().await.unwrap().0).await
    };
    tokio::select! {
        body = fetch(&upstream, get("/")) => assert!(body.is_ok()),
        _ = serve => panic!("the connection ended"),
    }
}
