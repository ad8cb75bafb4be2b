//! Client certificates: which authorities are trusted, which certificates are revoked, and the facts from a verified
//! one.

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use crocodile_pear::unstable::net::tls::pem;
use crocodile_pear::unstable::request::facts::ClientCertificate;
use crocodile_pear::unstable::runtime::hex;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::extensions::GeneralName;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::revocation_list::CertificateRevocationList;
use x509_parser::x509::X509Name;

use super::super::provider::provider;
use super::identity::moment;

/// Whether a client must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The client may show a certificate. If it does, the certificate is verified.
    Optional,
    /// The handshake fails without one.
    Required,
}

/// The handling of a revocation list that is past its `nextUpdate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// Use the list anyway.
    Accept,
    /// Refuse the certificates of its authority.
    Refuse,
}

/// Which client certificates are accepted.
#[derive(Clone, Debug)]
pub struct ClientTrust {
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    /// When the first of its revocation lists expires.
    pub next_update: Option<SystemTime>,
    /// The inputs, for comparison: sessions are not resumed with a different trust.
    made_of: (Vec<u8>, Option<Vec<u8>>, Demand, Overdue),
}

impl PartialEq for ClientTrust {
    fn eq(&self, other: &Self) -> bool {
        self.made_of == other.made_of
    }
}

/// Why a trust cannot be used: which file is wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// The file of the authorities.
    Authorities(String),
    /// The file of the revocation lists.
    Lists(String),
}

impl ClientTrust {
    /// Trusts certificates that these authorities have signed and that are in none of the lists. Both are PEM.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn new(
        authorities: Vec<u8>,
        lists: Option<Vec<u8>>,
        demand: Demand,
        overdue: Overdue,
    ) -> Result<Self, Distrust> {
        let roots = pem::certificates(&authorities).and_then(|read| pem::roots(&read));
        let roots = roots.map_err(|why| Distrust::Authorities(why.to_owned()))?;
        let provider = Arc::new(provider().clone());
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
        let mut next_update = None;
        if let Some(pem) = &lists {
            let lists = revocations(pem)?;
            next_update = lists.iter().filter_map(successor).min();
            // The authorities are listed one by one, so they need not be in a revocation list of another authority.
            builder = builder.with_crls(lists).only_check_end_entity_revocation();
            if overdue == Overdue::Refuse {
                builder = builder.enforce_revocation_expiration();
            }
        }
        if demand == Demand::Optional {
            builder = builder.allow_unauthenticated();
        }
        let unusable = |error| Distrust::Lists(format!("the lists cannot be used: {error}"));
        let verifier = builder.build().map_err(unusable)?;
        Ok(ClientTrust { verifier, next_update, made_of: (authorities, lists, demand, overdue) })
    }
}

/// When a list expires, if it says so.
fn successor(list: &CertificateRevocationListDer<'_>) -> Option<SystemTime> {
    let (_, list) = CertificateRevocationList::from_der(list).ok()?;
    list.next_update().map(|time| moment(time.timestamp()))
}

fn revocations(pem: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, Distrust> {
    let read: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    match read {
        Ok(read) if read.is_empty() => Err(Distrust::Lists("there is no revocation list in this file".to_owned())),
        Ok(read) => Ok(read),
        Err(_) => Err(Distrust::Lists("this file is not valid PEM".to_owned())),
    }
}

/// The facts that expressions get from a verified certificate.
pub(super) fn describe(der: &[u8]) -> Option<ClientCertificate> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let mut described = ClientCertificate {
        subject: distinguished(certificate.subject()),
        issuer: distinguished(certificate.issuer()),
        serial: hex::text(certificate.raw_serial()),
        fingerprint: hex::text(ring::digest::digest(&ring::digest::SHA256, der).as_ref()),
        ..ClientCertificate::default()
    };
    let names = certificate.subject_alternative_name().ok().flatten();
    names.iter().flat_map(|names| &names.value.general_names).for_each(|name| add_name(&mut described, name));
    Some(described)
}

/// Adds a name among those of its kind: a mail address that looks like a host is none.
fn add_name(to: &mut ClientCertificate, name: &GeneralName<'_>) {
    match name {
        GeneralName::DNSName(name) => to.names.push((*name).to_owned()),
        GeneralName::RFC822Name(name) => to.emails.push((*name).to_owned()),
        GeneralName::URI(name) => to.uris.push((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            to.addresses.extend(four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)));
        }
        _ => {}
    }
}

/// A name in the form of RFC 4514: the last part first, with special characters escaped, so that no part can look like
/// two.
fn distinguished(name: &X509Name<'_>) -> String {
    let mut parts: Vec<String> = name
        .iter_rdn()
        .map(|rdn| {
            let attributes = rdn.iter().map(|attribute| {
                let kind = oid2abbrev(attribute.attr_type(), oid_registry());
                let kind = kind.map_or_else(|_| attribute.attr_type().to_id_string(), str::to_owned);
                let value = match attribute.as_str() {
                    Ok(text) => escape(text),
                    Err(_) => format!("#{}", hex::text(attribute.as_slice())),
                };
                format!("{kind}={value}")
            });
            attributes.collect::<Vec<_>>().join("+")
        })
        .collect();
    parts.reverse();
    parts.join(",")
}

/// RFC 4514, 2.4
fn escape(text: &str) -> String {
    let last = text.chars().count().saturating_sub(1);
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.chars().enumerate() {
        let edge = (c == ' ' && (at == 0 || at == last)) || (c == '#' && at == 0);
        match c {
            '\0'..='\x1f' | '\x7f' => {
                let _ = write!(out, "\\{:02x}", u32::from(c));
            }
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' => out.extend(['\\', c]),
            c if edge => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_name_looks_like_two() {
        for (text, wanted) in [
            ("shop", "shop"),
            ("shop, O=admin", r"shop\, O\=admin"),
            (" a b ", r"\ a b\ "),
            ("#1", r"\#1"),
            ("a\nb", r"a\0ab"),
            ("Å+\\", r"Å\+\\"),
        ] {
            assert_eq!(escape(text), wanted);
        }
    }
}
