//! Counts how handshakes ended.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustls::{CertificateError, Error, HandshakeKind};

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The client left during the handshake.
    ClientGone,
    /// The handshake took too long.
    Timeout,
    /// The client did not speak TLS.
    NotTls,
    /// No version, cipher suite or application protocol in common.
    Incompatible,
    /// There is no certificate yet: the first one was ordered and has not arrived.
    NoCertificate,
    /// The client showed no certificate, but one is required.
    CertificateMissing,
    /// The client's certificate was not accepted.
    CertificateRefused,
    /// The client refused with an alert, usually because it does not trust the certificate.
    RefusedByClient,
    /// Any other violation of the protocol.
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

    /// The value of the label.
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
            // The error of rustls if the resolver returns no certificate.
            Error::General(text) if text.contains("no server certificate chain resolved") => Reason::NoCertificate,
            Error::AlertReceived(_) => Reason::RefusedByClient,
            Error::InvalidMessage(_) => Reason::NotTls,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Reason::Incompatible,
            _ => Reason::Protocol,
        }
    }
}

/// The handshakes of a listener. They are rare compared with requests, so all cores share the counters.
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

    /// Successful handshakes: full ones and resumed sessions.
    pub fn handshakes(&self) -> [(&'static str, u64); 2] {
        [("full", self.full.load(Relaxed)), ("resumed", self.resumed.load(Relaxed))]
    }

    /// Failed handshakes, by reason.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Reason::ALL.iter().zip(&self.failed).map(|(reason, count)| (reason.name(), count.load(Relaxed)))
    }
}
