//! Certificates are ordered, kept and used.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use crate::acme::pebble::{EAB, Pebble, logged};
use crate::stage::authority::Authority;
use crate::stage::secure::{ALL_VERSIONS, ENDPOINTS, Folder, connect, dial, get, shown, trusting};

/// A listener with TLS, one that redirects, and operators.
fn redirecting(pebble: &Pebble, acme: &str) -> String {
    let (http, tls) = (pebble.http, pebble.tls);
    format!(
        "admin: 127.0.0.1:0
log: {{ level: debug }}
listen:
  - {{ address: '127.0.0.1:{tls}', tls: {{ acme: {{ {acme}, {} }} }} }}
  - {{ address: '127.0.0.1:{http}', redirect: https }}
{ENDPOINTS}",
        pebble.acme()
    )
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => found.extend(files(&entry)),
            false => found.push(entry),
        }
    }
    found
}

#[test]
fn one_line_is_a_certificate_which_is_kept() {
    let folder = Folder::new("acme-one-line");
    let Some(pebble) = Pebble::start(&folder, json!({})) else { return };
    let config = redirecting(&pebble, "domains: [shop.test, api.shop.test], email: ops@shop.test, challenge: http-01");
    let scene = folder.start(&config);
    for name in ["shop.test", "api.shop.test"] {
        let line = logged(&scene, &["INFO", "a certificate was issued", &format!("name=\"{name}\"")]);
        assert!(line.contains("challenge=\"http-01\"") && line.contains("expires=\"20"), "{line}");
    }
    let client = pebble.client();
    let address = ([127, 0, 0, 1], pebble.tls).into();
    let connect = |name| connect(address, &client, name, b"").unwrap();
    assert!(get(&mut connect("api.shop.test"), "/who").unwrap().ends_with("{\"scheme\":\"HTTP/1.1\"}"));
    let first = shown(&connect("shop.test")).to_vec();
    scene.until_metrics(&[
        "crocodile_pear_acme_orders_total{name=\"shop.test\",result=\"issued\"} 1".to_owned(),
        "crocodile_pear_acme_orders_total{name=\"api.shop.test\",result=\"failed\"} 0".to_owned(),
    ]);
    // Answers that nobody waits for are gone, and what is not one is redirected.
    let elsewhere = get(&mut dial(([127, 0, 0, 1], pebble.http).into()), "/.well-known/acme-challenge/abc").unwrap();
    assert!(elsewhere.starts_with("HTTP/1.1 308"), "{elsewhere}");

    let kept = folder.path("kept");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o700);
    let kept = files(&kept);
    assert!(kept.iter().any(|path| path.ends_with("shop.test.pem")), "{kept:?}");
    for path in &kept {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
    }
    let account = kept.iter().find(|path| path.ends_with("account.json")).unwrap();
    let account: serde_json::Value = serde_json::from_slice(&fs::read(account).unwrap()).unwrap();
    let key = account["credentials"]["key_pkcs8"].as_str().unwrap();
    assert!(!scene.gateway.said().contains(key) && !scene.gateway.said().contains("PRIVATE KEY"));

    // Once more: what is kept is used at once, and nothing is ordered.
    drop(scene);
    let scene = folder.start(&config);
    assert_eq!(shown(&connect("shop.test")), first);
    scene.gateway.signal("HUP").unwrap();
    logged(&scene, &["configuration reloaded"]);
    assert_eq!(shown(&connect("shop.test")), first);
    let wanted = "crocodile_pear_acme_orders_total{name=\"shop.test\",result=\"issued\"} 0";
    scene.until_metrics(&[wanted.to_owned()]);
    assert_eq!(pebble.log().matches("Issued certificate").count(), 2, "{}", pebble.log());
}

#[test]
fn a_listener_that_asks_clients_for_certificates_proves_its_name_in_a_handshake() {
    let folder = Folder::new("acme-alpn");
    let Some(pebble) = Pebble::start(&folder, json!({})) else { return };
    let (clients, files) = (Authority::new(), Authority::new());
    folder.write("clients.pem", clients.pem());
    folder.identity("own", &files.sign(&["files.test"]));
    let config = format!(
        "listen:
  address: '127.0.0.1:{}'
  tls:
    certificates: [{{ certificate: own.pem, key: own.key }}]
    client_ca: clients.pem
    acme: {{ domains: shop.test, {} }}
{ENDPOINTS}",
        pebble.tls,
        pebble.acme()
    );
    let scene = folder.start(&config);
    logged(&scene, &["a certificate was issued", "challenge=\"tls-alpn-01\""]);
    // Beside the certificate of a file, and clients still need theirs.
    let address = ([127, 0, 0, 1], pebble.tls).into();
    let client = Arc::new(trusting(&files, ALL_VERSIONS));
    assert!(get(&mut connect(address, &client, "files.test", b"").unwrap(), "/who").is_err());
    let client = pebble.client();
    assert_eq!(shown(&connect(address, &client, "shop.test", b"").unwrap()), certificate(&folder));
    // Nobody waits for a proof now.
    let mut curious = (*client).clone();
    curious.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    assert!(connect(address, &Arc::new(curious), "shop.test", b"").is_err());
}

fn certificate(folder: &Folder) -> Vec<u8> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let kept = files(&folder.path("kept")).into_iter().find(|path| path.ends_with("shop.test.pem")).unwrap();
    CertificateDer::from_pem_file(kept).unwrap().to_vec()
}

#[test]
fn an_account_is_bound_to_an_external_one() {
    let folder = Folder::new("acme-eab");
    let settings = json!({"externalAccountBindingRequired": true, "externalAccountMACKeys": {"kid-1": EAB}});
    let Some(pebble) = Pebble::start(&folder, settings) else { return };
    let scene = folder.start(&redirecting(&pebble, "domains: shop.test"));
    let line = logged(&scene, &["ERROR", "no certificate was issued", "shop.test"]);
    assert!(line.contains("(externalAccountRequired)") && line.contains("next="), "{line}");
    drop(scene);
    let scene =
        folder.start(&redirecting(&pebble, &format!("domains: shop.test, eab: {{ key_id: kid-1, secret: {EAB} }}")));
    logged(&scene, &["a certificate was issued"]);
    assert!(!scene.gateway.said().contains(EAB));
    for file in files(&folder.path("kept")) {
        assert!(!fs::read_to_string(file).unwrap().contains(EAB));
    }
}

#[test]
fn two_gateways_with_one_folder_order_once_and_prove_for_each_other() {
    let folder = Folder::new("acme-two");
    let Some(mut pebble) = Pebble::install(&folder, json!({})) else { return };
    let config = |http: u16| {
        format!(
            "listen:
  - {{ address: '127.0.0.1:0', tls: {{ acme: {{ domains: shop.test, challenge: http-01, {} }} }} }}
  - '127.0.0.1:{http}'
{ENDPOINTS}",
            pebble.acme()
        )
    };
    // The authority finds only the second one; the first has its answers in the folder.
    let alone = folder.start(&config(0));
    let scene = {
        folder.write("second.yaml", config(pebble.http));
        let gateway = crate::stage::gateway::Gateway::run(folder.path("second.yaml"));
        crate::stage::secure::Scene { gateway }
    };
    // Both want the certificate at once when the authority is there.
    for scene in [&alone, &scene] {
        logged(scene, &["the authority cannot be called"]);
    }
    pebble.run();
    let client = pebble.client();
    let shown = |scene: &crate::stage::secure::Scene| {
        connect(scene.gateway.address, &client, "shop.test", b"").ok().map(|client| shown(&client).to_vec())
    };
    let both = crate::stage::within(crate::acme::pebble::LONG, || {
        shown(&alone).filter(|one| shown(&scene).as_ref() == Some(one))
    });
    assert!(both.is_some(), "{}\n{}", alone.gateway.said(), scene.gateway.said());
    assert_eq!(pebble.log().matches("Issued certificate").count(), 1, "{}", pebble.log());
}
