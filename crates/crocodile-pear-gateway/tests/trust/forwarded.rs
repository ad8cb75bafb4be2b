//! A proxy's client is never the proxy.

use super::stage::front::Scene;
use super::{ask, get, noting};

fn scene(clients: &str) -> Scene {
    let (shop, _) = noting();
    let config = format!(
        "clients: {{ trust: [127.0.0.0/8]{clients} }}\n\
         upstreams: {{ shop: 'http://${{SHOP}}' }}\n\
         endpoints:\n\
         \x20 GET /mine: {{ addresses: {{ allow: [127.0.0.0/8, 192.0.2.7] }}, pipeline: [request: shop /] }}\n\
         \x20 GET /others: {{ addresses: {{ deny: [192.0.2.9] }}, pipeline: [request: shop /] }}\n\
         \x20 GET /kept: {{ cache: 1h, purge: {{ from: [127.0.0.0/8] }}, pipeline: [request: shop /] }}\n\
         \x20 GET /few: {{ rate_limit: {{ rate: 1/1h, by: $client.address }}, pipeline: [request: shop /] }}\n\
         \x20 GET /who: {{ pipeline: [respond: {{ body: '$client.address' }}] }}\n"
    );
    Scene::new(&config, &shop)
}

/// The fields that a client may make its proxy hand on, so that nobody can read who asks.
const UNREADABLE: [&str; 16] = [
    "forwarded: x\r\nx-forwarded-for: 192.0.2.7\r\n",
    "forwarded:\r\nx-forwarded-for: 192.0.2.7\r\n",
    "forwarded: for=127.0.0.1\r\nx-forwarded-for: 192.0.2.9\r\n",
    "forwarded: for=\", for=192.0.2.7\r\n",
    "forwarded: for=127.0.0.1;for=192.0.2.9\r\n",
    "forwarded: for=_127.0.0.1\r\n",
    "x-forwarded-for: 192.0.2.7, x\r\n",
    "x-forwarded-for:\r\n",
    "x-forwarded-for: 127.0.0.1, unknown, 127.0.0.2\r\n",
    "x-forwarded-for: 127.0.0.1 192.0.2.9\r\n",
    "x-forwarded-for: 127.0.0.1:80:80\r\n",
    "x-forwarded-proto: https\r\n",
    "x-real-ip: 127.0.0.1\r\n",
    "x-real-ip: 192.0.2.9\r\nx-forwarded-for: 127.0.0.1\r\n",
    "via: 1.1 edge\r\n",
    "x-forwarded-port: 443\r\n",
];

#[test]
fn a_client_that_cannot_be_read_is_on_no_list() {
    let scene = scene("");
    for fields in UNREADABLE {
        assert_eq!(get(&scene, "/who", fields).text(), "\"unknown\"", "{fields}");
        assert_eq!(get(&scene, "/mine", fields).head.status, 403, "{fields}");
        assert_eq!(get(&scene, "/others", fields).head.status, 403, "{fields}");
        assert_eq!(ask(&scene, "PURGE /kept", fields).head.status, 403, "{fields}");
    }
    assert_eq!(get(&scene, "/mine", "x-forwarded-for: 192.0.2.7\r\n").head.status, 200);
    assert_eq!(get(&scene, "/mine", "forwarded: for=192.0.2.7\r\n").head.status, 200);
    assert_eq!(get(&scene, "/mine", "x-forwarded-for: 192.0.2.8\r\n").head.status, 403);
    // A trusted machine may ask for itself.
    assert_eq!(get(&scene, "/mine", "").head.status, 200);
    assert_eq!(ask(&scene, "PURGE /kept", "").head.status, 200);
}

#[test]
fn clients_that_cannot_be_read_are_counted_as_one() {
    let scene = scene("");
    let statuses = UNREADABLE.map(|fields| get(&scene, "/few", fields).head.status);
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(get(&scene, "/few", "x-forwarded-for: 192.0.2.7\r\n").head.status, 200);
}

#[test]
fn a_configuration_says_which_field_its_proxies_write() {
    let scene = scene(", field: x-forwarded-for");
    for (fields, wanted) in [
        ("x-forwarded-for: 192.0.2.7\r\n", "192.0.2.7"),
        ("forwarded: for=127.0.0.1\r\nx-forwarded-for: 192.0.2.7\r\n", "192.0.2.7"),
        ("forwarded: x\r\nx-forwarded-for: 192.0.2.7\r\n", "192.0.2.7"),
        ("forwarded: for=192.0.2.7\r\n", "unknown"),
        ("x-forwarded-for: x\r\n", "unknown"),
        // The client named it in `connection`, and its proxy dropped it.
        ("", "unknown"),
    ] {
        assert_eq!(get(&scene, "/who", fields).text(), format!("{wanted:?}"), "{fields}");
        let status = if wanted == "unknown" { 403 } else { 200 };
        assert_eq!(get(&scene, "/mine", fields).head.status, status, "{fields}");
    }
}
