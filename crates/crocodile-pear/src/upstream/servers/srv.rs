//! A DNS service: the servers of an upstream are those that its SRV records name (RFC 2782).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwapOption;

use super::balance::gcd;
use super::server::{PublicOrigin, Server};
use super::settings::UpstreamSettings;
use super::{Servers, SharedState};
use crate::config::spec::Timeout;
use crate::error::{Error, Kind};
use crate::upstream::connect::location::{DnsService, Location, MOST_WEIGHT};
use crate::upstream::connect::resolve::{Lookup, News, SrvRecord};

/// The most servers of a service; further records are left out.
const MOST_SERVERS: usize = 64;

/// The servers of a service, as its records are now.
pub(crate) struct FoundServers {
    /// The name of the service as a URL, for all of its servers.
    pub(crate) face: PublicOrigin,
    service: DnsService,
    settings: UpstreamSettings,
    shared: Arc<SharedState>,
    /// Looked up from the first call on.
    lookup: OnceLock<Lookup<SrvRecord>>,
    now: ArcSwapOption<Servers>,
    /// The change that `now` was made of.
    made: AtomicU32,
    making: Mutex<()>,
}

impl FoundServers {
    /// # Errors
    /// `Internal`, if the URL is wrong.
    pub(crate) fn new(
        service: DnsService,
        settings: UpstreamSettings,
        shared: Arc<SharedState>,
    ) -> Result<Self, Error> {
        let face = settings.servers.first().and_then(|written| PublicOrigin::from_url(&written.url));
        let nowhere = || Error::new(Kind::Internal, "an upstream needs a URL").of_upstream(&shared.name);
        // What the configuration before has looked up is known at once.
        let known = settings.resolver.clone().unwrap_or_default().followed(&service.0);
        Ok(FoundServers {
            face: face.ok_or_else(nowhere)?,
            service,
            settings,
            shared,
            lookup: known.map_or_else(OnceLock::new, OnceLock::from),
            now: ArcSwapOption::empty(),
            made: AtomicU32::new(0),
            making: Mutex::new(()),
        })
    }

    /// Failed DNS lookups, and changes of the records.
    pub(crate) fn figures(&self) -> (u64, u64) {
        self.news().map_or((0, 0), |news| (news.failures(), news.changes().into()))
    }

    /// The name of the service, and why none of its servers is known, if none is.
    pub(crate) fn unknown(&self) -> Option<(&str, Arc<str>)> {
        Some((&self.service.0, self.lookup().why_unknown()?))
    }

    /// The servers; nothing, before the records were looked up.
    pub(crate) fn now(&self) -> Option<Arc<Servers>> {
        self.made().or_else(|| {
            self.make();
            self.now.load_full()
        })
    }

    /// The servers that were made of the records as they are.
    fn made(&self) -> Option<Arc<Servers>> {
        let current = self.made.load(Ordering::Acquire) == self.changes();
        current.then(|| self.now.load_full()).flatten()
    }

    /// The servers, once the records were looked up.
    ///
    /// # Errors
    /// `Unreachable` if none are known, `Timeout` if that is not known in time.
    pub(crate) async fn wait(&self, limit: Timeout) -> Result<Arc<Servers>, Error> {
        let known = self.lookup().known();
        let known = match limit {
            Timeout::Never => known.await,
            Timeout::After(limit) => {
                let late = |_| Error::new(Kind::Timeout, "the servers were not known in time");
                tokio::time::timeout(limit, known).await.map_err(late)?
            }
        };
        let none = || Error::new(Kind::Unreachable, "no server is known");
        if known.is_err() {
            return Err(none());
        }
        self.now().ok_or_else(none)
    }

    /// Waits for servers other than these.
    pub(crate) async fn next(&self, before: Option<&Arc<Servers>>) -> Arc<Servers> {
        let mut changes = self.lookup().changes();
        loop {
            match self.now() {
                Some(now) if before.is_none_or(|before| !Arc::ptr_eq(&now, before)) => return now,
                _ => changes.next().await,
            }
        }
    }

    fn news(&self) -> Option<&News> {
        self.lookup.get().map(Lookup::news)
    }

    fn changes(&self) -> u32 {
        self.news().map_or(0, News::changes)
    }

    fn lookup(&self) -> &Lookup<SrvRecord> {
        let resolver = || self.settings.resolver.clone().unwrap_or_default();
        self.lookup.get_or_init(|| resolver().follow(&self.service.0))
    }

    /// Makes the servers of the records. Those that were there before keep their connections and their state.
    fn make(&self) {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.made().is_some() {
            return;
        }
        // Before the records are read: a change in between is seen by the next call.
        let change = self.changes();
        let Some(records) = self.lookup.get().and_then(Lookup::now) else { return };
        let before = self.now.load_full();
        let known = before.as_ref().map_or(&[][..], |servers| &servers.list);
        let weights = scaled(&records);
        let (mut list, mut groups, mut priority) = (Vec::new(), Vec::<usize>::new(), None);
        for (record, weight) in records.iter().zip(weights).take(MOST_SERVERS) {
            let server = match self.server(record, weight, known) {
                Ok(server) => server,
                Err(error) => {
                    tracing::warn!(target: TARGET, upstream = &*self.shared.name, "a server of an SRV record is left out: {error}");
                    continue;
                }
            };
            list.push(server);
            match groups.last_mut() {
                Some(number) if priority == Some(record.priority) => *number += 1,
                _ => groups.push(1),
            }
            priority = Some(record.priority);
        }
        if records.len() > MOST_SERVERS {
            let (left, upstream) = (records.len() - MOST_SERVERS, &*self.shared.name);
            tracing::warn!(target: TARGET, upstream, "more than {MOST_SERVERS} servers: {left} SRV records are left out");
        }
        let servers = Servers::of(self.shared.clone(), list.into(), self.settings.balance.by, &groups);
        self.now.store(Some(Arc::new(servers)));
        self.made.store(change, Ordering::Release);
    }

    fn server(&self, record: &SrvRecord, weight: u32, known: &[Arc<Server>]) -> Result<Arc<Server>, Error> {
        let authority = format!("{}:{}", record.host, record.port);
        if let Some(server) = known.iter().find(|server| *server.face.authority == *authority) {
            server.weight.store(weight, Ordering::Relaxed);
            return Ok(server.clone());
        }
        let wrong = |why: String| Error::new(Kind::Internal, format!("{authority}: {why}"));
        let written = self.settings.servers.first().ok_or_else(|| wrong("no URL".to_owned()))?;
        let mut parts = written.url.clone().into_parts();
        parts.authority = Some(authority.parse().map_err(|_| wrong("it has no host name".to_owned()))?);
        let url = parts.try_into().map_err(|_| wrong("it has no host name".to_owned()))?;
        self.shared.server(&self.settings, (&Location { url, weight, socket: None }, 0))
    }
}

/// The weights as those of servers in the configuration: relative to each other, 1 to 100. A record may have 0 to 65,535.
fn scaled(records: &[SrvRecord]) -> Vec<u32> {
    let shared = records.iter().fold(0, |shared, record| gcd(shared, record.weight.into())).max(1);
    let weights = records.iter().map(|record| u32::from(record.weight) / shared);
    let most = weights.clone().max().unwrap_or_default();
    weights.map(|weight| (weight * MOST_WEIGHT.min(most) / most.max(1)).max(1)).collect()
}

const TARGET: &str = "crocodile_pear::upstream";
