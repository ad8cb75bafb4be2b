//! Which certificate a client is shown.

use std::sync::Arc;

use crate::stage::authority::Authority;
use crate::stage::secure::{ALL_VERSIONS, ENDPOINTS, Folder, connect, shown, trusting};

#[test]
fn the_certificate_is_chosen_by_the_name_that_is_asked_for() {
    let authority = Authority::new();
    let folder = Folder::new("names");
    let shop = authority.sign(&["shop.test", "www.shop.test"]);
    let wild = authority.sign(&["*.wild.test"]);
    let other = authority.sign(&["other.test", "127.0.0.1"]);
    for (name, identity) in [("other", &other), ("shop", &shop), ("wild", &wild)] {
        folder.identity(name, identity);
    }
    let listen = "listen:
  address: '127.0.0.1:0'
  tls:
    certificates:
      - { certificate: other.pem, key: other.key }
      - { certificate: shop.pem, key: shop.key }
      - { certificate: wild.pem, key: wild.key }
";
    let scene = folder.start(&[listen, ENDPOINTS].concat());
    for version in ALL_VERSIONS {
        let client = Arc::new(trusting(&authority, &[version]));
        for (name, identity) in [
            ("shop.test", &shop),
            ("www.shop.test", &shop),
            ("SHOP.test", &shop),
            ("a.wild.test", &wild),
            ("other.test", &other),
            // Without a name: the first.
            ("127.0.0.1", &other),
        ] {
            let client = connect(scene.gateway.address, &client, name, b"").unwrap();
            assert_eq!(shown(&client), identity.certificate.der().as_ref(), "{name}");
        }
        // A wildcard is for one label, and not for none; others are shown the first, which they do not accept.
        for name in ["a.b.wild.test", "wild.test", "nobody.test"] {
            assert!(connect(scene.gateway.address, &client, name, b"").is_err(), "{name}");
        }
    }
}
