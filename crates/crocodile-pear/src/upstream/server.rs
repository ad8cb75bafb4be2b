//! One of the servers behind an upstream: its address, its connections, its health.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use http::StatusCode;

use super::breaker::Breaker;
use super::connect::{Connector, unix};
use super::eject::Eject;
use super::forward::Host;
use super::health::Health;
use super::io::Io;
use super::link::Origin;
use super::moments::CallEnd;
use super::outage::Pass;
use super::pool::Pool;
use super::tls::Tls;
use super::{Location, Outcome, Protocol, Settings};
use crate::error::{Error, Kind};
use crate::histogram::{self, Histograms};

/// One server of an upstream.
pub(super) struct Server {
    pub(super) connector: Connector,
    protocol: Protocol,
    /// Scheme, host and port, which links to it begin with.
    pub(super) origin: Origin,
    /// Host and port, as in the URL.
    pub(super) authority: Box<str>,
    /// Where operators find it: host and port, or a Unix socket.
    pub(super) place: Box<str>,
    /// The same with the base path: what it is called in metrics and records.
    pub(super) address: Arc<str>,
    /// The `host` of calls that bring none of their own.
    pub(super) host: Box<str>,
    /// The path before every call's own.
    pub(super) base: Box<str>,
    pub(super) pool: Arc<Pool>,
    /// Calls in flight; counted where there are several servers to choose from.
    pub(super) load: AtomicI64,
    /// How long exchanges took, by how they ended.
    pub(super) times: Histograms<CallEnd>,
    /// Heads of answers; counted where there are several servers to compare.
    pub(super) heard: AtomicU64,
    pub(super) weight: u32,
    /// `None` without health checks, ejection and breaker: calls always go there.
    pub(super) standing: Option<Box<Standing>>,
}

/// What decides whether a server takes calls.
pub(super) struct Standing {
    pub(super) health: Option<Health>,
    pub(super) eject: Option<Eject>,
    pub(super) breaker: Option<Breaker>,
}

/// Whether a call is the trial call of an ejection or of a breaker.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) eject: Trial,
    pub(super) breaker: Trial,
}

/// Whether a call is a trial call, which tests if a server has recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    Yes,
    No,
}

/// What the outcome of a call says about its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Went {
    Well,
    Badly,
}

/// A change of a server's state, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Opened,
    Closed,
    Ejected,
    Readmitted,
    Down,
    Up,
}

/// Which states are respected when a server is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateFilter {
    /// Health, ejection, breaker.
    All,
    /// Only the breaker: when no server is left, ejections and failed health checks are ignored.
    Breaker,
}

impl Turn {
    pub(super) const PLAIN: Turn = Turn { eject: Trial::No, breaker: Trial::No };
}

impl Server {
    /// # Errors
    /// What is wrong with the URL.
    pub(super) fn new(location: &Location, settings: &Settings) -> Result<Self, String> {
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
            Some("https") => {
                let tls = Tls::new(&settings.tls, authority.host(), settings.protocol.offers());
                (Some(tls.map_err(|unfit| unfit.message)?), 443)
            }
            _ => return Err("the URL of an upstream must begin with http:// or https://".to_owned()),
        };
        let port = authority.port_u16().unwrap_or(port);
        let connector = match socket {
            Some(path) => Connector::unix(path, tls),
            None => Connector::new(authority.host(), port, tls, settings.resolver.as_ref()),
        };
        let place = socket.as_deref().map_or_else(|| authority.as_str().into(), unix);
        let base: Box<str> = url.path().trim_end_matches('/').into();
        Ok(Server {
            pool: Arc::new(Pool::new(settings.connections.clone(), connector.name().cloned())),
            connector,
            protocol: settings.protocol,
            origin: Origin::of(url).ok_or_else(nowhere)?,
            authority: authority.as_str().into(),
            address: format!("{place}{base}").into(),
            place,
            host: match &settings.forward.host {
                Host::Named(host) => host.clone(),
                Host::Server | Host::Keep => authority.as_str().into(),
            },
            base,
            load: AtomicI64::new(0),
            times: Histograms::new(histogram::HTTP),
            heard: AtomicU64::new(0),
            weight: (*weight).max(1),
            standing: Standing::new(settings).map(Box::new),
        })
    }

    /// Whether calls may share connections, over HTTP/2.
    pub(super) fn shares(&self) -> bool {
        match self.protocol {
            Protocol::Auto => self.connector.has_tls(),
            Protocol::Http1 => false,
            Protocol::Http2 => true,
        }
    }

    /// Whether the server may be spoken to in HTTP/1.1, which an upgrade needs.
    ///
    /// # Errors
    /// `Unusable`, if the configuration says HTTP/2 only.
    pub(super) fn check_http1(&self) -> Result<(), Error> {
        match self.protocol {
            Protocol::Auto | Protocol::Http1 => Ok(()),
            Protocol::Http2 => {
                Err(Error::new(Kind::Unusable, "the upstream speaks HTTP/2 alone, which has no `Upgrade`"))
            }
        }
    }

    /// Whether a new connection speaks HTTP/2.
    ///
    /// # Errors
    /// `Unreachable`, if HTTP/2 is required and the server did not choose it.
    pub(super) fn speaks_h2(&self, io: &Io) -> Result<bool, Error> {
        let prior_knowledge = self.protocol == Protocol::Http2 && !self.connector.has_tls();
        match prior_knowledge || io.chose_h2() {
            false if self.protocol == Protocol::Http2 => {
                Err(Error::new(Kind::Unreachable, "the upstream does not speak HTTP/2"))
            }
            speaks => Ok(speaks),
        }
    }

    /// Asks whether a call may go there; `None` if not.
    pub(super) fn admit(&self, filter: StateFilter) -> Option<Turn> {
        let Some(standing) = &self.standing else { return Some(Turn::PLAIN) };
        let eject = match &standing.eject {
            _ if filter == StateFilter::All && standing.health.as_ref().is_some_and(Health::is_down) => return None,
            Some(eject) if filter == StateFilter::All => trial(eject.admit())?,
            _ => Trial::No,
        };
        let breaker = standing.breaker.as_ref().map_or(Some(Trial::No), |breaker| trial(breaker.admit()))?;
        Some(Turn { eject, breaker })
    }

    /// Records the outcome of a call; `last` tells whether no other server takes calls.
    pub(super) fn note(&self, went: Went, turn: Turn, last: impl FnOnce() -> bool) -> [Option<Change>; 2] {
        let Some(standing) = &self.standing else { return [None; 2] };
        let eject = standing.eject.as_ref().and_then(|eject| eject.note(went, turn.eject, last));
        let breaker = standing.breaker.as_ref().and_then(|breaker| breaker.note(went, turn.breaker));
        [eject, breaker]
    }

    /// How long until its breaker allows a call.
    pub(super) fn left(&self) -> Duration {
        let breaker = self.standing.as_ref().and_then(|standing| standing.breaker.as_ref());
        breaker.map_or(Duration::ZERO, Breaker::left)
    }

    /// Whether its latest call has failed.
    pub(super) fn is_doubted(&self) -> bool {
        self.standing.as_ref().and_then(|standing| standing.eject.as_ref()).is_some_and(Eject::is_doubted)
    }

    /// Whether it takes calls: not down, not ejected, breaker closed.
    pub(super) fn is_in(&self) -> bool {
        let Some(standing) = &self.standing else { return true };
        let down = standing.health.as_ref().is_some_and(Health::is_down);
        let out = standing.eject.as_ref().is_some_and(Eject::is_out);
        !(down || out || standing.breaker.as_ref().is_some_and(Breaker::is_open))
    }
}

fn trial(pass: Pass) -> Option<Trial> {
    match pass {
        Pass::Free => Some(Trial::No),
        Pass::Trial => Some(Trial::Yes),
        Pass::Closed => None,
    }
}

impl Standing {
    fn new(settings: &Settings) -> Option<Self> {
        let standing = Standing {
            health: settings.health.as_ref().map(|_| Health::default()),
            eject: settings.ejection().map(Eject::new),
            breaker: settings.breaker.clone().map(Breaker::new),
        };
        let nothing = standing.health.is_none() && standing.eject.is_none() && standing.breaker.is_none();
        Some(standing).filter(|_| !nothing)
    }
}

/// What an outcome says about the server; `None` if the failure was not the server's fault.
pub(super) fn judge(outcome: &Outcome) -> Option<Went> {
    match outcome {
        Ok((status, _)) => Some(if failed(*status) { Went::Badly } else { Went::Well }),
        Err(lost) => match lost.error.kind() {
            Kind::Unreachable | Kind::Reset | Kind::Cut | Kind::Malformed | Kind::Timeout => Some(Went::Badly),
            _ => None,
        },
    }
}

/// Statuses that mean the server has failed. 501 and 505 are about the request.
fn failed(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502..=504)
}

impl Change {
    /// Writes it to the log.
    pub(super) fn log(self, upstream: &str, server: &str) {
        let good = |text| tracing::info!(target: "crocodile_pear::upstream", upstream, server, "{text}");
        let bad = |text| tracing::warn!(target: "crocodile_pear::upstream", upstream, server, "{text}");
        match self {
            Change::Opened => bad("circuit breaker opened"),
            Change::Closed => good("circuit breaker closed"),
            Change::Ejected => bad("server ejected: calls to it fail"),
            Change::Readmitted => good("server readmitted after ejection"),
            Change::Down => bad("server down: health checks fail"),
            Change::Up => good("server up: health checks succeed"),
        }
    }
}
