//! The thread that looks names up, and again before an answer expires.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::ask::{Answer, addresses, targets};
use super::known::{Known, News, Target};
use super::system::{LOOK, Source, Stamp};

/// Names that may wait for the thread, which accepts each at once.
const QUEUE: usize = 1024;
/// The shortest time between two lookups, whatever the TTL.
const SOONEST: Duration = Duration::from_secs(1);
/// The longest.
const LATEST: Duration = Duration::from_secs(3600);
/// The time to the next lookup after a failed one. The last known addresses are used meanwhile.
const AGAIN: Duration = Duration::from_secs(2);

const TARGET: &str = "crocodile_pear::upstream";

/// A name to follow.
pub(crate) enum Order {
    Addresses(Following<IpAddr>),
    Service(Following<Target>),
}

/// Where the answers of a name go.
pub(crate) struct Following<T> {
    pub(super) name: Box<str>,
    pub(super) known: watch::Sender<Known<T>>,
    pub(super) news: Arc<News>,
}

/// Starts the thread, which asks these name servers, or those of the system.
pub(super) fn start(servers: Vec<SocketAddr>) -> mpsc::Sender<Order> {
    let (names, orders) = mpsc::channel(QUEUE);
    let started = thread::Builder::new().name("resolver".into()).spawn(move || run(&servers, orders));
    if let Err(error) = started {
        tracing::error!(%error, "cannot start the DNS resolver thread; no name can be resolved");
    }
    names
}

fn run(servers: &[SocketAddr], mut orders: mpsc::Receiver<Order>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "cannot start the DNS resolver; no name can be resolved"),
    };
    runtime.block_on(async {
        // Before the files are read: a change in between is seen.
        let (mut seen, mut read) = (Stamp::now(), Stamp::now());
        let source = watch::Sender::new(Arc::new(Source::read(servers)));
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Addresses(order)) => {
                        tokio::spawn(follow(order, source.subscribe(), async |source, name| addresses(source, name).await));
                    }
                    Some(Order::Service(order)) => {
                        tokio::spawn(follow(order, source.subscribe(), async |source, name| targets(source, name).await));
                    }
                    None => return,
                },
                _ = look.tick() => {
                    let now = Stamp::now();
                    let settled = std::mem::replace(&mut seen, now) == now;
                    if settled && now != read {
                        read = now;
                        tracing::info!(target: TARGET, "`/etc/resolv.conf` or `/etc/hosts` has changed and was read again");
                        source.send_replace(Arc::new(Source::read(servers)));
                    }
                }
            }
        }
    });
}

/// Looks a name up again and again.
async fn follow<T: Clone + std::fmt::Debug + PartialEq>(
    order: Following<T>,
    mut source: watch::Receiver<Arc<Source>>,
    look: impl AsyncFn(&Source, &str) -> Answer<T>,
) {
    let mut failing = false;
    loop {
        let asked = source.borrow_and_update().clone();
        let found = tokio::select! {
            found = look(&asked, &order.name) => found,
            // The servers that were asked are those of before.
            Ok(()) = source.changed() => continue,
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
                    let known = matches!(*order.known.borrow(), Known::These(_));
                    let then = if known { "using the last known addresses" } else { "no address is known" };
                    tracing::warn!(target: TARGET, name = %order.name, error, "DNS lookup failed; {then}");
                }
                order.failed(&error);
                AGAIN
            }
        };
        tokio::select! {
            () = tokio::time::sleep(next) => {}
            Ok(()) = source.changed() => {}
            () = order.known.closed() => return,
        }
    }
}

impl<T: Clone + std::fmt::Debug + PartialEq> Following<T> {
    fn found(&self, these: Arc<[T]>) {
        let found = Known::These(these.clone());
        let before = self.known.borrow().clone();
        if before == found {
            return;
        }
        let changed = matches!(before, Known::These(_));
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
            let none = !matches!(known, Known::These(_));
            if none {
                *known = Known::Nothing(error.into());
            }
            none
        });
    }
}
