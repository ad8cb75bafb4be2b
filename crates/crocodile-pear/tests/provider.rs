//! The cryptography of TLS is the default provider that the program has installed. A provider is that of a whole process, so
//! this stands alone.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use crocodile_pear::{Client, Upstream};
use crocodile_pear_peers::authority::{Authority, provider};
use crocodile_pear_peers::served::Served;
use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::version::TLS13;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_call_uses_the_default_provider_of_the_program() {
    let wanted = CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
    let mut own = CryptoProvider::clone(&provider());
    assert_ne!(own.cipher_suites[0].suite(), wanted, "it would be chosen anyway");
    own.cipher_suites.retain(|suite| suite.suite() == wanted);
    own.install_default().unwrap();

    let authority = Authority::new();
    let seen = Arc::new(Mutex::new(None));
    let told = seen.clone();
    let served = Served::secured(authority.sign(&["localhost"]).server(&[&TLS13]), move |mut stream| {
        *told.lock().unwrap() = stream.get_ref().1.negotiated_cipher_suite().map(|suite| suite.suite());
        async move {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nsafe").await;
            let _ = stream.shutdown().await;
        }
    });
    let url = format!("https://localhost:{}", served.address.port());
    let upstream = Upstream::at(&url).tls_ca(authority.pem());
    let client = Client::builder().upstream("api", upstream).build().unwrap();
    assert_eq!(client.get(format!("{url}/")).text().await.unwrap(), "safe");
    assert_eq!(*seen.lock().unwrap(), Some(wanted));
}
