//! The thread that looks names up, and again before an answer expires.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::ask::{LookupResult, addresses, targets};
use super::known::{KnownRecords, News, SrvRecord};
use super::system::{LOOK, ResolverStamp, SystemResolver};

/// Names that may wait for the thread, which accepts each at once.
const QUEUE: usize = 1024;
/// The shortest time between two lookups, whatever the TTL.
const SOONEST: Duration = Duration::from_secs(1);
/// The longest.
const LATEST: Duration = Duration::from_secs(3600);
/// The time to the next lookup after a failed one. The last known addresses are used meanwhile.
const AGAIN: Duration = Duration::from_secs(2);

const TARGET: &str = "crocodile_pear::upstream";

pub(crate) enum FollowedName {
    Addresses(Following<IpAddr>),
    Service(Following<SrvRecord>),
}

/// Where the answers of a name go.
pub(crate) struct Following<T> {
    pub(super) name: Box<str>,
    pub(super) known: watch::Sender<KnownRecords<T>>,
    pub(super) news: Arc<News>,
}

/// Starts the thread, which asks these name servers, or those of the system.
pub(super) fn start(servers: Vec<SocketAddr>) -> mpsc::Sender<FollowedName> {
    let (names, orders) = mpsc::channel(QUEUE);
    let started = thread::Builder::new().name("resolver".into()).spawn(move || run(&servers, orders));
    if let Err(error) = started {
        tracing::error!(%error, "cannot start the DNS resolver thread; no name can be resolved");
    }
    names
}

fn run(servers: &[SocketAddr], mut orders: mpsc::Receiver<FollowedName>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "cannot start the DNS resolver; no name can be resolved"),
    };
    runtime.block_on(async {
        // Before the files are read: a change in between is seen.
        let (mut seen, mut read) = (ResolverStamp::now(), ResolverStamp::now());
        let system = watch::Sender::new(Arc::new(SystemResolver::read(servers)));
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(FollowedName::Addresses(order)) => {
                        tokio::spawn(follow(order, system.subscribe(), async |system, name| addresses(system, name).await));
                    }
                    Some(FollowedName::Service(order)) => {
                        tokio::spawn(follow(order, system.subscribe(), async |system, name| targets(system, name).await));
                    }
                    None => return,
                },
                _ = look.tick() => {
                    let now = ResolverStamp::now();
                    let settled = std::mem::replace(&mut seen, now) == now;
                    if settled && now != read {
                        read = now;
                        tracing::info!(target: TARGET, "`/etc/resolv.conf` or `/etc/hosts` has changed and was read again");
                        system.send_replace(Arc::new(SystemResolver::read(servers)));
                    }
                }
            }
        }
    });
}

/// Looks a name up again and again.
async fn follow<T: Clone + std::fmt::Debug + PartialEq>(
    order: Following<T>,
    mut system: watch::Receiver<Arc<SystemResolver>>,
    look: impl AsyncFn(&SystemResolver, &str) -> LookupResult<T>,
) {
    let mut failing = false;
    loop {
        let asked = system.borrow_and_update().clone();
        let found = tokio::select! {
            found = look(&asked, &order.name) => found,
            // The servers that were asked are those of before.
            Ok(()) = system.changed() => continue,
        };
        let next = match found {
            Ok((found, until)) => {
                order.found(found);
                if std::mem::take(&mut failing) {
                    tracing::info!(target: TARGET, name = %order.name, "DNS lookup succeeds again");
                }
                let left = until.saturating_duration_since(std::time::Instant::now());
                // Before it expires, so that no call waits for a lookup.
                (left * 9 / 10).clamp(SOONEST, LATEST)
            }
            Err(error) => {
                // One warning per outage.
                if !std::mem::replace(&mut failing, true) {
                    let known = matches!(*order.known.borrow(), KnownRecords::These(_));
                    let then = if known { "using the last known addresses" } else { "no address is known" };
                    tracing::warn!(target: TARGET, name = %order.name, error, "DNS lookup failed; {then}");
                }
                order.failed(&error);
                AGAIN
            }
        };
        tokio::select! {
            () = tokio::time::sleep(next) => {}
            Ok(()) = system.changed() => {}
            () = order.known.closed() => return,
        }
    }
}

impl<T: Clone + std::fmt::Debug + PartialEq> Following<T> {
    fn found(&self, these: Arc<[T]>) {
        let found = KnownRecords::These(these.clone());
        let before = self.known.borrow().clone();
        if before == found {
            return;
        }
        let changed = matches!(before, KnownRecords::These(_));
        self.known.send_modify(|known| {
            *known = found;
            // Under the same lock as the answer, so that a reader that sees the answer also sees the count.
            if changed {
                self.news.change();
            }
        });
        if changed {
            tracing::info!(target: TARGET, name = %self.name, addresses = ?these, "DNS: the addresses have changed");
        }
    }

    /// The last known addresses stay in use.
    fn failed(&self, error: &str) {
        self.news.fail();
        self.known.send_if_modified(|known| {
            let none = !matches!(known, KnownRecords::These(_));
            if none {
                *known = KnownRecords::Nothing(error.into());
            }
            none
        });
    }
}
