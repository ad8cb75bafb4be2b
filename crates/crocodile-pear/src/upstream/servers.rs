//! The servers of an upstream, and what all calls to them share: bounds, the budget of retries, counters.

pub(crate) mod admission;
pub(crate) mod affinity;
pub(crate) mod balance;
pub(crate) mod choice;
pub(crate) mod concurrency_limit;
pub(crate) mod directed;
pub(crate) mod mirror;
pub(crate) mod retry;
pub(crate) mod server;
pub(crate) mod settings;
pub(crate) mod srv;
pub(crate) mod state;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::call::timeouts::Timeouts;
use super::connect::counters::{ConnectionCounters, ConnectionEvent};
use super::connect::location::Location;
use super::connect::pool::ConnectionBounds;
use super::health::HealthRules;
use crate::error::{Error, Kind};
use crate::message::xml_lists::Lists;
use crate::resilience::trial::Turn;
use crate::telemetry::histogram::{self, Histogram};
use crate::telemetry::log_limiter::LogLimiter;
use affinity::{Affinity, LoadBound};
use balance::{Balance, TriedServers, Way};
use concurrency_limit::InFlightLimit;
use retry::Retry;
use server::{Common, Server};
use settings::UpstreamSettings;

/// The parts that all calls to an upstream share, whichever servers it has now.
pub(super) struct SharedState {
    pub(super) name: Arc<str>,
    pub(super) in_flight: Arc<InFlightLimit>,
    pub(super) retry: Option<Arc<Retry>>,
    /// How long a server may answer no call while others answer; `None` with a single server.
    pub(super) silence: Option<Duration>,
    pub(super) timeouts: Timeouts,
    pub(super) max_head: usize,
    /// The elements that are lists, in answers that are XML.
    pub(super) lists: Lists,
    pub(super) counters: Arc<ConnectionCounters>,
    /// The share of the average load that a server may have, where values have their servers.
    pub(super) bound: Option<LoadBound>,
    /// The cookie that names a client's server.
    pub(super) cookie: Option<Arc<str>>,
    /// How long calls waited for their turn and for a connection.
    pub(super) waits: Arc<Histogram>,
    log_limiter: LogLimiter,
}

/// The servers of an upstream. Every call holds them as long as it lasts.
pub(super) struct Servers {
    pub(super) shared: Arc<SharedState>,
    pub(super) list: Box<[Arc<Server>]>,
    balance: Balance,
}

impl Deref for Servers {
    type Target = SharedState;

    fn deref(&self) -> &SharedState {
        &self.shared
    }
}

impl SharedState {
    /// The error, with the upstream's name. Calls rejected because a limit was reached are counted and logged.
    pub(super) fn reject(&self, error: Error) -> Error {
        if error.kind() == Kind::Busy {
            self.counters.count(ConnectionEvent::Rejected);
            if self.log_limiter.allows() {
                tracing::warn!(target: "crocodile_pear::upstream", upstream = &*self.name, "rejecting calls: {error}");
            }
        }
        error.of_upstream(&self.name)
    }

    pub(super) fn new(settings: &UpstreamSettings) -> Arc<Self> {
        let carry = &settings.carry;
        Arc::new(SharedState {
            name: settings.name.clone(),
            in_flight: carry.part(settings.in_flight).state(|| InFlightLimit::new(settings.in_flight)),
            retry: settings.retries().and_then(|rules| Retry::carried(rules, carry)),
            silence: settings.balance.silence.duration().filter(|_| settings.has_several()),
            timeouts: settings.timeouts.clone(),
            max_head: settings.max_head,
            lists: settings.lists.clone(),
            counters: carry.state(ConnectionCounters::default),
            bound: settings.balance.bound,
            cookie: (settings.balance.by == Way::Cookie && settings.has_several())
                .then(|| settings.balance.cookie.as_str().into()),
            waits: carry.state(|| Histogram::new(histogram::HTTP)),
            log_limiter: LogLimiter::default(),
        })
    }

    /// A server of this upstream, and how many have the same address before it.
    ///
    /// # Errors
    /// `Internal`, saying what is wrong with the URL.
    pub(super) fn server(
        &self,
        settings: &UpstreamSettings,
        (location, same): (&Location, usize),
    ) -> Result<Arc<Server>, Error> {
        let common = Common {
            tls: &settings.tls,
            protocol: settings.protocol,
            resolver: settings.resolver.as_ref(),
            host: settings.forward.named_host(),
            bounds: ConnectionBounds {
                connections: settings.connections.clone(),
                connect: settings.timeouts.connect,
                max_head: settings.max_head,
            },
            rules: HealthRules {
                health: settings.health.as_ref(),
                eject: settings.ejection(),
                breaker: settings.breaker.as_ref(),
            },
            counters: &self.counters,
            carry: settings.carry.part((&location.url, &location.socket, same)),
            program: settings.program.as_ref(),
        };
        let wrong = |detail: String| Error::new(Kind::Internal, detail).of_upstream(&self.name);
        Server::new(location, &common).map(Arc::new).map_err(wrong)
    }
}

impl Servers {
    /// The servers of the settings.
    ///
    /// # Errors
    /// `Internal`, saying what is wrong with the URL.
    pub(super) fn new(settings: &UpstreamSettings) -> Result<Self, Error> {
        let shared = SharedState::new(settings);
        let before = |at: usize, location: &Location| {
            let place = |other: &&Location| (&other.url, &other.socket) == (&location.url, &location.socket);
            settings.servers[..at].iter().filter(place).count()
        };
        let servers = settings.servers.iter().enumerate();
        let list = servers.map(|(at, location)| shared.server(settings, (location, before(at, location))));
        let list = list.collect::<Result<Box<[_]>, _>>()?;
        if list.is_empty() {
            let error = Error::new(Kind::Internal, "an upstream needs a URL".to_owned());
            return Err(error.of_upstream(&shared.name));
        }
        let groups = [list.len()];
        Ok(Servers::of(shared, list, settings.balance.by, &groups))
    }

    /// These servers; `groups` are the numbers of those with the same priority, the first to be called first.
    pub(super) fn of(shared: Arc<SharedState>, list: Box<[Arc<Server>]>, by: Way, groups: &[usize]) -> Self {
        Servers { balance: Balance::new(by, &list, groups), shared, list }
    }

    /// Chooses a server, if possible one that the call was not sent to.
    ///
    /// # Errors
    /// `Busy`, if all breakers are open; `Unreachable`, if there is no server.
    pub(super) fn choose(&self, tried: TriedServers, affinity: Option<u64>) -> Result<(usize, Turn), Error> {
        let affinity = affinity.map(|value| Affinity { value, bound: self.bound });
        self.balance.choose(&self.list, tried, affinity)
    }
}
