//! TLS: who is trusted, who is refused and what is said of it.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use crocodile_pear::unstable::config::spec::Timeout;
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::net::tls::{TlsSettings, TlsVersion};
use crocodile_pear::unstable::upstream::{ReadyUpstream, UpstreamSettings};
use http::Method;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, ProtocolVersion, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::call::{count, fetch, get, upstream, with};
use crate::peers::asked::Asked;
use crate::peers::authority::{Authority, Identity, provider};
use crate::peers::served::Served;
use crate::peers::shop::answer;

/// The properties of a connection that a server saw.
#[derive(Clone, Debug)]
struct Seen {
    name: Option<String>,
    version: ProtocolVersion,
    kind: HandshakeKind,
    certificates: usize,
}

/// An HTTP/1.1 server under TLS; every answer is the size of its request's body in digits.
struct Server {
    served: Served,
    seen: Arc<Mutex<Vec<Seen>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Keep,
    Close,
}

impl Server {
    fn new(config: ServerConfig, after: After) -> Self {
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let told = seen.clone();
        let served = Served::secured(config, move |stream| serve(stream, after, told.clone()));
        Server { served, seen }
    }

    fn upstream(&self, tls: TlsSettings) -> Arc<ReadyUpstream> {
        upstream(&format!("https://{}", self.served.address), |settings: &mut UpstreamSettings| settings.tls = tls)
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(stream: TlsStream<TcpStream>, after: After, seen: Arc<Mutex<Vec<Seen>>>) -> Option<()> {
    let session = stream.get_ref().1;
    seen.lock().unwrap().push(Seen {
        name: session.server_name().map(str::to_owned),
        version: session.protocol_version()?,
        kind: session.handshake_kind()?,
        certificates: session.peer_certificates().map_or(0, <[_]>::len),
    });
    let mut stream = BufReader::new(stream);
    loop {
        let asked = Asked::receive(&mut stream).await.ok()??;
        stream.write_all(&answer(200, "", asked.body.len().to_string())).await.ok()?;
        stream.flush().await.ok()?;
        if after == After::Close {
            return stream.shutdown().await.ok();
        }
    }
}

fn trusting(authority: &Authority) -> TlsSettings {
    TlsSettings { ca: Some(authority.pem()), ..TlsSettings::default() }
}

fn plain(identity: &Identity) -> ServerConfig {
    identity.server(&[&TLS12, &TLS13])
}

async fn refused(server: &Server, tls: TlsSettings) -> String {
    let error: Error = fetch(&server.upstream(tls), get("/")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable);
    let told = error.to_string();
    assert!(!told.contains("127.0.0.1") && !told.contains("test"), "{told}");
    error.detail().to_owned()
}

#[tokio::test]
async fn both_versions_are_spoken_and_one_may_be_chosen() {
    let authority = Authority::new();
    let server = Server::new(plain(&authority.sign(&["127.0.0.1"])), After::Keep);
    for (versions, wanted) in [
        (vec![], ProtocolVersion::TLSv1_3),
        (vec![TlsVersion::Tls13], ProtocolVersion::TLSv1_3),
        (vec![TlsVersion::Tls12], ProtocolVersion::TLSv1_2),
    ] {
        let upstream = server.upstream(TlsSettings { versions, ..trusting(&authority) });
        assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "0");
        assert_eq!(server.seen().last().unwrap().version, wanted);
    }
}

#[tokio::test]
async fn a_connection_under_tls_is_kept() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        let server = Server::new(authority.sign(&["127.0.0.1"]).server(&[version]), After::Keep);
        let upstream = server.upstream(trusting(&authority));
        for _ in 0..5 {
            assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "0");
        }
        let post = with(Method::POST, "/", Some(AnswerBody::Bytes("abc".into())));
        assert_eq!(fetch(&upstream, post).await.unwrap(), "3");
        assert_eq!(count(&upstream), [1, 5, 0]);
    }
}

#[tokio::test]
async fn a_large_body_arrives_whole() {
    let authority = Authority::new();
    let server = Server::new(plain(&authority.sign(&["127.0.0.1"])), After::Keep);
    let upstream = server.upstream(trusting(&authority));
    let post = with(Method::POST, "/", Some(AnswerBody::Bytes(vec![b'x'; 5_000_000].into())));
    assert_eq!(fetch(&upstream, post).await.unwrap(), "5000000");
}

#[tokio::test]
async fn the_next_connection_resumes_the_session() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        let server = Server::new(authority.sign(&["127.0.0.1"]).server(&[version]), After::Close);
        let upstream = server.upstream(trusting(&authority));
        for _ in 0..3 {
            fetch(&upstream, get("/")).await.unwrap();
        }
        let kinds: Vec<_> = server.seen().into_iter().map(|seen| seen.kind).collect();
        assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed], "{version:?}");
    }
}

#[tokio::test]
async fn the_configured_name_is_asked_for_and_expected() {
    let authority = Authority::new();
    let server = Server::new(plain(&authority.sign(&["books.test"])), After::Keep);
    let named = TlsSettings { server_name: Some("books.test".into()), ..trusting(&authority) };
    fetch(&server.upstream(named), get("/")).await.unwrap();
    assert_eq!(server.seen()[0].name.as_deref(), Some("books.test"));
    assert_eq!(
        refused(&server, trusting(&authority)).await,
        "the upstream's certificate is not valid for this host name"
    );
}

#[tokio::test]
async fn every_problem_with_a_certificate_is_told() {
    let authority = Authority::new();
    let name = &["127.0.0.1"];
    let past = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 29);
    };
    let future = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2190, 1, 1);
        params.not_after = date_time_ymd(2191, 1, 1);
    };
    let client =
        |params: &mut CertificateParams| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let cases = [
        (authority.sign_with(name, past), "the upstream's certificate expired on 2020-02-29"),
        (authority.sign_with(name, future), "the upstream's certificate is not valid before 2190-01-01"),
        (authority.sign(&["other.test"]), "the upstream's certificate is not valid for this host name"),
        (authority.sign_with(name, client), "the upstream's certificate is not for TLS servers"),
        (
            Authority::new().sign(name),
            "the upstream's certificate is signed by an unknown authority; no intermediate certificate came with it",
        ),
    ];
    for (identity, wanted) in cases {
        let server = Server::new(plain(&identity), After::Keep);
        assert_eq!(refused(&server, trusting(&authority)).await, wanted);
    }
}

/// A certificate as `openssl req -x509` makes it: its own authority.
fn own_authority(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> (ServerConfig, TlsSettings) {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let settings = TlsSettings { ca: Some(certificate.pem().into_bytes()), ..TlsSettings::default() };
    (plain(&Identity { certificate, key }), settings)
}

#[tokio::test]
async fn a_certificate_that_is_named_itself_is_trusted_for_its_name_and_its_time() {
    let past = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 2, 29);
    let common = |params: &mut CertificateParams| {
        params.distinguished_name.push(rcgen::DnType::CommonName, "127.0.0.1");
    };
    for (server, settings, wanted) in [
        (own_authority(&["127.0.0.1"], |_| {}), None),
        // Without names, the common name is one.
        (own_authority(&[], common), None),
        (own_authority(&["other.test"], common), Some("the upstream's certificate is not valid for this host name")),
        (own_authority(&["127.0.0.1"], past), Some("the upstream's certificate expired on 2020-02-29")),
    ]
    .map(|((server, settings), wanted)| (server, settings, wanted))
    {
        let server = Server::new(server, After::Keep);
        match wanted {
            None => assert_eq!(fetch(&server.upstream(settings), get("/")).await.unwrap(), "0"),
            Some(wanted) => assert_eq!(refused(&server, settings).await, wanted),
        }
    }
    let (server, _) = own_authority(&["127.0.0.1"], |_| {});
    let (_, other) = own_authority(&["127.0.0.1"], |_| {});
    let server = Server::new(server, After::Keep);
    let wanted = "the upstream's certificate is self-signed and not trusted";
    assert_eq!(refused(&server, other).await, wanted);
}

#[tokio::test]
async fn a_private_authority_is_unknown_unless_it_is_named() {
    let authority = Authority::new();
    let server = Server::new(plain(&authority.sign(&["127.0.0.1"])), After::Keep);
    let wanted =
        "the upstream's certificate is signed by an unknown authority; no intermediate certificate came with it";
    assert_eq!(refused(&server, TlsSettings::default()).await, wanted);
}

#[tokio::test]
async fn versions_that_do_not_meet_are_told() {
    let authority = Authority::new();
    let server = Server::new(authority.sign(&["127.0.0.1"]).server(&[&TLS12]), After::Keep);
    let tls = TlsSettings { versions: vec![TlsVersion::Tls13], ..trusting(&authority) };
    let wanted = "the upstream supports none of the configured TLS versions";
    assert_eq!(refused(&server, tls).await, wanted);
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_it_is_asked_for() {
    let authority = Authority::new();
    let identity = authority.sign(&["127.0.0.1"]);
    for version in [&TLS12, &TLS13] {
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(authority.verifier())
            .with_single_cert(identity.chain(), identity.private())
            .unwrap();
        let server = Server::new(config, After::Keep);
        let shown = |by: &Authority| {
            let own = by.sign(&["gateway.test"]);
            let (certificate, key) = (own.certificate.pem().into_bytes(), own.key.serialize_pem().into_bytes());
            TlsSettings { certificate: Some(certificate), key: Some(key), ..trusting(&authority) }
        };
        fetch(&server.upstream(shown(&authority)), get("/")).await.unwrap();
        assert_eq!(server.seen()[0].certificates, 1);
        let told = refused(&server, shown(&Authority::new())).await;
        assert_eq!(told, "the upstream rejected the client certificate", "{version:?}");
        let told = refused(&server, trusting(&authority)).await;
        assert_eq!(told, "the upstream requires a client certificate", "{version:?}");
    }
}

#[tokio::test]
async fn the_key_of_another_certificate_is_refused_at_the_start() {
    let own = Authority::new().sign(&["gateway.test"]);
    let mut settings = UpstreamSettings::new("books", "https://127.0.0.1".parse().unwrap());
    settings.tls.certificate = Some(own.certificate.pem().into_bytes());
    settings.tls.key = Some(KeyPair::generate().unwrap().serialize_pem().into_bytes());
    let error = ReadyUpstream::new(settings).err().unwrap();
    assert_eq!(error.detail(), "the key is not that of the certificate");
}

#[tokio::test]
async fn a_server_without_tls_is_told() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let upstream = upstream(&format!("https://{}", listener.local_addr().unwrap()), |_| {});
    let serve = async {
        let mut stream = listener.accept().await.unwrap().0;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream
    };
    let (answer, _stream) = tokio::join!(fetch(&upstream, get("/")), serve);
    assert_eq!(answer.unwrap_err().detail(), "the upstream does not speak TLS");
}

#[tokio::test]
async fn a_silent_handshake_ends_with_the_time_for_connecting() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let upstream = upstream(&format!("https://{}", listener.local_addr().unwrap()), |settings| {
        settings.timeouts.connect = Timeout::After(std::time::Duration::from_millis(50));
    });
    let error = fetch(&upstream, get("/")).await.unwrap_err();
    assert_eq!((error.kind(), error.detail()), (Kind::Timeout, "connecting timed out"));
}

/// An attacker can end a TCP connection, but cannot say goodbye in TLS.
#[tokio::test]
async fn a_body_that_ends_with_the_connection_needs_a_proper_end() {
    let authority = Authority::new();
    for goodbye in [true, false] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = TlsAcceptor::from(Arc::new(plain(&authority.sign(&["127.0.0.1"]))));
        let upstream = upstream(&format!("https://127.0.0.1:{port}"), |settings| settings.tls = trusting(&authority));
        let serve = async {
            let mut stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
            while stream.read_u8().await.unwrap() != b'\n' {}
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").await.unwrap();
            stream.flush().await.unwrap();
            if goodbye {
                stream.shutdown().await.unwrap();
            }
        };
        let (answer, ()) = tokio::join!(fetch(&upstream, get("/")), serve);
        match goodbye {
            true => assert_eq!(answer.unwrap(), "hello"),
            false => assert_eq!(answer.unwrap_err().kind(), Kind::Cut),
        }
    }
}
