//! Counts how handshakes ended.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustls::{CertificateError, Error, HandshakeKind};

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFailure {
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

impl HandshakeFailure {
    const ALL: [HandshakeFailure; 9] = [
        HandshakeFailure::ClientGone,
        HandshakeFailure::Timeout,
        HandshakeFailure::NotTls,
        HandshakeFailure::Incompatible,
        HandshakeFailure::NoCertificate,
        HandshakeFailure::CertificateMissing,
        HandshakeFailure::CertificateRefused,
        HandshakeFailure::RefusedByClient,
        HandshakeFailure::Protocol,
    ];

    /// The value of the label.
    pub fn name(self) -> &'static str {
        match self {
            HandshakeFailure::ClientGone => "client-gone",
            HandshakeFailure::Timeout => "timeout",
            HandshakeFailure::NotTls => "not-tls",
            HandshakeFailure::Incompatible => "incompatible",
            HandshakeFailure::NoCertificate => "no-certificate",
            HandshakeFailure::CertificateMissing => "certificate-missing",
            HandshakeFailure::CertificateRefused => "certificate-refused",
            HandshakeFailure::RefusedByClient => "refused-by-client",
            HandshakeFailure::Protocol => "protocol",
        }
    }

    pub(super) fn from_error(error: &io::Error) -> Self {
        let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<Error>()) else {
            return HandshakeFailure::ClientGone;
        };
        match error {
            Error::NoCertificatesPresented => HandshakeFailure::CertificateMissing,
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => HandshakeFailure::CertificateRefused,
            Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => HandshakeFailure::CertificateRefused,
            // The error of rustls if the resolver returns no certificate.
            Error::General(text) if text.contains("no server certificate chain resolved") => {
                HandshakeFailure::NoCertificate
            }
            Error::AlertReceived(_) => HandshakeFailure::RefusedByClient,
            Error::InvalidMessage(_) => HandshakeFailure::NotTls,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => HandshakeFailure::Incompatible,
            _ => HandshakeFailure::Protocol,
        }
    }
}

/// The handshakes of a listener. They are rare compared with requests, so all cores share the counters.
#[derive(Debug, Default)]
pub struct HandshakeCounters {
    full: AtomicU64,
    resumed: AtomicU64,
    failed: [AtomicU64; HandshakeFailure::ALL.len()],
}

impl HandshakeCounters {
    pub(super) fn done(&self, kind: Option<HandshakeKind>) {
        match kind {
            Some(HandshakeKind::Resumed) => self.resumed.fetch_add(1, Relaxed),
            _ => self.full.fetch_add(1, Relaxed),
        };
    }

    pub(super) fn fail(&self, reason: HandshakeFailure) {
        self.failed[reason as usize].fetch_add(1, Relaxed);
    }

    /// Successful handshakes: full ones and resumed sessions.
    pub fn handshakes(&self) -> [(&'static str, u64); 2] {
        [("full", self.full.load(Relaxed)), ("resumed", self.resumed.load(Relaxed))]
    }

    /// Failed handshakes, by reason.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        HandshakeFailure::ALL.iter().zip(&self.failed).map(|(reason, count)| (reason.name(), count.load(Relaxed)))
    }
}
