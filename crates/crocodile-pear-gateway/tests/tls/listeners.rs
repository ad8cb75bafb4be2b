//! Several listeners, in clear, with TLS, and those that redirect.

use std::io::{Read, Write};
use std::sync::Arc;

use crate::stage::authority::Authority;
use crate::stage::secure::{ALL_VERSIONS, ENDPOINTS, Folder, connect, dial, get, trusting};

#[test]
fn one_process_listens_in_clear_with_tls_and_to_redirect() {
    let authority = Authority::new();
    let folder = Folder::new("listeners");
    folder.identity("own", &authority.sign(&["gateway.test"]));
    let listen = "listen:
  - 127.0.0.1:0
  - { address: '127.0.0.1:0', tls: { certificate: own.pem, key: own.key } }
  - { address: '127.0.0.1:0', redirect: https }
";
    let scene = folder.start(&[listen, ENDPOINTS].concat());
    let addresses = scene.addresses(3);
    assert!(get(&mut dial(addresses[0]), "/who").unwrap().ends_with(r#"{"scheme":"HTTP/1.1"}"#));
    for version in ALL_VERSIONS {
        let client = Arc::new(trusting(&authority, &[version]));
        let answer = get(&mut connect(addresses[1], &client, "gateway.test", b"").unwrap(), "/who").unwrap();
        assert!(answer.ends_with(r#"{"scheme":"HTTP/1.1"}"#), "{answer}");
    }
    let answer = get(&mut dial(addresses[2]), "/who?a=%20b").unwrap();
    assert!(answer.starts_with("HTTP/1.1 308 Permanent Redirect\r\n"), "{answer}");
    // The port that was free.
    let location = format!("location: https://gateway.test:{}/who?a=%20b\r\n", addresses[1].port());
    assert!(answer.contains(&location), "{answer}");
}

#[test]
fn large_bodies_pass_in_both_directions() {
    let authority = Authority::new();
    let folder = Folder::new("bodies");
    folder.identity("own", &authority.sign(&["gateway.test"]));
    let listen = "listen: { address: '127.0.0.1:0', tls: { certificate: own.pem, key: own.key } }\n";
    let scene = folder.start(&[listen, ENDPOINTS].concat());
    let body = format!("\"{}\"", "0123456789".repeat(300_000));
    for version in ALL_VERSIONS {
        let client = Arc::new(trusting(&authority, &[version]));
        let mut client = connect(scene.gateway.address, &client, "gateway.test", b"").unwrap();
        let head = "POST /echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-type: application/json\r\n";
        write!(client, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with(&body), "{} bytes, {:.200}", answer.len(), answer);
    }
}

#[test]
fn who_makes_no_handshake_is_not_waited_for() {
    let authority = Authority::new();
    let folder = Folder::new("silent");
    folder.identity("own", &authority.sign(&["gateway.test"]));
    let listen = "clients: { head: 200ms }
listen: { address: '127.0.0.1:0', tls: { certificate: own.pem, key: own.key } }
";
    let scene = folder.start(&[listen, ENDPOINTS].concat());
    let mut silent = dial(scene.gateway.address);
    let mut read = Vec::new();
    // Closed, or reset: nothing is said.
    let _ = silent.read_to_end(&mut read);
    assert_eq!(read, b"");
}
