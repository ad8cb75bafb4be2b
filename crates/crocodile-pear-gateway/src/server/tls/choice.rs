//! Chooses the certificate for a client: the one for the requested name, or else the first.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::acquired::Acquired;
use super::identity::Identity;

/// The certificates of a listener by name.
#[derive(Debug)]
pub(super) struct CertificateResolver {
    /// By name, or by the part after the `*` of a wildcard. A name can have several certificates, with different kinds
    /// of keys.
    names: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// Certificates that are ordered while the listener serves.
    acquired: Vec<Arc<Acquired>>,
    /// For unknown names, and for clients that send none.
    first: Option<Arc<CertifiedKey>>,
}

impl CertificateResolver {
    pub fn new(identities: &[Identity], acquired: &[Arc<Acquired>]) -> Self {
        let mut names: HashMap<String, Vec<Arc<CertifiedKey>>> = HashMap::new();
        for identity in identities {
            for name in &identity.names {
                let name = name.strip_prefix('*').unwrap_or(name);
                names.entry(name.to_owned()).or_default().push(identity.key.clone());
            }
        }
        let first = identities.first().map(|identity| identity.key.clone());
        CertificateResolver { names, acquired: acquired.to_vec(), first }
    }

    /// The certificate for this name and for a client that supports these signature schemes.
    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let usable = |keys: &'_ Vec<Arc<CertifiedKey>>| {
            keys.iter().find(|key| key.key.choose_scheme(schemes).is_some()).cloned()
        };
        let name = name.map(|name| name.trim_end_matches('.').to_ascii_lowercase());
        let named = name.and_then(|name| {
            // A wildcard matches exactly one label (RFC 6125, 6.4.3).
            let within = || name.find('.').and_then(|dot| self.names.get(&name[dot..]));
            let own = self.names.get(&name).and_then(usable);
            own.or_else(|| self.ordered(&name)).or_else(|| within().and_then(usable))
        });
        named.or_else(|| self.first.clone()).or_else(|| self.first_ordered())
    }

    fn ordered(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let acquired = self.acquired.iter().find(|one| one.name == name)?;
        acquired.get().map(|identity| identity.key.clone())
    }

    /// The first ordered certificate that has arrived.
    fn first_ordered(&self) -> Option<Arc<CertifiedKey>> {
        self.acquired.iter().find_map(|one| one.get()).map(|identity| identity.key.clone())
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.server_name(), hello.signature_schemes())
    }
}
