//! Nobody gets a limit of his own for each request.

use super::stage::front::Scene;
use super::{get, noting};

fn scene(clients: &str) -> Scene {
    let (shop, _) = noting();
    let few = |name: &str, by: &str| {
        format!("  GET /{name}: {{ rate_limit: {{ rate: 1/1h, by: '{by}' }}, pipeline: [request: shop /] }}\n")
    };
    let config = [
        format!(
            "clients: {{ trust: [127.0.0.0/8]{clients} }}\nupstreams: {{ shop: 'http://${{SHOP}}' }}\nendpoints:\n"
        ),
        few("address", "$client.address"),
        few("text", "\"of \\($client.address)\""),
        few("object", "[$client.address, $client.protocol]"),
        few("key", "$headers[\"x-key\"]"),
        few("made", "\"\\($headers[\"x-key\"])\""),
        few("query", "$query.key"),
        few("whole", "$headers | [.[\"x-key\"], .host]"),
    ];
    Scene::new(&config.concat(), &shop)
}

/// How many of these requests got through.
fn passed(scene: &Scene, requests: impl IntoIterator<Item = (String, String)>) -> usize {
    let status = |(target, fields): (String, String)| get(scene, &target, &fields).head.status;
    let statuses: Vec<u16> = requests.into_iter().map(status).collect();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
    statuses.iter().filter(|status| **status == 200).count()
}

fn from(address: &str) -> String {
    format!("x-forwarded-for: {address}\r\n")
}

#[test]
fn an_ipv6_client_is_its_network() {
    let scene = scene("");
    for target in ["/address", "/text", "/object"] {
        let within = (1..6).map(|at| (target.to_owned(), from(&format!("2001:db8::{at}:{at}"))));
        assert_eq!(passed(&scene, within), 1, "{target}");
        let others = (1..4).map(|at| (target.to_owned(), from(&format!("2001:db8:0:{at}::1"))));
        assert_eq!(passed(&scene, others), 3, "{target}");
        let old = (1..4).map(|at| (target.to_owned(), from(&format!("192.0.2.{at}"))));
        assert_eq!(passed(&scene, old), 3, "{target}");
        let mapped = [(target.to_owned(), from("::ffff:192.0.2.1"))];
        assert_eq!(passed(&scene, mapped), 0, "{target}");
    }
}

#[test]
fn the_network_of_a_client_is_as_large_as_configured() {
    let scene = scene(", ipv6_prefix: 48");
    let within = (1..6).map(|at| ("/address".to_owned(), from(&format!("2001:db8:0:{at}::1"))));
    assert_eq!(passed(&scene, within), 1);
}

#[test]
fn a_field_that_is_repeated_is_one_key() {
    let scene = scene("");
    for target in ["/key", "/made", "/whole"] {
        let twice = (0..6).map(|at| (target.to_owned(), format!("x-key: k\r\nx-key: {at}\r\n")));
        assert_eq!(passed(&scene, twice), 1, "{target}");
        let many = (2..8).map(|count| (target.to_owned(), "x-key: k\r\n".repeat(count)));
        assert_eq!(passed(&scene, many), 0, "{target}");
        let once = (0..3).map(|at| (target.to_owned(), format!("x-key: {at}\r\n")));
        assert_eq!(passed(&scene, once), 3, "{target}");
    }
    let twice = (0..6).map(|at| (format!("/query?key=k&key={at}"), String::new()));
    assert_eq!(passed(&scene, twice), 1);
}
