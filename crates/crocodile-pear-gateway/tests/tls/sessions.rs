//! Sessions are resumed by tickets, also where certificates have changed since.

use std::sync::Arc;

use rustls::HandshakeKind;

use crate::stage::authority::Authority;
use crate::stage::secure::{ALL_VERSIONS, ENDPOINTS, Folder, connect, get, trusting};

#[test]
fn a_session_is_resumed_on_whichever_core() {
    let authority = Authority::new();
    let folder = Folder::new("sessions");
    folder.identity("own", &authority.sign(&["gateway.test"]));
    let listen = "threads: 4\nlisten: { address: '127.0.0.1:0', tls: { certificate: own.pem, key: own.key } }\n";
    let scene = folder.start(&[listen, ENDPOINTS].concat());
    for version in ALL_VERSIONS {
        let client = Arc::new(trusting(&authority, &[version]));
        let kind = || {
            let mut client = connect(scene.gateway.address, &client, "gateway.test", b"").unwrap();
            assert!(get(&mut client, "/who").unwrap().starts_with("HTTP/1.1 200 OK"));
            client.conn.handshake_kind()
        };
        assert_eq!(kind(), Some(HandshakeKind::Full));
        for _ in 0..16 {
            assert_eq!(kind(), Some(HandshakeKind::Resumed), "{version:?}");
        }
    }
}
