//! Certificates are replaced while the gateway serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::stage::PATIENCE;
use crate::stage::authority::Authority;
use crate::stage::pause;
use crate::stage::secure::{ALL_VERSIONS, ENDPOINTS, Folder, connect, dial, get, shown, trusting};

const LISTEN: &str = "admin: 127.0.0.1:0
listen: { address: '127.0.0.1:0', tls: { certificate: own.pem, key: own.key } }
";

#[test]
fn a_changed_file_is_used_and_a_broken_one_is_not() {
    let authority = Authority::new();
    let folder = Folder::new("swap");
    let (old, new) = (authority.sign(&["gateway.test"]), authority.sign(&["gateway.test", "new.test"]));
    folder.identity("own", &old);
    let scene = folder.start(&[LISTEN, ENDPOINTS].concat());
    let client = Arc::new(trusting(&authority, ALL_VERSIONS));
    let connect = || connect(scene.gateway.address, &client, "gateway.test", b"").unwrap();
    let mut kept = connect();
    assert_eq!(shown(&kept), old.certificate.der().as_ref());

    folder.write("own.pem", "no certificate");
    scene.gateway.logged("*ERROR*cannot use the new certificates; keeping the old ones*").unwrap();
    scene.gateway.logged("*ERROR*own.pem`: there is no certificate in this file*").unwrap();
    assert_eq!(shown(&connect()), old.certificate.der().as_ref());

    // The certificate without its key.
    folder.write("own.pem", new.certificate.pem());
    scene.gateway.logged("*ERROR*own.key`: the key is not that of the certificate*").unwrap();
    assert_eq!(shown(&connect()), old.certificate.der().as_ref());

    folder.write("own.key", new.key.serialize_pem());
    scene.gateway.logged("*INFO*new certificates are used from now on*").unwrap();
    assert_eq!(shown(&connect()), new.certificate.der().as_ref());
    // Connections that were there are served on.
    assert!(get(&mut kept, "/who").unwrap().starts_with("HTTP/1.1 200 OK"));
    assert!(!scene.gateway.said().contains("PRIVATE KEY"));
}

#[test]
fn a_reload_reads_certificates_at_once() {
    let authority = Authority::new();
    let folder = Folder::new("hangup");
    let new = authority.sign(&["gateway.test"]);
    folder.identity("own", &authority.sign(&["gateway.test"]));
    folder.identity("other", &new);
    let scene = folder.start(&[LISTEN, ENDPOINTS].concat());
    folder.write("gateway.yaml", [&LISTEN.replace("own.", "other."), ENDPOINTS].concat());
    scene.gateway.signal("HUP").unwrap();
    scene.gateway.logged("*configuration reloaded*").unwrap();
    let client = Arc::new(trusting(&authority, ALL_VERSIONS));
    let client = connect(scene.gateway.address, &client, "gateway.test", b"").unwrap();
    assert_eq!(shown(&client), new.certificate.der().as_ref());
}

#[test]
fn metrics_tell_expiry_and_handshakes() {
    let authority = Authority::new();
    let folder = Folder::new("metrics");
    let soon = authority.sign_with(&["gateway.test"], |params| params.not_after = rcgen::date_time_ymd(2037, 1, 1));
    folder.identity("own", &soon);
    let scene = folder.start(&[LISTEN, ENDPOINTS].concat());
    let client = Arc::new(trusting(&authority, ALL_VERSIONS));
    let address = scene.gateway.address;
    drop(connect(address, &client, "gateway.test", b"").unwrap());
    let nobody = Arc::new(trusting(&Authority::new(), ALL_VERSIONS));
    assert!(connect(address, &nobody, "gateway.test", b"").is_err());
    let mut plain = dial(address);
    let _ = get(&mut plain, "/who");
    let wanted = [
        format!("crocodile_pear_tls_handshakes_total{{listener=\"{address}\",kind=\"full\"}} 1"),
        format!("crocodile_pear_tls_handshakes_failed_total{{listener=\"{address}\",reason=\"not-tls\"}} 1"),
        format!("crocodile_pear_tls_handshakes_failed_total{{listener=\"{address}\",reason=\"refused-by-client\"}} 1"),
        format!(
            "crocodile_pear_tls_certificate_expiry_timestamp_seconds{{listener=\"{address}\",name=\"gateway.test\"}} 2114380800"
        ),
    ];
    scene.until_metrics(&wanted);
}

/// `HANDSHAKES=10000 cargo test --release --test gateway handshakes` makes as many.
#[test]
fn no_handshake_fails_while_certificates_are_swapped() {
    let handshakes = std::env::var("HANDSHAKES").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let authority = Authority::new();
    let folder = Folder::new("load");
    let identities = [authority.sign(&["gateway.test"]), authority.sign(&["gateway.test"])];
    folder.identity("own", &identities[0]);
    let scene = folder.start(&[LISTEN, ENDPOINTS].concat());
    let (made, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let address = scene.gateway.address;
    thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            let mut swaps = 0;
            let end = Instant::now() + PATIENCE;
            while !over.load(Ordering::Relaxed) || (swaps < 2 && Instant::now() < end) {
                swaps += 1;
                folder.identity("own", &identities[swaps % 2]);
                scene.gateway.signal("HUP").unwrap();
                pause(Duration::from_millis(50));
            }
            swaps
        });
        let clients: Vec<_> = (0..4)
            .map(|at| {
                let version = ALL_VERSIONS[at % ALL_VERSIONS.len()];
                let (authority, made) = (&authority, &made);
                scope.spawn(move || {
                    while made.fetch_add(1, Ordering::Relaxed) < handshakes {
                        // Without a session of before: every handshake is a full one.
                        let client = Arc::new(trusting(authority, &[version]));
                        let mut client = connect(address, &client, "gateway.test", b"").unwrap();
                        assert!(get(&mut client, "/who").unwrap().starts_with("HTTP/1.1 200 OK"));
                    }
                })
            })
            .collect();
        let made: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        assert!(swaps.join().unwrap() >= 2);
        assert!(made.iter().all(Result::is_ok));
    });
}
