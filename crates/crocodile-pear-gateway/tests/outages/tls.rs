//! TLS to upstreams, as an operator writes it: files, and what is told when they do not fit.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use http::Response;
use rcgen::date_time_ymd;
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, ServerConfig};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::server::TlsStream;

use crate::outages::scene::{Scene, config, get};
use crate::stage::asked::Asked;
use crate::stage::authority::{Authority, offering, provider};
use crate::stage::http2::converse;
use crate::stage::relay::{Relay, Way};
use crate::stage::served::Served;
use crate::stage::shop::answer;
use crate::stage::{in_parallel, until};

/// An HTTP/1.1 server under TLS.
struct Secure {
    served: Served,
    /// How connections ended: with a goodbye, or without.
    ends: Arc<Mutex<Vec<bool>>>,
}

impl Secure {
    fn new(config: ServerConfig) -> Self {
        let ends = Arc::<Mutex<Vec<bool>>>::default();
        let told = ends.clone();
        let served = Served::secured(config, move |stream| serve(stream, told.clone()));
        Secure { served, ends }
    }
}

async fn serve(stream: TlsStream<TcpStream>, ends: Arc<Mutex<Vec<bool>>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        match Asked::receive(&mut stream).await {
            Ok(Some(_)) => {}
            // An end without a goodbye is an error.
            end => {
                ends.lock().unwrap().push(end.is_ok());
                return Ok(());
            }
        }
        stream.write_all(&answer(200, "", "ok")).await?;
        stream.flush().await?;
    }
}

/// A folder of PEM files, and the YAML that names them.
struct Files(String);

impl Files {
    fn new(name: &str) -> Self {
        let folder = format!("{}/outages_tls_{name}", env!("CARGO_TARGET_TMPDIR"));
        fs::create_dir_all(&folder).unwrap();
        Files(folder)
    }

    fn write(&self, name: &str, pem: impl AsRef<[u8]>) -> String {
        let path = Path::new(&self.0).join(name);
        fs::write(&path, pem).unwrap();
        path.display().to_string()
    }
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_and_why_stands_in_the_log() {
    let (authority, files) = (Authority::new(), Files::new("wrong"));
    let ca = files.write("ca.pem", authority.pem());
    let past = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 29);
    };
    let cases = [
        (
            "name",
            authority.sign(&["other.test"]),
            "is not valid for this host name",
            "*TLS: *not valid for*other.test*",
        ),
        ("expired", authority.sign_with(&["127.0.0.1"], past), "expired on 2020-02-29", "*TLS: *expired*"),
        (
            "unknown",
            Authority::new().sign(&["127.0.0.1"]),
            "is signed by an unknown authority",
            "*TLS: *UnknownIssuer*",
        ),
    ];
    for (name, identity, told, logged) in cases {
        let server = Secure::new(identity.server(&[&TLS12, &TLS13]));
        let scene = Scene::new(
            &format!("tls_{name}"),
            &format!("{{ url: 'https://{}', tls: {{ ca: {ca} }} }}", server.served.address),
        );
        let answer = get(scene.address(), "/item");
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains(told), "{answer}");
        assert!(!answer.contains("127.0.0.1") && !answer.contains("other.test"), "{answer}");
        scene.gateway.logged("*WARN*cannot connect: the upstream's certificate*").unwrap();
        scene.gateway.logged(logged).unwrap_or_else(|wrong| panic!("{wrong}: {}", scene.gateway.said()));
        assert_eq!(scene.metric("crocodile_pear_server_tls_failures_total", "shop"), 1);
    }
}

/// Answers `/held` only when it is told to.
async fn hold(stream: TlsStream<TcpStream>, answers: Arc<Notify>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = Asked::receive(&mut stream).await? {
        if asked.target == "/held" {
            answers.notified().await;
        }
        stream.write_all(&answer(200, "", &asked.target)).await?;
        stream.flush().await?;
    }
    Ok(())
}

/// The same over HTTP/2, one request at a time.
async fn hold_streams(stream: TlsStream<TcpStream>, answers: Arc<Notify>) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(1);
    converse(stream, builder, move |(request, mut respond)| {
        let answers = answers.clone();
        async move {
            if request.uri().path() == "/held" {
                answers.notified().await;
            }
            respond.send_response(Response::new(()), true)
        }
    })
    .await;
}

const OPENED: &str = "crocodile_pear_upstream_connections_opened_total";

/// A gateway with one core, and a relay to the server of its upstream.
fn behind_a_relay(name: &str, server: &Served, settings: &str) -> (Relay, Scene) {
    let relay = Relay::to(server.address);
    let timeout = "timeout: { connect: 60s, first_byte: 60s }";
    let upstream = format!("{{ url: 'https://{}', {timeout}, {settings} }}", relay.address);
    (relay, Scene::with(name, &format!("threads: 1\n{}", config(&upstream))))
}

/// Two calls at once. The first one is answered after the second one has opened a connection through a relay that is full.
fn two_calls(scene: &Scene, relay: &Relay, answers: &Notify) {
    let (address, came) = (scene.address(), relay.came());
    thread::scope(|scope| {
        let first = scope.spawn(|| get(address, "/held"));
        scene.until_at_least("http_server_active_requests", "", 1);
        scene.until_at_least(OPENED, "shop", 1);
        relay.set(Way::Full);
        let second = scope.spawn(|| get(address, "/item"));
        until("the second call opens a connection", || relay.came() > came.max(1));
        answers.notify_one();
        for answer in [first, second].map(|asked| asked.join().unwrap()) {
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    });
}

#[test]
fn a_call_whose_new_connection_gets_no_answer_takes_one_that_becomes_free() {
    let (authority, files) = (Authority::new(), Files::new("full"));
    let (ca, answers) = (files.write("ca.pem", authority.pem()), Arc::new(Notify::new()));
    let identity = || authority.sign(&["127.0.0.1"]).server(&[&TLS12, &TLS13]);
    let [one, other] = [(); 2].map(|()| answers.clone());
    let http1 = Served::secured(identity(), move |stream| hold(stream, one.clone()));
    let http2 = Served::secured(offering(identity(), &["h2"]), move |stream| hold_streams(stream, other.clone()));
    let cases = [(&http1, ""), (&http1, ", connections: { open: 2 }"), (&http2, "")];
    for (number, (server, connections)) in cases.into_iter().enumerate() {
        let settings = format!("tls: {{ ca: {ca} }}{connections}");
        let (relay, scene) = behind_a_relay(&format!("tls_full_{number}"), server, &settings);
        let address = scene.address();
        two_calls(&scene, &relay, &answers);
        assert_eq!(scene.metric(OPENED, "shop"), 1);
        // The second connection is used as soon as it is open.
        relay.set(Way::Open);
        scene.until_at_least(OPENED, "shop", 2);
        thread::scope(|scope| {
            let first = scope.spawn(|| get(address, "/held"));
            scene.until_at_least("http_server_active_requests", "", 1);
            assert_eq!(get(address, "/item").lines().next(), Some("HTTP/1.1 200 OK"));
            answers.notify_one();
            assert!(first.join().unwrap().starts_with("HTTP/1.1 200 "));
        });
        assert_eq!(scene.metric(OPENED, "shop"), 2);
    }
}

#[test]
fn few_connections_are_opened_that_no_call_waits_for() {
    let (authority, files) = (Authority::new(), Files::new("few"));
    let (ca, answers) = (files.write("ca.pem", authority.pem()), Arc::new(Notify::new()));
    let held = answers.clone();
    let identity = authority.sign(&["127.0.0.1"]).server(&[&TLS12, &TLS13]);
    let server = Served::secured(identity, move |stream| hold(stream, held.clone()));
    let (relay, scene) = behind_a_relay("tls_few", &server, &format!("tls: {{ ca: {ca} }}"));
    for _ in 0..12 {
        two_calls(&scene, &relay, &answers);
    }
    assert_eq!((relay.came(), scene.metric(OPENED, "shop")), (13, 1));
    // The others were closed.
    relay.set(Way::Open);
    scene.until_at_least(OPENED, "shop", 9);
    assert_eq!(get(scene.address(), "/item").lines().next(), Some("HTTP/1.1 200 OK"));
    assert_eq!(scene.metric(OPENED, "shop"), 9);
}

#[test]
fn a_client_certificate_is_shown_and_missed() {
    let (authority, files) = (Authority::new(), Files::new("client"));
    let (identity, own) = (authority.sign(&["127.0.0.1"]), authority.sign(&["gateway.test"]));
    let ca = files.write("ca.pem", authority.pem());
    let certificate = files.write("own.pem", own.certificate.pem());
    let key = files.write("own.key", own.key.serialize_pem());
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS12, &TLS13])
        .unwrap()
        .with_client_cert_verifier(authority.verifier())
        .with_single_cert(identity.chain(), identity.private())
        .unwrap();
    let server = Secure::new(config);
    let with = format!(
        "{{ url: 'https://{}', tls: {{ ca: {ca}, certificate: {certificate}, key: {key} }} }}",
        server.served.address
    );
    assert!(get(Scene::new("tls_shown", &with).address(), "/item").starts_with("HTTP/1.1 200 "));
    let without = format!("{{ url: 'https://{}', tls: {{ ca: {ca} }} }}", server.served.address);
    let answer = get(Scene::new("tls_missed", &without).address(), "/item");
    assert!(
        answer.starts_with("HTTP/1.1 502 ") && answer.contains("the upstream requires a client certificate"),
        "{answer}"
    );
}

#[test]
fn a_connection_that_is_closed_says_goodbye() {
    let (authority, files) = (Authority::new(), Files::new("goodbye"));
    let ca = files.write("ca.pem", authority.pem());
    for version in [&TLS12, &TLS13] {
        let server = Secure::new(authority.sign(&["127.0.0.1"]).server(&[version]));
        let upstream = format!("{{ url: 'https://{}', tls: {{ ca: {ca} }}, keep: 20ms }}", server.served.address);
        let scene = Scene::new(&format!("tls_goodbye_{version:?}").replace(['(', ')'], "_"), &upstream);
        assert!(get(scene.address(), "/item").starts_with("HTTP/1.1 200 "));
        crate::stage::until("a connection has ended", || !server.ends.lock().unwrap().is_empty());
        assert_eq!(*server.ends.lock().unwrap(), [true], "{version:?}");
    }
}

/// A resumed session shows no certificate: it must not outlive the one that was checked.
#[test]
fn no_session_is_resumed_after_the_end_of_its_certificate() {
    let (authority, files) = (Authority::new(), Files::new("sessions"));
    let ca = files.write("ca.pem", authority.pem());
    // In parallel, because each waits for the end of its certificate.
    in_parallel(2, vec![&TLS12, &TLS13], |version| {
        let soon = |params: &mut rcgen::CertificateParams| {
            params.not_after = (std::time::SystemTime::now() + std::time::Duration::from_secs(4)).into();
        };
        let config = authority.sign_with(&["127.0.0.1"], soon).server(&[version]);
        let resumed = Arc::new(AtomicUsize::new(0));
        let counted = resumed.clone();
        // Each connection has one request.
        let served = Served::secured(config, move |stream: TlsStream<TcpStream>| {
            if stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            async move {
                let mut stream = BufReader::new(stream);
                if let Ok(Some(_)) = Asked::receive(&mut stream).await {
                    stream.write_all(&answer(200, "connection: close\r\n", "ok")).await?;
                    stream.shutdown().await?;
                }
                std::io::Result::Ok(())
            }
        });
        let upstream = format!("{{ url: 'https://{}', tls: {{ ca: '{ca}' }} }}", served.address);
        let scene = Scene::new(&format!("tls_sessions_{version:?}").replace(['.', ' '], "_"), &upstream);
        assert!(get(scene.address(), "/a").starts_with("HTTP/1.1 200"));
        until("the certificate ends", || get(scene.address(), "/a").starts_with("HTTP/1.1 502"));
        scene.gateway.logged("*cannot connect*expired*").unwrap();
        assert!(resumed.load(Ordering::SeqCst) > 0, "{version:?}: no session was resumed before");
    });
}
