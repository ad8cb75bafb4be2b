//! Pages of other sites: browsers send cookies with an upgrade from any page.

use crate::upgrade::scene::{SWITCH, Scene};

fn scene(cors: &str) -> Scene {
    Scene::with(|upstream| {
        format!(
            "listen: 127.0.0.1:0\nthreads: 1\nclients: {{ trust: [127.0.0.0/8] }}\n{cors}\n\
             upstreams: {{ chat: 'http://{upstream}' }}\n\
             endpoints:\n\
             \x20 GET /chat: {{ upgrade: websocket, pipeline: [request: chat /] }}\n\
             \x20 GET /plain: chat /\n"
        )
    })
}

fn ask(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: shop.test\r\nconnection: Upgrade\r\nupgrade: websocket\r\n{fields}\r\n")
}

/// The request that the upstream receives.
fn agree(scene: &Scene, fields: &str) -> String {
    let mut client = scene.connect();
    client.send(ask("/chat", fields));
    let mut upstream = scene.accept();
    let asked = upstream.head();
    upstream.send(SWITCH);
    assert!(client.head().starts_with("HTTP/1.1 101 Switching Protocols\n"), "{fields}");
    asked
}

const OWN: [&str; 7] = [
    "",
    "origin: https://pages.test\r\n",
    "origin: https://a.pages.example\r\n",
    // Pages of the gateway's own host.
    "origin: http://shop.test\r\n",
    "origin: https://shop.test\r\n",
    "origin: https://shop.test\r\nx-forwarded-for: 192.0.2.1\r\nx-forwarded-proto: https\r\n",
    "origin: https://public.test\r\nx-forwarded-for: 192.0.2.1\r\nx-forwarded-host: public.test\r\n",
];

const FOREIGN: [&str; 13] = [
    "origin: https://evil.test\r\n",
    "origin: null\r\n",
    "origin:\r\n",
    "origin: https://pages.test.evil.test\r\n",
    "origin: https://pages.test:8443\r\n",
    "origin: http://pages.test\r\n",
    "origin: https://evil.test/https://pages.test\r\n",
    "origin: https://xpages.example\r\n",
    "origin: ftp://shop.test\r\n",
    "origin: https://shop.test.evil.test\r\n",
    "origin: https://evil.test\r\norigin: https://pages.test\r\n",
    "origin: https://pages.test\r\norigin: https://evil.test\r\n",
    // A page that came without TLS is not the one that came with it.
    "origin: http://shop.test\r\nx-forwarded-for: 192.0.2.1\r\nx-forwarded-proto: https\r\n",
];

#[test]
fn an_upgrade_from_a_page_of_another_site_is_refused() {
    let scene = scene("cors: { origins: [https://pages.test, 'https://*.pages.example'], credentials: true }");
    for fields in FOREIGN {
        let mut client = scene.connect();
        client.send(ask("/chat", fields));
        assert!(client.head().starts_with("HTTP/1.1 403 Forbidden\n"), "{fields}");
    }
    for fields in OWN {
        let asked = agree(&scene, fields);
        assert_eq!(asked.contains("\norigin: "), !fields.is_empty(), "{asked}");
    }
}

#[test]
fn without_cors_the_upstream_learns_the_page() {
    let scene = scene("");
    for fields in ["origin: https://evil.test\r\n", "origin: null\r\n", "origin: http://shop.test\r\n"] {
        let asked = agree(&scene, fields);
        assert!(asked.contains(&format!("\n{}\n", fields.trim_end())), "{asked}");
    }
}

#[test]
fn other_requests_of_foreign_pages_are_left_to_browsers() {
    let scene = scene("cors: https://pages.test");
    let mut client = scene.connect();
    client.send(ask("/plain", "origin: https://evil.test\r\n"));
    let mut upstream = scene.accept();
    assert!(!upstream.head().contains("origin"));
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 200 OK\n") && !head.contains("access-control"), "{head}");
}
