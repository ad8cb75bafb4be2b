//! Parts of TLS that are not spoken: old versions, weak suites, renegotiation, compression.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::stage::authority::Authority;
use crate::stage::secure::{ENDPOINTS, Folder, Scene, dial, rest};

fn start(name: &str) -> Scene {
    let folder = Folder::new(name);
    folder.identity("own", &Authority::new().sign(&["gateway.test"]));
    let listen = "listen: { address: '127.0.0.1:0', tls: { certificate: own.pem, key: own.key } }\n";
    folder.start(&[listen, ENDPOINTS].concat())
}

/// A ClientHello, as any version of TLS before 1.3 has it.
fn hello(version: [u8; 2], suites: &[[u8; 2]], compressions: &[u8]) -> Vec<u8> {
    let extension = |number: u16, body: &[u8]| {
        let length = u16::try_from(body.len()).unwrap();
        [&number.to_be_bytes()[..], &length.to_be_bytes(), body].concat()
    };
    let extensions = [
        // The groups x25519 and P-256, uncompressed points, ECDSA and RSA with SHA-256, an extended master secret.
        extension(10, &[0, 4, 0, 29, 0, 23]),
        extension(11, &[1, 0]),
        extension(13, &[0, 6, 4, 3, 8, 4, 4, 1]),
        extension(23, &[]),
    ]
    .concat();
    let mut body = [&version[..], &[7; 32], &[0]].concat();
    body.extend(u16::try_from(2 * suites.len()).unwrap().to_be_bytes());
    body.extend(suites.concat());
    body.push(u8::try_from(compressions.len()).unwrap());
    body.extend(compressions);
    body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend(extensions);
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1], &length[1..], &body].concat();
    [&[22, 3, 1][..], &u16::try_from(message.len()).unwrap().to_be_bytes(), &message].concat()
}

const TLS12: [u8; 2] = [3, 3];
const ECDHE_AES: [u8; 2] = [0xc0, 0x2b];

/// The kind of the first record of the answer, and of the message in it: 22 and 2 for a ServerHello, 21 for an alert.
fn answer(scene: &Scene, hello: &[u8]) -> (u8, Vec<u8>) {
    let mut client = dial(scene.gateway.address);
    client.write_all(hello).unwrap();
    let mut record = [0; 5];
    client.read_exact(&mut record).unwrap();
    let mut body = vec![0; usize::from(u16::from_be_bytes([record[3], record[4]]))];
    client.read_exact(&mut body).unwrap();
    (record[0], body)
}

#[test]
fn old_versions_weak_suites_and_compression_are_refused() {
    let scene = start("refusals");
    let (kind, served) = answer(&scene, &hello(TLS12, &[ECDHE_AES], &[0]));
    assert_eq!((kind, served[0]), (22, 2), "this client is served");
    for (name, version) in [("SSL 3.0", [3, 0]), ("TLS 1.0", [3, 1]), ("TLS 1.1", [3, 2])] {
        assert_eq!(answer(&scene, &hello(version, &[ECDHE_AES], &[0])).0, 21, "{name}");
    }
    for (name, suite) in [
        ("TLS_RSA_WITH_RC4_128_SHA", [0x00, 0x05]),
        ("TLS_ECDHE_RSA_WITH_RC4_128_SHA", [0xc0, 0x11]),
        ("TLS_RSA_WITH_3DES_EDE_CBC_SHA", [0x00, 0x0a]),
        ("TLS_ECDHE_ECDSA_WITH_3DES_EDE_CBC_SHA", [0xc0, 0x08]),
        ("TLS_RSA_WITH_DES_CBC_SHA", [0x00, 0x09]),
        ("TLS_RSA_WITH_NULL_SHA", [0x00, 0x02]),
        ("TLS_RSA_EXPORT_WITH_RC4_40_MD5", [0x00, 0x03]),
        ("TLS_DH_anon_WITH_AES_128_CBC_SHA", [0x00, 0x34]),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", [0x00, 0x9c]),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", [0xc0, 0x09]),
    ] {
        assert_eq!(answer(&scene, &hello(TLS12, &[suite], &[0])).0, 21, "{name}");
    }
    // Deflate is offered, and not chosen: the byte behind the suite of the ServerHello. Alone it is refused.
    let (_, hello_done) = answer(&scene, &hello(TLS12, &[ECDHE_AES], &[1, 0]));
    let session = usize::from(hello_done[38]);
    assert_eq!(hello_done[38 + session + 3], 0, "compression");
    assert_eq!(answer(&scene, &hello(TLS12, &[ECDHE_AES], &[1])).0, 21);
}

#[test]
fn renegotiation_is_refused() {
    let scene = start("renegotiation");
    let address = scene.gateway.address.to_string();
    let spawned = Command::new("openssl")
        .args(["s_client", "-connect", &address, "-tls1_2", "-legacy_renegotiation"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut client) = spawned else {
        crate::stage::skip("openssl");
        return;
    };
    // `R` at the begin of a line asks for it.
    client.stdin.as_mut().unwrap().write_all(b"R\n").unwrap();
    let mut errors = client.stderr.take().unwrap();
    let mut said = String::new();
    let _ = errors.read_to_string(&mut said);
    let _ = client.wait();
    assert!(said.contains("RENEGOTIATING"), "{said}");
    assert!(said.contains("no renegotiation") || said.contains("renegotiat") && said.contains("error"), "{said}");
}

#[test]
fn a_request_without_tls_gets_a_400_in_words() {
    let scene = start("plain");
    let mut client = dial(scene.gateway.address);
    client.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
    let answer = rest(&mut client);
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("use https://"), "{answer}");
    // The body that nobody reads does not hide the answer.
    let mut client = dial(scene.gateway.address);
    client
        .write_all(&[&b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 60000\r\n\r\n"[..], &[b'x'; 60_000]].concat())
        .unwrap();
    assert!(rest(&mut client).contains("use https://"));
    // Other protocols get none.
    let mut client = dial(scene.gateway.address);
    client.write_all(b"\0\x01garbage that is no handshake").unwrap();
    assert!(!rest(&mut client).contains("HTTP/1.1"));
}
