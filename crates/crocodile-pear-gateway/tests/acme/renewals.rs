//! Certificates are renewed in time, and nobody notices.

use std::fs;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::acme::pebble::{Pebble, logged, logged_times};
use crate::stage::secure::{ENDPOINTS, Folder, connect, get, shown};
use crate::stage::{pause, until};

fn config(pebble: &Pebble, acme: &str) -> String {
    format!(
        "admin: 127.0.0.1:0
listen: {{ address: '127.0.0.1:{}', tls: {{ acme: {{ domains: shop.test, {acme} {} }} }} }}
{ENDPOINTS}",
        pebble.tls,
        pebble.acme()
    )
}

#[test]
fn no_connection_is_lost_while_certificates_are_renewed() {
    let folder = Folder::new("acme-renewed");
    // So short a life that there are some renewals while the test looks on.
    let settings = json!({"profiles": {"blink": {"description": "seconds", "validityPeriod": 8}}});
    let Some(pebble) = Pebble::start(&folder, settings) else { return };
    // A connection without a request is closed after ten seconds; three renewals may take longer.
    let scene = folder.start(&(config(&pebble, "profile: blink,") + "\nclients: { head: 5m }\n"));
    logged(&scene, &["a certificate was issued"]);
    let (client, address, over) = (pebble.client(), scene.gateway.address, AtomicBool::new(false));
    let mut kept = connect(address, &client, "shop.test", b"").unwrap();
    let first = shown(&kept).to_vec();
    let made = thread::scope(|scope| {
        let clients = scope.spawn(|| {
            let mut made = 0;
            while !over.load(Ordering::Relaxed) {
                let mut client = match connect(address, &client, "shop.test", b"") {
                    Ok(client) => client,
                    // A busy machine can need more seconds for a renewal than the certificate has.
                    Err(error) if error.to_string().contains("expired") => continue,
                    Err(error) => panic!("{error}"),
                };
                assert!(get(&mut client, "/who").unwrap().starts_with("HTTP/1.1 200 OK"));
                made += 1;
                // A connection every 20 ms is enough, and leaves the processor to other tests.
                pause(Duration::from_millis(20));
            }
            made
        });
        logged_times(&scene, &["a certificate was issued"], 3);
        over.store(true, Ordering::Relaxed);
        clients.join().unwrap()
    });
    assert!(made > 10, "{made}");
    kept.write_all(b"GET /who HTTP/1.1\r\nhost: shop.test\r\n\r\n").unwrap();
    let mut answer = [0; 15];
    kept.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    until("the new certificate is shown", || {
        connect(address, &client, "shop.test", b"").is_ok_and(|now| shown(&now) != first)
    });
    assert!(pebble.has_replaced(), "{}", pebble.log());
}

#[test]
fn the_authority_says_when_to_renew() {
    let folder = Folder::new("acme-window");
    let Some(pebble) = Pebble::start(&folder, json!({})) else { return };
    let scene = folder.start(&config(&pebble, ""));
    logged(&scene, &["a certificate was issued"]);
    let client = pebble.client();
    let shown_now = |scene: &crate::stage::secure::Scene| {
        shown(&connect(scene.gateway.address, &client, "shop.test", b"").unwrap()).to_vec()
    };
    let first = shown_now(&scene);
    // An incident: all certificates must be replaced.
    let kept = fs::read_dir(folder.path("kept")).unwrap().next().unwrap().unwrap().path().join("shop.test.pem");
    let pem = fs::read_to_string(kept).unwrap();
    let window = json!({"start": "2024-01-01T00:00:00Z", "end": "2024-01-02T00:00:00Z"});
    let explained = json!({"suggestedWindow": window, "explanationURL": "https://authority.test/incident"});
    pebble.advise(&pem[pem.find("-----BEGIN CERTIFICATE").unwrap()..], &explained);
    drop(scene);
    // It is asked at the start, and whenever it wants to be asked.
    let scene = folder.start(&config(&pebble, ""));
    logged(&scene, &["the CA asks for a renewal", "https://authority.test/incident"]);
    logged(&scene, &["a certificate was issued"]);
    assert_ne!(shown_now(&scene), first);
    assert!(pebble.has_replaced(), "{}", pebble.log());
}
