//! `tls` of a listener: its certificates.

use std::time::{Duration, SystemTime};

use crocodile_pear::unstable::config::files::Files;
use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::Located;
use crocodile_pear::unstable::{choice, spec};

use super::acme::AcmeSpec;
use crate::server::{ClientTrust, Day, Demand, Distrust, Identity, Overdue, Setup, Tls, Unfit};

/// A certificate that expires within this time is told.
pub const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

spec! {
    /// TLS for clients, with one or several certificates. Paths are relative to the configuration file. The gateway
    /// reads the files again when they change. If it cannot use a new file, it logs why and keeps the old
    /// certificate.
    pub struct ListenerTlsSpec {
        /// A PEM file: the certificate, then its intermediate certificates.
        pub certificate: Option<Located<String>>,
        /// A PEM file with the private key of that certificate.
        pub key: Option<Located<String>>,
        /// Instead of `certificate` and `key`: several certificates. A client gets the one for the name that it asks
        /// for (SNI), also by a wildcard (`*.example.com`), or the first one if none has that name.
        pub certificates: Option<Vec<CertificateSpec>>,
        /// A PEM file with the CAs that client certificates may come from. In expressions, the client's certificate
        /// is `$client.certificate`, with `subject`, `issuer`, `names` (DNS names), `emails`, `uris`, `addresses`,
        /// `serial` and `fingerprint`; null if the client sent none.
        pub client_ca: Option<Located<String>>,
        /// Whether clients must send a certificate. Default with `client_ca`: `required`.
        pub client_certificate: Option<Located<DemandSpec>>,
        /// A PEM file with certificate revocation lists (CRLs) of those CAs. Each CA that signs client certificates
        /// needs a list: the certificates of a CA without one are rejected.
        pub crl: Option<Located<String>>,
        /// The handling of a CRL that is overdue: its CA should have replaced it by now (`nextUpdate`). The gateway
        /// logs it in either case. Default: `accept`.
        pub crl_overdue: Option<Located<OverdueSpec>>,
        /// Certificates that the gateway orders from a CA and renews by itself (ACME), instead of certificate files
        /// or besides them.
        pub acme: Option<AcmeSpec>,
    }
}

choice! {
    /// Whether clients must show a certificate.
    pub enum DemandSpec {
        /// A client may send one; one that is not valid is rejected.
        Optional = "optional",
        /// A client without a certificate cannot connect.
        Required = "required",
    }
}

choice! {
    /// The handling of a revocation list that should have been replaced by now.
    pub enum OverdueSpec {
        /// Use it. Certificates that were revoked since then are accepted.
        Accept = "accept",
        /// Reject all certificates of its CA.
        Refuse = "refuse",
    }
}

spec! {
    /// A certificate with its key.
    pub struct CertificateSpec {
        /// A PEM file: the certificate, then its intermediate certificates.
        pub certificate: Located<String>,
        /// A PEM file with the private key of that certificate.
        pub key: Located<String>,
    }
}

impl ListenerTlsSpec {
    /// Reads all files and checks them; every problem is noted. `place` is that of the listener.
    pub fn compile(&self, place: Span, files: Files<'_>, problems: &mut Problems) -> Option<Tls> {
        let Some(written) = self.written(place, problems) else {
            let _ = self.trust(files, problems);
            return None;
        };
        // All are read before one that failed ends it, so that every problem is found.
        let read: Vec<_> = written.iter().map(|certificate| certificate.read(files, problems)).collect();
        let trust = self.trust(files, problems);
        let (identities, trust) = (read.into_iter().collect::<Option<Vec<_>>>()?, trust?);
        match Tls::new(Setup { identities, trust }) {
            Ok(tls) => Some(tls),
            Err(error) => problems.error(place, format!("TLS is not possible: {error}"), ""),
        }
    }

    /// The certificates, in order.
    fn written(&self, place: Span, problems: &mut Problems) -> Option<Vec<CertificateSpec>> {
        match (&self.certificate, &self.key, &self.certificates) {
            (Some(certificate), Some(key), None) => {
                Some(vec![CertificateSpec { certificate: certificate.clone(), key: key.clone() }])
            }
            (Some(certificate), None, None) => {
                problems.error(certificate.span, "the certificate has no `key`", "add `key: FILE`")
            }
            (None, Some(key), None) => {
                problems.error(key.span, "the key has no `certificate`", "add `certificate: FILE`")
            }
            (None, None, Some(certificates)) if !certificates.is_empty() => Some(certificates.clone()),
            (None, None, None) if self.acme.is_some() => Some(Vec::new()),
            (None, None, _) => problems.error(
                place,
                "`tls` has no certificate",
                "write `tls: { certificate: cert.pem, key: key.pem }`, or `tls: { acme: { domains: [shop.example] } }`",
            ),
            (certificate, key, Some(_)) => {
                let place = certificate.as_ref().or(key.as_ref()).map_or(place, |written| written.span);
                let remedy = "move it into the list, as `{ certificate: FILE, key: FILE }`";
                problems.error(place, "certificates are both here and in `certificates`", remedy)
            }
        }
    }

    /// Whose certificates clients may show.
    fn trust(&self, files: Files<'_>, problems: &mut Problems) -> Option<Option<ClientTrust>> {
        let Some(authorities) = &self.client_ca else {
            let demanded = self.client_certificate.as_ref().map(|written| (written.span, "client_certificate"));
            let listed = self.crl.as_ref().map(|written| (written.span, "crl"));
            let overdue = self.crl_overdue.as_ref().map(|written| (written.span, "crl_overdue"));
            let Some((place, name)) = demanded.or(listed).or(overdue) else { return Some(None) };
            let remedy = "add `client_ca: FILE`, the authorities that sign clients' certificates";
            return problems.error(place, format!("`{name}` needs `client_ca`"), remedy);
        };
        let lists = self.crl.as_ref().map(|written| read(written, files, problems));
        let (pem, lists) = (read(authorities, files, problems)?, lists.map_or(Some(None), |lists| lists.map(Some))?);
        let demand = match self.client_certificate.as_ref().map(|written| written.value) {
            Some(DemandSpec::Optional) => Demand::Optional,
            Some(DemandSpec::Required) | None => Demand::Required,
        };
        let overdue = match self.crl_overdue.as_ref().map(|written| written.value) {
            Some(OverdueSpec::Refuse) => Overdue::Refuse,
            Some(OverdueSpec::Accept) | None => Overdue::Accept,
        };
        let (wrong, message) = match ClientTrust::new(pem, lists, demand, overdue) {
            Ok(trust) => {
                self.warn_overdue(&trust, SystemTime::now(), problems);
                return Some(Some(trust));
            }
            Err(Distrust::Authorities(message)) => (Some(authorities), message),
            Err(Distrust::Lists(message)) => (self.crl.as_ref(), message),
        };
        let wrong = wrong.unwrap_or(authorities);
        problems.error(wrong.span, format!("`{wrong}`: {message}"), "")
    }

    fn warn_overdue(&self, trust: &ClientTrust, now: SystemTime, problems: &mut Problems) {
        if let (Some(written), Some(due)) = (&self.crl, trust.next_update.filter(|due| *due < now)) {
            let message = format!("`{written}`: a certificate revocation list is overdue since {}", Day(due));
            problems.warning(written.span, message, "replace it; a changed file is read while the gateway serves");
        }
    }

    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &Located<String>> {
        let several = self.certificates.iter().flatten().flat_map(|one| [&one.certificate, &one.key]);
        self.certificate.iter().chain(&self.key).chain(&self.client_ca).chain(&self.crl).chain(several)
    }
}

const VALID: &str = "name a PEM file with a valid certificate, followed by its intermediate ones";
const OWN_KEY: &str = "name a PEM file with the key that the certificate was made for";

impl CertificateSpec {
    fn read(&self, files: Files<'_>, problems: &mut Problems) -> Option<Identity> {
        let (certificate, key) = (read(&self.certificate, files, problems), read(&self.key, files, problems));
        let now = SystemTime::now();
        let (wrong, message, remedy) = match Identity::read(&certificate?, &key?, now) {
            Ok(identity) => {
                self.warn(&identity, now, problems);
                return Some(identity);
            }
            Err(Unfit::Certificate(message)) => (&self.certificate, message, VALID),
            Err(Unfit::Key(message)) => (&self.key, message, OWN_KEY),
        };
        problems.error(wrong.span, format!("`{wrong}`: {message}"), remedy)
    }

    fn warn(&self, identity: &Identity, now: SystemTime, problems: &mut Problems) {
        if identity.expiry < now + SOON {
            let message = format!("`{}`: the certificate expires on {}", self.certificate, Day(identity.expiry));
            problems.warning(
                self.certificate.span,
                message,
                "renew it; a changed file is read while the gateway serves",
            );
        }
    }
}

fn read(written: &Located<String>, files: Files<'_>, problems: &mut Problems) -> Option<Vec<u8>> {
    match files(written) {
        Ok(bytes) => Some(bytes),
        Err(reason) => problems.error(written.span, format!("cannot read `{written}`: {reason}"), ""),
    }
}
