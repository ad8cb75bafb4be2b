//! A server behind an upstream: its address, its connections, its health.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use http::{Uri, Version};

use super::affinity::hash;
use crate::config::carried_state::Carry;
use crate::net::protocol::Protocol;
use crate::net::tls::{Tls, TlsSettings};
use crate::resilience::state_change::Change;
use crate::resilience::trial::{Trial, Turn, trial};
use crate::resilience::verdict::Verdict;
use crate::telemetry::histogram::{self, Histograms};
use crate::upstream::call::timing::CallEnd;
use crate::upstream::connect::Connector;
use crate::upstream::connect::counters::ConnectionCounters;
use crate::upstream::connect::location::{Location, place_of};
use crate::upstream::connect::origin::Origin;
use crate::upstream::connect::pool::{ConnectionBounds, ConnectionPool};
use crate::upstream::connect::resolve::Resolver;
use crate::upstream::health::{Availability, HealthRules};
use crate::upstream::program::{Program, Transport, Via};

pub(crate) struct Server {
    pub(crate) face: PublicOrigin,
    /// Where operators find it: host and port, or a Unix socket.
    pub(crate) place: Box<str>,
    /// The same with the base path: what it is called in metrics and records.
    pub(crate) address: Arc<str>,
    /// The mark by which all gateways know it: a hash of its address.
    pub(crate) mark: u64,
    /// The `host` of calls that bring none of their own.
    pub(crate) host: Box<str>,
    pub(crate) pool: Arc<ConnectionPool>,
    pub(crate) figures: Arc<ServerFigures>,
    /// Relative to those of the other servers. A DNS record may change it.
    pub(crate) weight: AtomicU32,
    /// `None` without health checks, ejection and breaker: calls always go there.
    pub(crate) availability: Option<Box<Availability>>,
    /// The parts that a program puts below its calls.
    pub(crate) program: Option<Arc<Program>>,
}

/// The counters of the calls to a server.
pub(crate) struct ServerFigures {
    /// Calls in flight; counted if there are several servers to choose from.
    pub(crate) load: AtomicI64,
    /// How long exchanges took, by how they ended.
    pub(crate) times: Histograms<CallEnd>,
    /// Heads of answers; counted if there are several servers to compare.
    pub(crate) heard: AtomicU64,
}

impl ServerFigures {
    fn new() -> Self {
        ServerFigures { load: AtomicI64::new(0), times: Histograms::new(histogram::HTTP), heard: AtomicU64::new(0) }
    }
}

/// The parts of its URL.
pub(crate) struct PublicOrigin {
    /// Scheme, host and port, which links to it begin with.
    pub(crate) origin: Origin,
    /// Host and port, as in the URL.
    pub(crate) authority: Box<str>,
    /// The path before every call's own.
    pub(crate) base: Box<str>,
}

impl PublicOrigin {
    /// Reads a URL; `None` where it has no host.
    pub(crate) fn from_url(url: &Uri) -> Option<Self> {
        let base = url.path().trim_end_matches('/').into();
        Some(PublicOrigin { origin: Origin::from_url(url)?, authority: url.authority()?.as_str().into(), base })
    }
}

/// Which states are respected when a server is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateFilter {
    /// Health, ejection, breaker.
    All,
    /// Only the breaker: when no server is left, ejections and failed health checks are ignored.
    Breaker,
}

/// The settings that the servers of an upstream have in common.
pub(crate) struct Common<'a> {
    pub(crate) tls: &'a TlsSettings,
    pub(crate) protocol: Protocol,
    pub(crate) resolver: Option<&'a Resolver>,
    /// The `host` of their calls, instead of that of the URL.
    pub(crate) host: Option<&'a str>,
    pub(crate) bounds: ConnectionBounds,
    pub(crate) rules: HealthRules<'a>,
    pub(crate) counters: &'a Arc<ConnectionCounters>,
    /// The state of this server.
    pub(crate) carry: Carry,
    /// The parts that a program puts below its calls.
    pub(crate) program: Option<&'a Arc<Program>>,
}

impl Server {
    /// # Errors
    /// A description of what is wrong with the URL.
    pub(crate) fn new(location: &Location, common: &Common<'_>) -> Result<Self, String> {
        let Location { url, weight, socket } = location;
        let nowhere = || "the URL of an upstream needs a host".to_owned();
        let authority = url.authority().ok_or_else(nowhere)?;
        if authority.as_str().contains('@') {
            return Err("the URL of an upstream must not contain credentials".to_owned());
        }
        if url.query().is_some() {
            return Err("the URL of an upstream must not have a query".to_owned());
        }
        let (tls, port) = match url.scheme_str() {
            Some("http") => (None, 80),
            // A transport has its own.
            Some("https") if common.program.is_some_and(|program| program.transport.is_some()) => (None, 443),
            Some("https") => {
                let tls = Tls::new(common.tls, authority.host(), common.protocol.offers());
                (Some(tls.map_err(|unfit| unfit.message)?), 443)
            }
            _ => return Err("the URL of an upstream must begin with http:// or https://".to_owned()),
        };
        let port = authority.port_u16().unwrap_or(port);
        let connector = match socket {
            Some(path) => Connector::unix(path, tls),
            None => Connector::new(authority.host(), port, tls, common.resolver),
        };
        let place = socket.as_deref().map_or_else(|| authority.as_str().into(), place_of);
        let face = PublicOrigin::from_url(url).ok_or_else(nowhere)?;
        let address: Arc<str> = format!("{place}{}", face.base).into();
        let (carry, bounds) = (&common.carry, &common.bounds);
        let open = || ConnectionPool::new(connector, common.protocol, bounds.clone(), common.counters.clone());
        Ok(Server {
            mark: hash(address.as_bytes()),
            pool: carry.part((common.tls, common.protocol, common.resolver.map(Resolver::mark), bounds)).state(open),
            address,
            place,
            host: common.host.unwrap_or(authority.as_str()).into(),
            face,
            figures: carry.state(ServerFigures::new),
            weight: AtomicU32::new((*weight).max(1)),
            availability: Availability::new(&common.rules, carry).map(Box::new),
            program: common.program.cloned(),
        })
    }

    /// The transport that makes its calls instead of sockets.
    pub(crate) fn transport(&self) -> Option<&Arc<dyn Transport>> {
        self.program.as_ref()?.transport.as_ref()
    }

    /// The value of `via` in its calls.
    pub(crate) fn via(&self, received: Version) -> Option<&[u8]> {
        self.program.as_ref().map_or(&Via::Own, |program| &program.via).value(received)
    }

    /// Its share of the calls.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Asks whether a call may go there; `None` if not.
    pub(crate) fn admit(&self, filter: StateFilter) -> Option<Turn> {
        let Some(availability) = &self.availability else { return Some(Turn::PLAIN) };
        let eject = match &availability.eject {
            _ if filter == StateFilter::All && availability.health.as_ref().is_some_and(|health| health.is_down()) => {
                return None;
            }
            Some(eject) if filter == StateFilter::All => trial(eject.admit())?,
            _ => Trial::No,
        };
        let breaker = availability.breaker.as_ref().map_or(Some(Trial::No), |breaker| trial(breaker.admit()))?;
        Some(Turn { eject, breaker })
    }

    /// Records the outcome of a call; `last`: no other server takes calls.
    pub(crate) fn note(&self, verdict: Verdict, turn: Turn, last: impl FnOnce() -> bool) -> [Option<Change>; 2] {
        let Some(availability) = &self.availability else { return [None; 2] };
        let eject = availability.eject.as_ref().and_then(|eject| eject.note(verdict, turn.eject, last));
        let breaker = availability.breaker.as_ref().and_then(|breaker| breaker.note(verdict, turn.breaker));
        [eject, breaker]
    }

    /// How long until its breaker allows a call.
    pub(crate) fn left(&self) -> Duration {
        let breaker = self.availability.as_ref().and_then(|availability| availability.breaker.as_ref());
        breaker.map_or(Duration::ZERO, |breaker| breaker.left())
    }

    /// Whether its latest call has failed.
    pub(crate) fn is_doubted(&self) -> bool {
        self.availability
            .as_ref()
            .and_then(|availability| availability.eject.as_ref())
            .is_some_and(|eject| eject.is_doubted())
    }

    /// Whether it takes calls: not down, not ejected, breaker closed.
    pub(crate) fn is_in(&self) -> bool {
        let Some(availability) = &self.availability else { return true };
        let down = availability.health.as_ref().is_some_and(|health| health.is_down());
        let out = availability.eject.as_ref().is_some_and(|eject| eject.is_out());
        !(down || out || availability.breaker.as_ref().is_some_and(|breaker| breaker.is_open()))
    }
}
