//! The certificates of the listeners while the gateway serves: their files are watched, and what they expire is told.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crocodile_pear::unstable::config::problem::{Problems, Severity};

use crate::config::Sources;
use crate::listeners::spec::{CompiledListener, ListenerTlsSpec, SOON};
use crate::server::{Day, Identity, ListenerSettings, Tls};

/// How often the files are looked at.
pub const LOOK: Duration = Duration::from_secs(1);

/// How often it is said that a certificate expires soon.
const REMIND: Duration = Duration::from_secs(24 * 60 * 60);

/// The listeners that have TLS, with the files of their certificates.
pub struct Certificates {
    /// From where the files are named.
    sources: Sources,
    listeners: Vec<WatchedListener>,
    reminded: Option<Instant>,
}

struct WatchedListener {
    address: String,
    settings: Arc<ListenerSettings>,
    spec: ListenerTlsSpec,
    /// The files as they were read, and as they were seen last.
    read: Vec<WatchedStamp>,
    seen: Vec<WatchedStamp>,
}

/// The marks that change when a file changes; `None` while the file is not there.
type WatchedStamp = Option<(u64, u64, i64, i64)>;

fn stamp(path: &Path) -> WatchedStamp {
    let known = fs::metadata(path).ok()?;
    Some((known.ino(), known.len(), known.mtime(), known.mtime_nsec()))
}

impl Certificates {
    /// The certificates of the listeners that serve. `sources` is where their files are named.
    pub fn new(listening: &[CompiledListener], sources: Sources) -> Self {
        let watched = |listener: &CompiledListener| {
            let spec = listener.tls.clone()?;
            let read = stamps(&spec, &sources);
            let (address, settings) = (listener.written.clone(), listener.settings.clone());
            Some(WatchedListener { address, settings, spec, seen: read.clone(), read })
        };
        let listeners = listening.iter().filter_map(watched).collect();
        Certificates { sources, listeners, reminded: Some(Instant::now()) }
    }

    /// After a reload of the configuration: the listeners that serve take what it says.
    pub fn reload(&mut self, listening: &[CompiledListener], sources: Sources) {
        self.sources = sources;
        for watched in &mut self.listeners {
            let Some(listener) = listening.iter().find(|listener| listener.written == watched.address) else {
                continue;
            };
            if let (Some(tls), Some(spec), Some(read)) = (&watched.settings.tls, &listener.tls, &listener.settings.tls)
            {
                tls.adopt(read);
                watched.spec = spec.clone();
                watched.read = stamps(spec, &self.sources);
                watched.seen = watched.read.clone();
            }
        }
    }

    /// Reads what has changed. What cannot be used is told, and the old certificates stay.
    pub fn look(&mut self) {
        for watched in &mut self.listeners {
            watched.look(&self.sources);
        }
        if self.reminded.is_none_or(|last| last.elapsed() >= REMIND) {
            self.reminded = Some(Instant::now());
            self.listeners.iter().for_each(|watched| watched.remind(SystemTime::now()));
        }
    }
}

fn stamps(spec: &ListenerTlsSpec, sources: &Sources) -> Vec<WatchedStamp> {
    spec.files().map(|written| stamp(&sources.path(written))).collect()
}

impl WatchedListener {
    fn look(&mut self, sources: &Sources) {
        let before = std::mem::replace(&mut self.seen, stamps(&self.spec, sources));
        // A certificate and its key are two files: once both stay as they are, they are read.
        if self.seen == self.read || self.seen != before {
            return;
        }
        self.read = self.seen.clone();
        let mut problems = Problems::default();
        let read = self.spec.compile(Default::default(), &|written| sources.beside(written), &mut problems);
        let address = self.address.as_str();
        match (&self.settings.tls, read) {
            (Some(tls), Some(read)) => {
                tls.adopt(&read);
                let expiry = read.setup().identities.iter().map(|one| one.expiry).min().map(Day);
                let expires = expiry.map(|day| day.to_string()).unwrap_or_default();
                tracing::info!(listener = address, expires, "new certificates are used from now on");
            }
            _ => tracing::error!(listener = address, "cannot use the new certificates; keeping the old ones"),
        }
        for problem in problems.into_sorted() {
            match problem.severity {
                Severity::Error => tracing::error!(listener = address, "{}", problem.message),
                Severity::Warning => tracing::warn!(listener = address, "{}", problem.message),
            }
        }
    }

    /// The certificates of files that expire soon, or have. Those that the gateway orders it renews by itself.
    fn expiring(&self, now: SystemTime) -> Vec<Identity> {
        let setup = self.settings.tls.iter().map(Tls::setup);
        setup.flat_map(|setup| setup.identities).filter(|identity| identity.expiry < now + SOON).collect()
    }

    /// Says which certificates expire soon, or have, and whether a revocation list is overdue.
    fn remind(&self, now: SystemTime) {
        let trust = self.settings.tls.as_ref().and_then(|tls| tls.setup().trust);
        if let Some(due) = trust.and_then(|trust| trust.next_update).filter(|due| *due < now) {
            let due = Day(due);
            tracing::warn!(listener = self.address, %due, "a certificate revocation list is overdue (`crl`)");
        }
        for identity in self.expiring(now) {
            let (name, expires) = (identity.label(), Day(identity.expiry));
            tracing::warn!(listener = self.address, name, %expires, "a certificate expires soon, or has expired");
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::super::certificate_watch::*;
    use crate::server::Setup;

    #[test]
    fn a_certificate_is_told_from_fourteen_days_before_it_expires() {
        let now = SystemTime::now();
        let day = Duration::from_secs(24 * 60 * 60);
        let mut params = CertificateParams::new(["shop.example".to_owned()]).expect("a name");
        (params.not_before, params.not_after) = ((now - day).into(), (now + 90 * day).into());
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed").pem();
        let identity = Identity::read(certificate.as_bytes(), key.serialize_pem().as_bytes(), now).expect("valid");
        let expiry = identity.expiry;
        let tls = Tls::new(Setup { identities: vec![identity], trust: None }).expect("randomness");
        let settings = Arc::new(ListenerSettings { tls: Some(tls), ..ListenerSettings::default() });
        let spec = crocodile_pear::unstable::config::spec::defaults();
        let watched = WatchedListener { address: String::new(), settings, spec, read: Vec::new(), seen: Vec::new() };
        let told = |before: Duration| watched.expiring(expiry - before).len();
        let second = Duration::from_secs(1);
        assert_eq!((told(14 * day + second), told(14 * day - second), told(Duration::ZERO)), (0, 1, 1));
    }
}
