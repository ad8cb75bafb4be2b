//! Which servers are trusted: those with a certificate of a trusted authority, and those whose certificate is named itself.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, OtherError, RootCertStore};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::verifier::{Judge, Shown};

/// Checks the certificates of servers.
#[derive(Debug)]
pub(super) struct CertificateTrust {
    authorities: Arc<WebPkiServerVerifier>,
    /// Trusted as they are, also where they are no authority's, or the server's own and an authority's at once, as
    /// `openssl req -x509` makes them.
    named: Vec<CertificateDer<'static>>,
}

impl CertificateTrust {
    /// `None` without a single authority.
    pub(super) fn new(
        roots: Arc<RootCertStore>,
        named: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Option<Self> {
        let authorities = WebPkiServerVerifier::builder_with_provider(roots, provider).build().ok()?;
        Some(CertificateTrust { authorities, named })
    }
}

impl Judge for CertificateTrust {
    fn judge(&self, shown: &Shown<'_>) -> Result<(), Error> {
        let Shown { own, intermediates, name, ocsp, now } = *shown;
        if self.named.iter().any(|named| named == own) {
            return verify_named(own, name, now);
        }
        let verdict = self.authorities.verify_server_cert(own, intermediates, name, ocsp, now);
        verdict.map(|_| ()).map_err(|error| match error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => unknown(own, intermediates),
            // One that is an authority's too is told as that before its signature is looked at.
            Error::InvalidCertificate(CertificateError::Other(_)) if self_signed(own) => unknown(own, intermediates),
            error => error,
        })
    }
}

/// A certificate that is named itself needs no authority; its dates and its name hold.
fn verify_named(own: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), Error> {
    let unreadable = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
    let (_, read) = X509Certificate::from_der(own).map_err(unreadable)?;
    let moment = |time: i64| {
        let seconds = u64::try_from(time).unwrap_or_default();
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
    };
    let (begin, end) = (moment(read.validity().not_before.timestamp()), moment(read.validity().not_after.timestamp()));
    if now > end {
        return Err(CertificateError::ExpiredContext { time: now, not_after: end }.into());
    }
    if now < begin {
        return Err(CertificateError::NotValidYetContext { time: now, not_before: begin }.into());
    }
    // Old habits: without names of its own, a certificate is for its common name (RFC 6125, 6.4.4).
    let nameless = matches!(read.subject_alternative_name(), Ok(None));
    let common = read.subject().iter_common_name().filter_map(|common| common.as_str().ok());
    if nameless && common.into_iter().any(|common| common.eq_ignore_ascii_case(&name.to_str())) {
        return Ok(());
    }
    verify_server_name(&ParsedCertificate::try_from(own)?, name)
}

/// Why nobody who is trusted has signed a certificate, as far as can be told.
#[derive(Debug)]
pub(super) struct UnknownIssuer {
    reason: DistrustReason,
    /// The issuer of the last certificate that came; for operators.
    issuer: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DistrustReason {
    /// The certificate has signed itself.
    SelfSigned,
    /// The certificate came alone, and its issuer is not trusted: mostly an intermediate certificate is missing.
    Alone,
    /// The certificate came with others, and none of their authorities is trusted.
    Authority,
}

impl UnknownIssuer {
    pub(super) fn detail(&self) -> &'static str {
        match self.reason {
            DistrustReason::SelfSigned => "is self-signed and not trusted",
            DistrustReason::Alone => "is signed by an unknown authority; no intermediate certificate came with it",
            DistrustReason::Authority => "is signed by an unknown authority",
        }
    }
}

impl fmt::Display for UnknownIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let issuer = &self.issuer;
        match self.reason {
            DistrustReason::SelfSigned => {
                write!(f, "UnknownIssuer: `{issuer}` has signed itself; name its file with `ca`")
            }
            DistrustReason::Alone => write!(
                f,
                "UnknownIssuer: `{issuer}` is not trusted, and the server sent no intermediate certificate; have it send its \
                 whole chain, or name the authority with `ca`"
            ),
            DistrustReason::Authority => {
                write!(f, "UnknownIssuer: `{issuer}` is not trusted; name the authority with `ca`")
            }
        }
    }
}

impl std::error::Error for UnknownIssuer {}

fn self_signed(own: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(own).is_ok_and(|(_, read)| read.issuer().as_raw() == read.subject().as_raw())
}

fn unknown(own: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) -> Error {
    let reason = match intermediates {
        _ if self_signed(own) => DistrustReason::SelfSigned,
        [] => DistrustReason::Alone,
        _ => DistrustReason::Authority,
    };
    let last = intermediates.last().unwrap_or(own);
    let issuer = X509Certificate::from_der(last).map(|(_, last)| last.issuer().to_string()).unwrap_or_default();
    CertificateError::Other(OtherError(Arc::new(UnknownIssuer { reason, issuer }))).into()
}
