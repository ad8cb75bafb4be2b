//! Answers to the challenges of certificate authorities (ACME). They are files, because several gateways may share the
//! folder and an authority may connect to any of them.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::provider::provider;

/// The protocol in which an authority asks for a certificate that proves control of the name (RFC 8737).
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// The path of RFC 8555, 8.3.
const WELL_KNOWN: &str = "/.well-known/acme-challenge/";

/// The largest file that is read; tokens and answers are shorter.
const LONGEST: u64 = 1024;

/// The folders with answers to challenges.
#[derive(Debug, Default)]
pub struct Challenges(ArcSwap<Vec<PathBuf>>);

impl Challenges {
    /// Looks for answers in these folders from now on.
    pub fn look_in(&self, folders: Vec<PathBuf>) {
        self.0.store(Arc::new(folders));
    }

    /// The answer to a request, if a challenge with this path is pending. Reads a file, but only for such a path.
    pub fn answer(&self, path: &str) -> Option<String> {
        let token = path.strip_prefix(WELL_KNOWN)?;
        let base64 = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (!token.is_empty() && token.bytes().all(base64)).then(|| self.read(&http_file(token)))?
    }

    /// The TLS configuration that proves this name; `None` if no challenge is pending for it.
    pub(super) fn prove(&self, name: &str) -> Option<Arc<ServerConfig>> {
        let name = name.to_ascii_lowercase();
        let host = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
        let authorization = name.bytes().all(host).then(|| self.read(&tls_file(&name)))??;
        prove(&name, &authorization)
    }

    fn read(&self, file: &str) -> Option<String> {
        let found = self
            .0
            .load()
            .iter()
            .map(|folder| folder.join(file))
            .find(|path| fs::metadata(path).is_ok_and(|known| known.is_file() && known.len() <= LONGEST))?;
        fs::read_to_string(found).ok()
    }
}

/// The file with the answer to HTTP-01 for this token.
pub fn http_file(token: &str) -> String {
    format!("{token}.http-01")
}

/// The file with the answer to TLS-ALPN-01 for this name.
pub fn tls_file(name: &str) -> String {
    format!("{name}.tls-alpn-01")
}

/// A self-signed certificate with the digest of the answer (RFC 8737, 3).
fn prove(name: &str, authorization: &str) -> Option<Arc<ServerConfig>> {
    let digest = ring::digest::digest(&ring::digest::SHA256, authorization.as_bytes());
    let mut params = CertificateParams::new([name.to_owned()]).ok()?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
    let key = KeyPair::generate().ok()?;
    let certificate = params.self_signed(&key).ok()?;
    let key = provider().key_provider.load_private_key(PrivateKeyDer::try_from(key.serialize_der()).ok()?).ok()?;
    // Built without a check against its key: rustls cannot parse the critical extension of this certificate.
    let certified = CertifiedKey::new(vec![certificate.der().clone()], key);
    let builder = ServerConfig::builder_with_provider(Arc::new(provider().clone()));
    let mut config = builder
        .with_safe_default_protocol_versions()
        .ok()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![ACME_TLS.to_vec()];
    Some(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_proven_by_a_certificate_of_its_own() {
        let config = prove("shop.example", "token.thumb").expect("possible");
        assert_eq!(config.alpn_protocols, [ACME_TLS]);
    }

    #[test]
    fn only_tokens_name_files() {
        let folder = std::env::temp_dir().join(format!("crocodile-pear-challenges-{}", std::process::id()));
        fs::create_dir_all(folder.join("inner")).expect("a folder");
        fs::write(folder.join("abc_-1.http-01"), "abc_-1.thumb").expect("a file");
        fs::write(folder.join("outside.http-01"), "outside").expect("a file");
        let challenges = Challenges::default();
        assert_eq!(challenges.answer("/.well-known/acme-challenge/abc_-1"), None);
        challenges.look_in(vec![folder.join("nowhere"), folder.clone()]);
        let answer = |token: &str| challenges.answer(&format!("/.well-known/acme-challenge/{token}"));
        assert_eq!(answer("abc_-1").as_deref(), Some("abc_-1.thumb"));
        challenges.look_in(vec![folder.join("inner")]);
        for token in ["", "abc_-1", "../outside", "..%2foutside", "abc_-1/", "%00", "a b", "."] {
            assert_eq!(answer(token), None, "{token}");
        }
        assert_eq!(challenges.answer("/other/abc_-1"), None);
        fs::remove_dir_all(folder).expect("removed");
    }
}
