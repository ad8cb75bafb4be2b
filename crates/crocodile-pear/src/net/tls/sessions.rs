//! Sessions of TLS that may be resumed. A resumed session shows no certificate, so the certificate that was checked
//! bounds it: after its end, and at least once an hour, the next connection makes a whole handshake.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConnection, HandshakeKind, NamedGroup};
use x509_parser::prelude::{FromDer, X509Certificate};

/// A server that shows another certificate now is noticed within this time, in seconds.
const LONGEST: u64 = 3600;

/// The sessions of one server.
pub(super) struct Sessions {
    kept: ClientSessionMemoryCache,
    /// Until when sessions may be resumed, in seconds since 1970.
    until: AtomicU64,
}

impl Sessions {
    /// Keeps so many.
    pub(super) fn new(size: usize) -> Self {
        Sessions { kept: ClientSessionMemoryCache::new(size), until: AtomicU64::new(0) }
    }

    /// A handshake has succeeded: one that showed certificates says how long its sessions are good.
    pub(super) fn note(&self, session: &ClientConnection) {
        if session.handshake_kind() != Some(HandshakeKind::Resumed) {
            self.checked(session.peer_certificates().unwrap_or_default());
        }
    }

    fn checked(&self, shown: &[CertificateDer<'_>]) {
        let end = |certificate: &CertificateDer<'_>| {
            let (_, read) = X509Certificate::from_der(certificate).ok()?;
            u64::try_from(read.validity().not_after.timestamp()).ok()
        };
        let end = shown.iter().filter_map(end).min().unwrap_or_default();
        self.until.store(end.min(UnixTime::now().as_secs() + LONGEST), Ordering::Relaxed);
    }

    fn may_resume(&self) -> bool {
        UnixTime::now().as_secs() < self.until.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions")
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.kept.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.kept.set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.may_resume().then(|| self.kept.tls12_session(name)).flatten()
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.kept.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.kept.insert_tls13_ticket(name, value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.may_resume().then(|| self.kept.take_tls13_ticket(name)).flatten()
    }
}
