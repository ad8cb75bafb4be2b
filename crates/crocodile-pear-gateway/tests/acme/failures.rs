//! Failures of an authority are reported, and do not stop the gateway.

use std::sync::Arc;

use serde_json::json;

use crate::acme::pebble::{Pebble, logged};
use crate::stage::authority::Authority;
use crate::stage::secure::{ALL_VERSIONS, ENDPOINTS, Folder, connect, get, trusting};

#[test]
fn the_gateway_serves_while_the_authority_is_away() {
    let folder = Folder::new("acme-away");
    let Some(mut pebble) = Pebble::install(&folder, json!({})) else { return };
    let own = Authority::new();
    folder.identity("own", &own.sign(&["files.test"]));
    let config = format!(
        "admin: 127.0.0.1:0
listen:
  - {{ address: '127.0.0.1:0', tls: {{ acme: {{ domains: shop.test, {acme} }} }} }}
  - {{ address: '127.0.0.1:{}', tls: {{ certificate: own.pem, key: own.key, acme: {{ domains: shop.test, {acme} }} }} }}
{ENDPOINTS}",
        pebble.tls,
        acme = pebble.acme(),
    );
    let scene = folder.start(&config);
    let addresses = scene.addresses(2);
    let line = logged(&scene, &["ERROR", "no certificate was issued", "name=\"shop.test\""]);
    assert!(line.contains("the authority cannot be called") && line.contains("next=\"5 s\""), "{line}");
    // Who asks for another name is served; who asks for this one is refused where there is no certificate at all.
    let client = Arc::new(trusting(&own, ALL_VERSIONS));
    assert!(get(&mut connect(addresses[1], &client, "files.test", b"").unwrap(), "/who").unwrap().contains("200 OK"));
    assert!(connect(addresses[0], &client, "shop.test", b"").is_err());
    scene.until_metrics(&[
        "crocodile_pear_acme_renewal_timestamp_seconds{name=\"shop.test\"} 0".to_owned(),
        format!(
            "crocodile_pear_tls_handshakes_failed_total{{listener=\"{}\",reason=\"no-certificate\"}} 1",
            addresses[0]
        ),
    ]);

    pebble.run();
    logged(&scene, &["INFO", "a certificate was issued", "challenge=\"tls-alpn-01\""]);
    let client = pebble.client();
    for address in addresses {
        drop(connect(address, &client, "shop.test", b"").unwrap());
    }
}

#[test]
fn a_refusal_is_told_in_the_words_of_the_authority() {
    let folder = Folder::new("acme-refused");
    let settings = json!({"domainBlocklist": ["blocked.test"]});
    let Some(pebble) = Pebble::start(&folder, settings) else { return };
    let config = format!(
        "admin: 127.0.0.1:0
listen:
  - {{ address: '127.0.0.1:{}', tls: {{ acme: {{ domains: [shop.nowhere.test, blocked.test, good.test], {} }} }} }}
  - 127.0.0.1:{}
{ENDPOINTS}",
        pebble.tls,
        pebble.acme(),
        pebble.http
    );
    let scene = folder.start(&config);
    // One that fails holds no other one.
    logged(&scene, &["a certificate was issued", "good.test"]);
    let line = logged(&scene, &["ERROR", "no certificate was issued", "shop.nowhere.test"]);
    assert!(line.contains("challenge=\"http-01\"") && line.contains("could not resolve"), "{line}");
    let line = logged(&scene, &["ERROR", "no certificate was issued", "blocked.test"]);
    assert!(line.contains("(rejectedIdentifier)") && line.contains("next=\"1"), "{line}");
    scene.until_metrics(&[
        "crocodile_pear_acme_orders_total{name=\"blocked.test\",result=\"failed\"} 1".to_owned(),
        "crocodile_pear_acme_orders_total{name=\"good.test\",result=\"issued\"} 1".to_owned(),
    ]);
}

#[test]
fn nothing_is_ordered_that_could_not_be_kept() {
    let folder = Folder::new("acme-unwritable");
    let Some(pebble) = Pebble::start(&folder, json!({})) else { return };
    // A file where the folder should be: also root cannot write there.
    folder.write("kept", "");
    let config = format!(
        "listen: {{ address: '127.0.0.1:{}', tls: {{ acme: {{ domains: shop.test, {} }} }} }}\n{ENDPOINTS}",
        pebble.tls,
        pebble.acme()
    );
    let scene = folder.start(&config);
    let line = logged(&scene, &["ERROR", "no certificate was issued"]);
    assert!(line.contains("cannot write to") && line.contains("nothing is ordered"), "{line}");
    assert!(!pebble.log().contains("There are now"), "{}", pebble.log());
}

#[test]
fn an_authority_that_has_forgotten_the_account_gets_a_new_one() {
    let folder = Folder::new("acme-forgotten");
    let Some(mut pebble) = Pebble::start(&folder, json!({})) else { return };
    let config = |names: &str| {
        format!(
            "listen: {{ address: '127.0.0.1:{}', tls: {{ acme: {{ domains: [{names}], {} }} }} }}\n{ENDPOINTS}",
            pebble.tls,
            pebble.acme()
        )
    };
    let (first, second) = (config("shop.test"), config("shop.test, new.test"));
    let scene = folder.start(&first);
    logged(&scene, &["a certificate was issued", "shop.test"]);
    pebble.stop();
    pebble.run();
    // A reload orders what is new.
    folder.write("gateway.yaml", second);
    scene.gateway.signal("HUP").unwrap();
    logged(&scene, &["the authority does not know the account any more"]);
    logged(&scene, &["a certificate was issued", "new.test"]);
    drop(connect(scene.gateway.address, &pebble.client(), "new.test", b"").unwrap());
}
