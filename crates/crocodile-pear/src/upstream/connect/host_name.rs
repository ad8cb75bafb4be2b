//! A name and its port: connections to the first of its addresses that answers.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::TcpStream;

use super::address_race::{Memory, race};
use super::dial::{LATE, connect};
use super::resolve::{Lookup, News, Resolver};
use crate::config::spec::Timeout;
use crate::error::Kind;
use crate::net::connect_error::ConnectFault;
use crate::runtime::deadline_timer::within;

/// A name and its port.
pub(crate) struct HostName {
    name: Box<str>,
    port: u16,
    resolver: Resolver,
    /// Looked up from the first call on.
    known: OnceLock<Lookup<IpAddr>>,
    turn: AtomicUsize,
    memory: Memory,
}

impl HostName {
    /// A name that is looked up by this resolver, or by the system's.
    pub(crate) fn new(name: &str, port: u16, resolver: Option<Resolver>) -> Self {
        let resolver = resolver.unwrap_or_default();
        // What the configuration before has looked up is known at once.
        let known = resolver.followed(name).map_or_else(OnceLock::new, OnceLock::from);
        HostName { name: name.into(), port, resolver, known, turn: AtomicUsize::new(0), memory: Memory::default() }
    }

    fn news(&self) -> Option<&News> {
        self.known.get().map(Lookup::news)
    }

    /// How often its addresses have changed.
    pub(crate) fn changes(&self) -> u32 {
        self.news().map_or(0, News::changes)
    }

    /// Failed DNS lookups.
    pub(crate) fn failures(&self) -> u64 {
        self.news().map_or(0, News::failures)
    }

    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.known.get().and_then(Lookup::now).is_none_or(|addresses| addresses.contains(&address))
    }

    /// Begins to look it up.
    pub(crate) fn follow(&self) -> &Lookup<IpAddr> {
        self.known.get_or_init(|| self.resolver.follow(&self.name))
    }

    /// The addresses, once some are known.
    ///
    /// # Errors
    /// `Unreachable` if there are none, `Timeout` if that is not known in time.
    pub(crate) async fn addresses(&self, limit: Timeout) -> Result<Arc<[IpAddr]>, ConnectFault> {
        let known = self.follow().known();
        let known = match limit {
            Timeout::Never => known.await,
            Timeout::After(limit) => within(limit, known).await.ok_or_else(|| self.late(limit))?,
        };
        known.map_err(|reason| self.unknown(&reason))
    }

    /// DNS has not answered within a time.
    pub(crate) fn late(&self, time: Duration) -> ConnectFault {
        let why = format!("DNS: no answer for {} within {time:?}", self.name);
        ConnectFault::new(Kind::Timeout, LATE, why)
    }

    /// Why no address is known, if none is.
    pub(crate) fn why_unknown(&self) -> Option<Arc<str>> {
        self.follow().why_unknown()
    }

    pub(crate) fn text(&self) -> &str {
        &self.name
    }

    fn unknown(&self, reason: &str) -> ConnectFault {
        ConnectFault::new(Kind::Unreachable, "no address", format!("no address is known for {}: {reason}", self.name))
    }

    /// Connects to the first of these addresses that answers.
    ///
    /// # Errors
    /// The error of the first address that failed, or `Unreachable` if there is none.
    pub(crate) async fn connect(&self, addresses: Arc<[IpAddr]>) -> Result<TcpStream, ConnectFault> {
        // Each connection begins with the next address, so that the load is spread.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let connect = |address| connect(SocketAddr::new(address, self.port));
        let connected = race(&self.memory, &addresses, turn, connect).await;
        connected.unwrap_or_else(|| {
            Err(match addresses.len() {
                0 => self.unknown("it has none"),
                count => {
                    let why = format!("none of the {count} addresses of {} answers", self.name);
                    ConnectFault::new(Kind::Timeout, LATE, why)
                }
            })
        })
    }
}
