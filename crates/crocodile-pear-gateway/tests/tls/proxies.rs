//! Proxies in front: what they say of their clients is believed if they are trusted.

use std::io::{Read, Write};
use std::sync::Arc;

use crate::stage::authority::Authority;
use crate::stage::secure::{ALL_VERSIONS, Folder, Scene, connect, dial, rest, trusting};

const ENDPOINTS: &str = "
upstreams: { echo: 'http://127.0.0.1:9' }
endpoints:
  GET /who: { pipeline: [{ respond: { body: '$client.address' } }] }
";

fn ask(scene: &Scene, before: &[u8], fields: &str) -> String {
    let mut client = dial(scene.gateway.address);
    client.write_all(before).unwrap();
    write!(client, "GET /who HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{fields}\r\n").unwrap();
    rest(&mut client)
}

#[test]
fn only_a_trusted_proxy_says_who_the_client_is() {
    let config = |trust| format!("listen: 127.0.0.1:0\nclients: {{ trust: [{trust}] }}{ENDPOINTS}");
    let trusting = Folder::new("trusted").start(&config("127.0.0.0/8"));
    for (fields, wanted) in [
        ("", "127.0.0.1"),
        ("x-forwarded-for: 1.1.1.1, 192.0.2.7\r\n", "192.0.2.7"),
        ("forwarded: for=1.1.1.1, for=\"[2001:db8::1]:80\"\r\n", "2001:db8::1"),
    ] {
        let answer = ask(&trusting, b"", fields);
        assert!(answer.ends_with(&format!("\"{wanted}\"")), "{fields}: {answer}");
    }
    let other = Folder::new("untrusted").start(&config("10.0.0.0/8"));
    let answer = ask(&other, b"", "x-forwarded-for: 192.0.2.7\r\nforwarded: for=192.0.2.7\r\n");
    assert!(answer.ends_with("\"127.0.0.1\""), "{answer}");
}

/// Version 2 of a connection from 192.0.2.7, with bytes behind the addresses.
fn binary() -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f".to_vec();
    header.extend([192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x34, 1, 0xbb, 4, 0, 0]);
    header
}

#[test]
fn a_trusted_proxy_may_speak_the_proxy_protocol() {
    let listen = "listen: { address: '127.0.0.1:0', proxy_protocol: on }\n";
    let scene =
        Folder::new("relayed").start(&[listen, "clients: { trust: [127.0.0.1], head: 1s }", ENDPOINTS].concat());
    for (before, wanted) in [
        (&b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n"[..], "\"192.0.2.7\""),
        (b"PROXY TCP6 2001:db8::1 ::1 56324 443\r\n", "\"2001:db8::1\""),
        (b"PROXY UNKNOWN\r\n", "\"unknown\""),
        (&binary(), "\"192.0.2.7\""),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", "\"127.0.0.1\""),
    ] {
        let answer = ask(&scene, before, "");
        assert!(answer.ends_with(wanted), "{}: {answer}", before.escape_ascii());
    }
    // Without a header, with half of one, or with nonsense there is no answer.
    for before in [
        &b""[..],
        b"PROXY TCP4 192.0.2.7\r\n",
        b"PROXY TCP4 2001:db8::1 ::1 1 2\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
        b"\r\n\r\n\0\r\nQUIT\n\x11\x11\0\x0c",
    ] {
        let mut client = dial(scene.gateway.address);
        let _ = client.write_all(before);
        let _ = client.write_all(b"GET /who HTTP/1.1\r\nhost: h\r\n\r\n");
        assert_eq!(rest(&mut client), "", "{}", before.escape_ascii());
    }
    let scene = Folder::new("strangers").start(&[listen, "clients: { trust: [10.0.0.0/8] }", ENDPOINTS].concat());
    assert!(ask(&scene, b"", "").ends_with("\"127.0.0.1\""));
    assert!(ask(&scene, b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n", "").starts_with("HTTP/1.1 400 "));
}

#[test]
fn the_proxy_protocol_comes_before_tls() {
    let authority = Authority::new();
    let folder = Folder::new("relayed_tls");
    folder.identity("own", &authority.sign(&["gateway.test"]));
    let listen = "listen: { address: '127.0.0.1:0', proxy_protocol: on, tls: { certificate: own.pem, key: own.key } }
clients: { trust: [127.0.0.1] }";
    let scene = folder.start(&[listen, ENDPOINTS].concat());
    let client = Arc::new(trusting(&authority, ALL_VERSIONS));
    let mut client = connect(scene.gateway.address, &client, "gateway.test", b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n");
    let client = client.as_mut().unwrap();
    write!(client, "GET /who HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").unwrap();
    assert!(rest(client).ends_with("\"192.0.2.7\""));
}

/// Behind a proxy, clients are bounded and not the proxy.
#[test]
fn connections_are_counted_by_the_address_in_the_header_of_the_proxy() {
    let config = "listen: { address: '127.0.0.1:0', proxy_protocol: on }
clients: { trust: [127.0.0.1], connections_per_address: 2 }";
    let scene = Folder::new("counted").start(&[config, ENDPOINTS].concat());
    let open = |address: &str| {
        let mut client = dial(scene.gateway.address);
        write!(client, "PROXY TCP4 {address} 10.0.0.1 1 2\r\nGET /who HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
        let mut first = [0];
        // One that is refused is reset.
        let served = client.read(&mut first).is_ok_and(|read| read == 1);
        (client, served)
    };
    let kept: Vec<_> = ["192.0.2.7", "192.0.2.7", "192.0.2.8", "192.0.2.9"].map(open).into();
    assert!(kept.iter().all(|(_, served)| *served));
    assert!(!open("192.0.2.7").1 && open("192.0.2.8").1);
}
