//! Certificates, keys and authorities in PEM files.

use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The message for a file without a certificate.
pub const NO_CERTIFICATE: &str = "there is no certificate in this file";

const INVALID: &str = "this file is not valid PEM";
const ENCRYPTED: &[u8] = b"BEGIN ENCRYPTED PRIVATE KEY";

/// The certificates in a file, at least one.
///
/// # Errors
/// The reason why the file cannot be used.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(read) if read.is_empty() && PrivateKeyDer::from_pem_slice(pem).is_ok() => {
            Err("there is a key in this file, and no certificate")
        }
        Ok(read) if read.is_empty() => Err(NO_CERTIFICATE),
        Ok(read) => Ok(read),
        Err(_) => Err(INVALID),
    }
}

/// The key in a file.
///
/// # Errors
/// The reason why the file cannot be used.
pub fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        PemError::NoItemsFound => match pem.windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED) {
            true => "the key is encrypted: store it without a passphrase, readable for the gateway's user only",
            false => "there is no key in this file",
        },
        _ => INVALID,
    })
}

/// Certificates as authorities to trust.
///
/// # Errors
/// A certificate cannot be read.
pub fn roots(certificates: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, &'static str> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.clone()).map_err(|_| "a certificate in this file cannot be read")?;
    }
    Ok(Arc::new(roots))
}

/// Mozilla's list of public authorities, built in: the same wherever the gateway runs.
pub fn public_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    ROOTS.get_or_init(|| Arc::new(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect())).clone()
}

#[cfg(test)]
mod tests {
    use super::super::pem::*;

    fn file(label: &str) -> String {
        format!("-----BEGIN {label}-----\nAA==\n-----END {label}-----\n")
    }

    #[test]
    fn a_file_with_something_else_says_what_it_has() {
        let certificate = |label: &str| certificates(file(label).as_bytes()).map(|read| read.len());
        assert_eq!(certificate("CERTIFICATE"), Ok(1));
        assert_eq!(certificate("PRIVATE KEY"), Err("there is a key in this file, and no certificate"));
        assert_eq!(certificate("PUBLIC KEY"), Err(NO_CERTIFICATE));
        let key = |label: &str| private_key(file(label).as_bytes()).err();
        assert_eq!(key("PRIVATE KEY"), None);
        assert_eq!(key("CERTIFICATE"), Some("there is no key in this file"));
        assert!(key("ENCRYPTED PRIVATE KEY").is_some_and(|told| told.starts_with("the key is encrypted")));
        assert_eq!(certificates(b"-----BEGIN CERTIFICATE-----\n?").err(), Some(INVALID));
    }
}
