//! A certificate with its key, read from PEM: its names and its validity.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crocodile_pear::unstable::net::tls::pem;
use crocodile_pear::unstable::runtime::calendar;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::super::provider::provider;

/// A certificate with its chain and its key.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(super) key: Arc<CertifiedKey>,
    /// The host names that it is valid for, in lower case.
    pub names: Vec<String>,
    /// The start of its validity.
    pub begin: SystemTime,
    /// The end of its validity.
    pub expiry: SystemTime,
}

/// Why a certificate cannot be used: which file is wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The file of the certificate.
    Certificate(String),
    /// The file of the key.
    Key(String),
}

impl Identity {
    /// Reads both PEM files, for use at the time `now`.
    ///
    /// # Errors
    /// If they cannot be used, or are not valid at that time.
    pub fn read(certificate: &[u8], key: &[u8], now: SystemTime) -> Result<Self, Unfit> {
        let chain = pem::certificates(certificate).map_err(|why| Unfit::Certificate(why.to_owned()));
        let key = pem::private_key(key).map_err(|why| Unfit::Key(why.to_owned()));
        let (chain, key) = (chain?, key?);
        let own = chain.first().cloned().ok_or_else(|| Unfit::Certificate(pem::NO_CERTIFICATE.to_owned()))?;
        let unreadable = || Unfit::Certificate("the certificate cannot be read".to_owned());
        let (_, read) = X509Certificate::from_der(&own).map_err(|_| unreadable())?;
        let (begin, end) =
            (moment(read.validity().not_before.timestamp()), moment(read.validity().not_after.timestamp()));
        if now > end {
            return Err(Unfit::Certificate(format!("the certificate expired on {}", Day(end))));
        }
        if now < begin {
            return Err(Unfit::Certificate(format!("the certificate is not valid before {}", Day(begin))));
        }
        let names = host_names(&read);
        let key = CertifiedKey::from_der(chain, key, provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => Unfit::Key("the key is not that of the certificate".to_owned()),
            rustls::Error::InvalidCertificate(_) => unreadable(),
            _ => Unfit::Key("the key is of no kind that can be used: RSA, ECDSA (P-256, P-384) or Ed25519".to_owned()),
        })?;
        Ok(Identity { key: Arc::new(key), names, begin, expiry: end })
    }

    /// The certificate itself, without its chain.
    pub fn own(&self) -> Option<&CertificateDer<'static>> {
        self.key.cert.first()
    }

    /// The first of its names.
    pub fn label(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }
}

/// The host names. The common name is used only if there are no others.
fn host_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    let names: Vec<String> = names.collect();
    if !names.is_empty() {
        return names;
    }
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    common.map(str::to_ascii_lowercase).collect()
}

/// A time in a certificate; times before 1970 become 1970.
pub(super) fn moment(timestamp: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(timestamp).unwrap_or_default())
}

/// A time, formatted as a date.
pub struct Day(pub SystemTime);

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        calendar::Day::of_seconds(i64::try_from(seconds).unwrap_or(i64::MAX)).fmt(f)
    }
}
