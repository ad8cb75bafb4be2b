//! A certificate authority of the tests' own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub struct Identity {
    pub certificate: Certificate,
    pub key: KeyPair,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        // Two authorities of one name would be told apart by their signatures only.
        static AUTHORITIES: AtomicUsize = AtomicUsize::new(0);
        let number = AUTHORITIES.fetch_add(1, Ordering::Relaxed);
        params.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    /// A certificate for these names.
    pub fn sign(&self, names: &[&str]) -> Identity {
        self.sign_with(names, |_| {})
    }

    pub fn sign_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Identity { certificate: params.signed_by(&key, &self.0).unwrap(), key }
    }

    /// A revocation list, as PEM.
    pub fn revoke(&self, list: rcgen::CertificateRevocationListParams) -> String {
        list.signed_by(&self.0).unwrap().pem().unwrap()
    }

    /// Asks clients for a certificate of this authority.
    pub fn verifier(&self) -> Arc<dyn rustls::server::danger::ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        WebPkiClientVerifier::builder_with_provider(roots.into(), provider()).build().unwrap()
    }
}

impl Identity {
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.der().clone()]
    }

    pub fn private(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.key.serialize_der()).unwrap()
    }

    /// A server with this identity that asks for no certificate.
    pub fn server(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> rustls::ServerConfig {
        rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.chain(), self.private())
            .unwrap()
    }
}

pub fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Sets the protocols that a configuration offers by ALPN.
pub fn offering(mut config: rustls::ServerConfig, protocols: &[&str]) -> rustls::ServerConfig {
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}
