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
use super::connect::counters::{Counters, Event};
use super::connect::location::Location;
use super::connect::pool::Bounds;
use super::health::Rules;
use crate::error::{Error, Kind};
use crate::message::xml_lists::Lists;
use crate::resilience::trial::Turn;
use crate::telemetry::histogram::{self, Histogram};
use crate::telemetry::log_limiter::LogLimiter;
use affinity::{Affinity, Bound};
use balance::{Balance, Tried, Way};
use concurrency_limit::Gate;
use retry::Retry;
use server::{Common, Server};
use settings::Settings;

/// The parts that all calls to an upstream share, whichever servers it has now.
pub(super) struct Shared {
    pub(super) name: Arc<str>,
    pub(super) gate: Arc<Gate>,
    pub(super) retry: Option<Arc<Retry>>,
    /// How long a server may answer no call while others answer; `None` with a single server.
    pub(super) silence: Option<Duration>,
    pub(super) timeouts: Timeouts,
    pub(super) max_head: usize,
    /// The elements that are lists, in answers that are XML.
    pub(super) lists: Lists,
    pub(super) counters: Arc<Counters>,
    /// The share of the average load that a server may have, where values have their servers.
    pub(super) bound: Option<Bound>,
    /// The cookie that names a client's server.
    pub(super) cookie: Option<Arc<str>>,
    /// How long calls waited for their turn and for a connection.
    pub(super) waits: Arc<Histogram>,
    log_limiter: LogLimiter,
}

/// The servers of an upstream. Every call holds them as long as it lasts.
pub(super) struct Servers {
    pub(super) shared: Arc<Shared>,
    pub(super) list: Box<[Arc<Server>]>,
    balance: Balance,
}

impl Deref for Servers {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Shared {
    /// The error, with the upstream's name. Calls rejected because a limit was reached are counted and logged.
    pub(super) fn turn_away(&self, error: Error) -> Error {
        if error.kind() == Kind::Busy {
            self.counters.count(Event::TurnedAway);
            if self.log_limiter.allows() {
                tracing::warn!(target: "crocodile_pear::upstream", upstream = &*self.name, "rejecting calls: {error}");
            }
        }
        error.of_upstream(&self.name)
    }

    pub(super) fn new(settings: &Settings) -> Arc<Self> {
        let carry = &settings.carry;
        Arc::new(Shared {
            name: settings.name.clone(),
            gate: carry.part(settings.in_flight).state(|| Gate::new(settings.in_flight)),
            retry: settings.retries().and_then(|rules| Retry::carried(rules, carry)),
            silence: settings.balance.silence.duration().filter(|_| settings.has_several()),
            timeouts: settings.timeouts.clone(),
            max_head: settings.max_head,
            lists: settings.lists.clone(),
            counters: carry.state(Counters::new),
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
        settings: &Settings,
        (location, same): (&Location, usize),
    ) -> Result<Arc<Server>, Error> {
        let common = Common {
            tls: &settings.tls,
            protocol: settings.protocol,
            resolver: settings.resolver.as_ref(),
            host: settings.forward.named_host(),
            bounds: Bounds {
                connections: settings.connections.clone(),
                connect: settings.timeouts.connect,
                max_head: settings.max_head,
            },
            rules: Rules {
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
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        let shared = Shared::new(settings);
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
        let tiers = [list.len()];
        Ok(Servers::of(shared, list, settings.balance.by, &tiers))
    }

    /// These servers; `tiers` are the numbers of those with the same priority, the first to be called first.
    pub(super) fn of(shared: Arc<Shared>, list: Box<[Arc<Server>]>, by: Way, tiers: &[usize]) -> Self {
        Servers { balance: Balance::new(by, &list, tiers), shared, list }
    }

    /// Chooses a server, if possible one that the call was not sent to.
    ///
    /// # Errors
    /// `Busy`, if all breakers are open; `Unreachable`, if there is no server.
    pub(super) fn choose(&self, tried: Tried, affinity: Option<u64>) -> Result<(usize, Turn), Error> {
        let affinity = affinity.map(|value| Affinity { value, bound: self.bound });
        self.balance.choose(&self.list, tried, affinity)
    }
}
