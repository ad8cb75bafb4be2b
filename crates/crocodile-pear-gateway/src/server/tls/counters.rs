//! How handshakes ended.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustls::{CertificateError, Error, HandshakeKind};

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The client left before it was done.
    ClientGone,
    /// It took too long.
    Timeout,
    /// What came was no TLS.
    NotTls,
    /// No version, cipher suite or application protocol in common.
    Incompatible,
    /// There is no certificate to show yet: the first one was ordered and has not come.
    NoCertificate,
    /// The client showed no certificate though one is required.
    CertificateMissing,
    /// The client's certificate is not acceptable.
    CertificateRefused,
    /// The client refused with an alert, mostly because it does not trust the certificate.
    RefusedByClient,
    /// Anything else against the protocol.
    Protocol,
}

impl Reason {
    const ALL: [Reason; 9] = [
        Reason::ClientGone,
        Reason::Timeout,
        Reason::NotTls,
        Reason::Incompatible,
        Reason::NoCertificate,
        Reason::CertificateMissing,
        Reason::CertificateRefused,
        Reason::RefusedByClient,
        Reason::Protocol,
    ];

    /// As a label.
    pub fn name(self) -> &'static str {
        match self {
            Reason::ClientGone => "client-gone",
            Reason::Timeout => "timeout",
            Reason::NotTls => "not-tls",
            Reason::Incompatible => "incompatible",
            Reason::NoCertificate => "no-certificate",
            Reason::CertificateMissing => "certificate-missing",
            Reason::CertificateRefused => "certificate-refused",
            Reason::RefusedByClient => "refused-by-client",
            Reason::Protocol => "protocol",
        }
    }

    pub(super) fn of(error: &io::Error) -> Self {
        let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<Error>()) else {
            return Reason::ClientGone;
        };
        match error {
            Error::NoCertificatesPresented => Reason::CertificateMissing,
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => Reason::CertificateRefused,
            Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => Reason::CertificateRefused,
            // What rustls says where a resolver has no certificate.
            Error::General(text) if text.contains("no server certificate chain resolved") => Reason::NoCertificate,
            Error::AlertReceived(_) => Reason::RefusedByClient,
            Error::InvalidMessage(_) => Reason::NotTls,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Reason::Incompatible,
            _ => Reason::Protocol,
        }
    }
}

/// The handshakes of a listener: few in comparison with requests, so that all cores share them.
#[derive(Debug, Default)]
pub struct Counters {
    full: AtomicU64,
    resumed: AtomicU64,
    failed: [AtomicU64; Reason::ALL.len()],
}

impl Counters {
    pub(super) fn done(&self, kind: Option<HandshakeKind>) {
        match kind {
            Some(HandshakeKind::Resumed) => self.resumed.fetch_add(1, Relaxed),
            _ => self.full.fetch_add(1, Relaxed),
        };
    }

    pub(super) fn fail(&self, reason: Reason) {
        self.failed[reason as usize].fetch_add(1, Relaxed);
    }

    /// Those that were done: full ones, and resumed sessions.
    pub fn handshakes(&self) -> [(&'static str, u64); 2] {
        [("full", self.full.load(Relaxed)), ("resumed", self.resumed.load(Relaxed))]
    }

    /// Those that failed, by reason.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Reason::ALL.iter().zip(&self.failed).map(|(reason, count)| (reason.name(), count.load(Relaxed)))
    }
}
