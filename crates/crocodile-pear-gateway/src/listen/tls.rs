//! `tls` of a listener: its certificates.

use std::time::{Duration, SystemTime};

use crocodile_pear::problem::{Problems, Span};
use crocodile_pear::spec::Located;
use crocodile_pear::upstream::Files;
use crocodile_pear::{choice, spec};

use super::acme::AcmeSpec;
use crate::server::{Day, Demand, Distrust, Identity, Overdue, Setup, Tls, Trust, Unfit};

/// A certificate that expires within this time is told.
pub const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

spec! {
    /// TLS with clients: one certificate, or several. Paths are relative to the configuration file. The files are read again
    /// when they change; what cannot be used then is logged, and the old certificate stays.
    pub struct ListenerTlsSpec {
        /// A PEM file with the certificate, followed by its intermediate ones.
        pub certificate: Option<Located<String>>,
        /// A PEM file with the key of that certificate.
        pub key: Option<Located<String>>,
        /// Instead: several. A client is shown the one with the name that it asks for, also by a wildcard (`*.example.com`); the
        /// first where none has it.
        pub certificates: Option<Vec<CertificateSpec>>,
        /// A PEM file with the authorities whose certificates clients may show. What a client has shown is `$client.certificate` in
        /// expressions: `subject`, `issuer`, `names`, `serial` and `fingerprint`; null where it has shown none.
        pub client_ca: Option<Located<String>>,
        /// Whether clients must show one; `required` unless set, where `client_ca` is.
        pub client_certificate: Option<Located<DemandSpec>>,
        /// A PEM file with revocation lists of those authorities. Each that signs clients' certificates needs one: a certificate of
        /// an authority without a list is refused.
        pub crl: Option<Located<String>>,
        /// What happens with a list that its authority should have replaced by now (`nextUpdate`). It is told in either case;
        /// `accept` unless set.
        pub crl_overdue: Option<Located<OverdueSpec>>,
        /// Certificates that the gateway orders from an authority and renews by itself, beside those of files or instead.
        pub acme: Option<AcmeSpec>,
    }
}

choice! {
    /// Whether clients must show a certificate.
    pub enum DemandSpec {
        /// They may; one that is not valid is refused.
        Optional = "optional",
        /// Without one there is no connection.
        Required = "required",
    }
}

choice! {
    /// What happens with a revocation list that should have been replaced by now.
    pub enum OverdueSpec {
        /// It is used: who was revoked since then is let in.
        Accept = "accept",
        /// Certificates of its authority are refused.
        Refuse = "refuse",
    }
}

spec! {
    /// A certificate with its key.
    pub struct CertificateSpec {
        /// A PEM file with the certificate, followed by its intermediate ones.
        pub certificate: Located<String>,
        /// A PEM file with the key of that certificate.
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
                problems.error(place, "certificates stand here and in `certificates`", remedy)
            }
        }
    }

    /// Whose certificates clients may show.
    fn trust(&self, files: Files<'_>, problems: &mut Problems) -> Option<Option<Trust>> {
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
        let (wrong, message) = match Trust::new(pem, lists, demand, overdue) {
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

    fn warn_overdue(&self, trust: &Trust, now: SystemTime, problems: &mut Problems) {
        if let (Some(written), Some(due)) = (&self.crl, trust.next_update.filter(|due| *due < now)) {
            let message = format!("`{written}`: a revocation list should have been replaced on {}", Day(due));
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
