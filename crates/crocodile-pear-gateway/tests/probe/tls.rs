//! Versions of TLS, certificates and sessions.

use rcgen::date_time_ymd;
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};

use crate::probe::run::{ca, files, http, https, json, probe};
use crate::probe::server::{Habits, acceptor, http1, linger, listen, speak1, tls};
use crate::stage::authority::{Authority, provider};
use crate::stage::served::Served;

const BOTH: &[&rustls::SupportedProtocolVersion] = &[&TLS12, &TLS13];

#[test]
fn every_version_of_http_and_tls_is_found_and_measured() {
    let authority = Authority::new();
    let port = tls(&authority.sign(&["localhost"]), BOTH, &["h2", "http/1.1"], Habits::default());
    let file = ca("every", &authority);
    let found = json(&https(port), &["--ca", &file]);
    assert_eq!((&found["http_versions"], &found["tls_versions"]), (&json!(["1.1", "2"]), &json!(["1.2", "1.3"])));
    assert_eq!(
        (&found["certificate"]["verified"], &found["certificate"]["names"]),
        (&json!(true), &json!(["localhost"]))
    );
    let times = found["times"].as_array().unwrap();
    assert_eq!(times.len(), 8, "{found:#}");
    for row in times {
        let cold = row["connection"] == "cold";
        assert!(row["calls"] == 5 && row["failed"] == 0 && row["handshake"]["p50_ms"].is_f64() == cold, "{found:#}");
    }
    for session in found["sessions"].as_array().unwrap() {
        assert!(session["resumed"] == true && session["resumed_p50_ms"].is_f64(), "{found:#}");
    }
    let text = probe(&https(port), &["--ca", &file]).good();
    for told in ["HTTP/1.1, HTTP/2\n", "TLS          1.2, 1.3\n", "verified: for localhost, by", "HTTP/2 TLS 1.3 kept "]
    {
        assert!(text.contains(told), "no `{told}` in\n{text}");
    }
}

#[test]
fn a_server_may_know_one_version_of_each() {
    for (versions, alpn, http_is, tls_is) in [
        (&[&TLS12][..], &["http/1.1"][..], "1.1", "1.2"),
        (&[&TLS13], &["h2"], "2", "1.3"),
        (&[&TLS13], &[], "1.1", "1.3"),
    ] {
        let authority = Authority::new();
        let port = tls(&authority.sign(&["localhost"]), versions, alpn, Habits::default());
        let found = json(&https(port), &["--ca", &ca(&format!("one{http_is}{tls_is}"), &authority)]);
        assert_eq!((&found["http_versions"], &found["tls_versions"]), (&json!([http_is]), &json!([tls_is])));
        assert_eq!(found["times"].as_array().map(Vec::len), Some(2));
    }
}

#[test]
fn a_server_may_resume_no_sessions() {
    let authority = Authority::new();
    let mut config = authority.sign(&["localhost"]).server(BOTH);
    config.session_storage = std::sync::Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let port = Served::secured(config, |stream| speak1(stream, Habits::default())).stay().port();
    let found = json(&https(port), &["--ca", &ca("sessions", &authority)]);
    let resumed: Vec<_> = found["sessions"].as_array().unwrap().iter().map(|session| &session["resumed"]).collect();
    assert_eq!(resumed, [&json!(false), &json!(false)]);
}

#[test]
fn a_certificate_that_is_not_trusted_is_told_with_its_reason() {
    let authority = Authority::new();
    let identity = authority.sign(&["localhost"]);
    let expired = authority.sign_with(&["localhost"], |params| params.not_after = date_time_ymd(2020, 2, 29));
    let (foreign, file) = (authority.sign(&["other.test", "10.0.0.1"]), ca("distrust", &authority));
    let trusted = ["--ca", file.as_str()];
    for (identity, more, why, which) in [
        (&identity, &[][..], "is signed by an unknown authority", "it is for localhost, by authority"),
        (&expired, &trusted, "expired on 2020-02-29", "to 2020-02-29"),
        (&foreign, &trusted, "is not valid for this host name", "it is for other.test, 10.0.0.1, by"),
    ] {
        let port = tls(identity, BOTH, &["h2", "http/1.1"], Habits::default());
        let told = probe(&https(port), more);
        let first = format!("error: the upstream's certificate {why}\n");
        assert!(told.code == Some(1) && told.err.starts_with(&first) && told.err.contains(which), "{}", told.err);
        assert!(
            told.out.is_empty() && told.err.lines().count() <= 4 && told.err.contains("--insecure"),
            "{}",
            told.err
        );
        let text = probe(&https(port), &["--insecure"]).good();
        assert!(text.contains("NOT verified") && text.contains("HTTP/2 TLS 1.3 kept"), "{text}");
        let found = json(&https(port), &["--insecure"]);
        assert_eq!(found["certificate"]["verified"], false, "{found:#}");
        assert!(found["certificate"]["fault"].is_string());
    }
}

#[test]
fn a_server_may_ask_for_a_certificate() {
    let authority = Authority::new();
    let server = authority.sign(&["localhost"]);
    for versions in [BOTH, &[&TLS12], &[&TLS13]] {
        let config = rustls::ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions).unwrap();
        let config = config.with_client_cert_verifier(authority.verifier());
        let acceptor = acceptor(config.with_single_cert(server.chain(), server.private()).unwrap());
        let port = listen(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                match acceptor.accept(stream).into_fallible().await {
                    Ok(stream) => speak1(stream, Habits::default()).await,
                    Err((_, stream)) => linger(stream).await,
                }
            }
        });
        let file = ca("asks", &authority);
        assert!(is_told(|| probe(&https(port), &["--ca", &file]).err), "{versions:?}");
        let (certificate, key) = files(
            "client",
            &authority.sign_with(&["client"], |params| {
                params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            }),
        );
        let told = probe(&https(port), &["--ca", &file, "--certificate", &certificate, "--key", &key]).good();
        assert!(told.contains("certificate: '") && told.contains("key: '"), "{told}");
        let told = probe(&https(port), &["--ca", &file, "--certificate", &certificate, "--key", &file]);
        assert!(told.code == Some(2) && told.err.contains("there is no key in this file"), "{}", told.err);
    }
}

#[test]
fn a_failed_probe_is_json_of_the_same_shape() {
    let authority = Authority::new();
    let port = tls(&authority.sign(&["localhost"]), BOTH, &["h2"], Habits::default());
    let (bad, good) = (json(&https(port), &[]), json(&https(port), &["--ca", &ca("shape", &authority)]));
    let names = |found: &Value| found.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&bad), names(&good));
    assert_eq!((&bad["times"], &bad["certificate"]["verified"]), (&json!([]), &json!(false)));
}

#[test]
fn the_wrong_scheme_is_told_with_the_right_one() {
    let authority = Authority::new();
    let port = tls(&authority.sign(&["localhost"]), BOTH, &["h2", "http/1.1"], Habits::default());
    let told = probe(&http(port), &[]);
    assert_eq!(told.code, Some(1));
    let wanted = "error: the upstream speaks TLS at this port, and the URL says http\n  write https://127.0.0.1:";
    assert!(told.err.starts_with(wanted), "{}", told.err);
    let port = http1(Habits::default());
    let told = probe(&https(port), &["--timeout", "3s"]);
    let wanted =
        "error: the upstream speaks plain HTTP at this port, and the URL says https\n  write http://localhost:";
    assert!(told.code == Some(1) && told.err.starts_with(wanted), "{}", told.err);
}

/// Whether it is told that a certificate is wanted. In TLS 1.3 a server objects when the client believes all is well, and the
/// end of the connection may outrun the objection: then it is asked again.
fn is_told(probe: impl Fn() -> String) -> bool {
    let outrun = "error: the upstream closed the connection before it answered\n";
    let told = (0..20).map(|_| probe()).find(|told| told != outrun);
    told.is_some_and(|told| told == "error: the upstream requires a client certificate\n")
}
