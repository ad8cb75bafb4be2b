//! The known records of a name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::watch;

/// An SRV record: a server of a service (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SrvRecord {
    pub(crate) priority: u16,
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
    pub(crate) weight: u16,
}

/// Counters of a name.
#[derive(Default)]
pub(crate) struct News {
    /// How often its addresses have changed.
    changes: AtomicU32,
    /// Failed DNS lookups.
    failures: AtomicU64,
}

impl News {
    /// How often what is known of the name has changed.
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// Failed DNS lookups.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Counts a change.
    pub(super) fn change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Counts a failed lookup.
    pub(super) fn fail(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// The known records of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KnownRecords<T> {
    NotYet,
    /// No lookup has succeeded so far: why the last one failed.
    Nothing(Arc<str>),
    These(Arc<[T]>),
}

/// A name that is followed.
pub(crate) struct Followed<T> {
    pub(super) known: watch::Receiver<KnownRecords<T>>,
    pub(super) news: Arc<News>,
}

/// A name that is looked up again and again, for as long as this or a clone of it lives.
pub(crate) struct Lookup<T>(pub(super) Arc<Followed<T>>);

impl<T> Clone for Lookup<T> {
    fn clone(&self) -> Self {
        Lookup(self.0.clone())
    }
}

impl<T> Lookup<T> {
    /// The records that are known now.
    pub(crate) fn now(&self) -> Option<Arc<[T]>> {
        match &*self.0.known.borrow() {
            KnownRecords::These(known) => Some(known.clone()),
            KnownRecords::NotYet | KnownRecords::Nothing(_) => None,
        }
    }

    /// Why nothing is known, if nothing is.
    pub(crate) fn why_unknown(&self) -> Option<Arc<str>> {
        match &*self.0.known.borrow() {
            KnownRecords::These(known) if known.is_empty() => Some("it has no address".into()),
            KnownRecords::These(_) => None,
            KnownRecords::Nothing(reason) => Some(reason.clone()),
            KnownRecords::NotYet => Some("DNS has not answered yet".into()),
        }
    }

    /// The records that are known after the first lookup, or why there are none.
    pub(crate) async fn known(&self) -> Result<Arc<[T]>, Arc<str>> {
        // An error means that the thread has ended.
        let _ = self.0.known.clone().wait_for(|known| !matches!(known, KnownRecords::NotYet)).await;
        match &*self.0.known.borrow() {
            KnownRecords::These(known) => Ok(known.clone()),
            KnownRecords::Nothing(reason) => Err(reason.clone()),
            KnownRecords::NotYet => Err("the DNS resolver could not be started".into()),
        }
    }

    /// Everything that becomes known from now on.
    pub(crate) fn changes(&self) -> Changes<T> {
        let mut known = self.0.known.clone();
        known.mark_unchanged();
        Changes(known)
    }

    /// The counters.
    pub(crate) fn news(&self) -> &News {
        &self.0.news
    }
}

/// The changes of a name's records.
pub(crate) struct Changes<T>(watch::Receiver<KnownRecords<T>>);

impl<T> Changes<T> {
    /// Waits for the next change.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The thread has ended: nothing changes any more.
            std::future::pending::<()>().await;
        }
    }
}
