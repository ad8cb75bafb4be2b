//! One of the servers behind an upstream: its address, its connections, its health.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use http::{StatusCode, Uri};

use super::breaker::Breaker;
use super::connect::Connector;
use super::eject::Eject;
use super::health::Health;
use super::io::Io;
use super::link::Origin;
use super::outage::Pass;
use super::pool::Pool;
use super::tls::Tls;
use super::{Outcome, Protocol, Settings};
use crate::error::{Error, Kind};

/// One server of an upstream.
pub(super) struct Server {
    pub(super) connector: Connector,
    protocol: Protocol,
    /// What links that lead here begin with.
    pub(super) origin: Origin,
    /// As it stands in `host`.
    pub(super) authority: Box<str>,
    /// The path before every call's own.
    pub(super) base: Box<str>,
    pub(super) pool: Arc<Pool>,
    /// Calls in flight; counted where there are several servers to choose from.
    pub(super) load: AtomicI64,
    /// Heads of answers; counted where there are several servers to compare.
    pub(super) heard: AtomicU64,
    pub(super) weight: u32,
    /// Nothing, for a server that is called whatever happens.
    pub(super) standing: Option<Box<Standing>>,
}

/// Whether a server is called.
pub(super) struct Standing {
    pub(super) health: Option<Health>,
    pub(super) eject: Option<Eject>,
    pub(super) breaker: Option<Breaker>,
}

/// What a call may do at its server: which of the two it tries for.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) eject: Trial,
    pub(super) breaker: Trial,
}

/// Whether a call is the one that tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    Yes,
    No,
}

/// What a call says of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Went {
    Well,
    Badly,
}

/// A change that operators learn of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Opened,
    Closed,
    Ejected,
    Readmitted,
    Down,
    Up,
}

/// What is heeded when a server is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heed {
    /// Health, ejection, breaker.
    All,
    /// Only the breaker: when all are left out, the cause may be elsewhere.
    Breaker,
}

impl Turn {
    pub(super) const PLAIN: Turn = Turn { eject: Trial::No, breaker: Trial::No };
}

impl Server {
    /// # Errors
    /// What is wrong with the URL.
    pub(super) fn new(url: &Uri, weight: u32, settings: &Settings) -> Result<Self, String> {
        let nowhere = || "the url of an upstream names a host".to_owned();
        let authority = url.authority().ok_or_else(nowhere)?;
        if authority.as_str().contains('@') {
            return Err("the url of an upstream holds no credentials".to_owned());
        }
        if url.query().is_some() {
            return Err("the url of an upstream has no query".to_owned());
        }
        let (tls, port) = match url.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => {
                let tls = Tls::new(&settings.tls, authority.host(), settings.protocol.offers());
                (Some(tls.map_err(|unfit| unfit.message)?), 443)
            }
            _ => return Err("the url of an upstream begins with http:// or https://".to_owned()),
        };
        let port = authority.port_u16().unwrap_or(port);
        let connector = Connector::new(authority.host(), port, tls, settings.resolver.as_ref());
        Ok(Server {
            pool: Arc::new(Pool::new(settings.connections.clone(), connector.name().cloned())),
            connector,
            protocol: settings.protocol,
            origin: Origin::of(url).ok_or_else(nowhere)?,
            authority: authority.as_str().into(),
            base: url.path().trim_end_matches('/').into(),
            load: AtomicI64::new(0),
            heard: AtomicU64::new(0),
            weight: weight.max(1),
            standing: Standing::new(settings).map(Box::new),
        })
    }

    /// Whether calls may share connections.
    pub(super) fn shares(&self) -> bool {
        match self.protocol {
            Protocol::Auto => self.connector.has_tls(),
            Protocol::Http1 => false,
            Protocol::Http2 => true,
        }
    }

    /// What is spoken on a new connection.
    ///
    /// # Errors
    /// `Unreachable`, where HTTP/2 is wanted and not chosen.
    pub(super) fn speaks_h2(&self, io: &Io) -> Result<bool, Error> {
        let prior_knowledge = self.protocol == Protocol::Http2 && !self.connector.has_tls();
        match prior_knowledge || io.chose_h2() {
            false if self.protocol == Protocol::Http2 => {
                Err(Error::new(Kind::Unreachable, "the upstream does not speak HTTP/2"))
            }
            speaks => Ok(speaks),
        }
    }

    /// Asks for a call.
    pub(super) fn admit(&self, heed: Heed) -> Option<Turn> {
        let Some(standing) = &self.standing else { return Some(Turn::PLAIN) };
        let eject = match &standing.eject {
            _ if heed == Heed::All && standing.health.as_ref().is_some_and(Health::is_down) => return None,
            Some(eject) if heed == Heed::All => trial(eject.admit())?,
            _ => Trial::No,
        };
        let breaker = standing.breaker.as_ref().map_or(Some(Trial::No), |breaker| trial(breaker.admit()))?;
        Some(Turn { eject, breaker })
    }

    /// Learns what became of a call; `last` says whether no other server is left.
    pub(super) fn note(&self, went: Went, turn: Turn, last: impl FnOnce() -> bool) -> [Option<Change>; 2] {
        let Some(standing) = &self.standing else { return [None; 2] };
        let eject = standing.eject.as_ref().and_then(|eject| eject.note(went, turn.eject, last));
        let breaker = standing.breaker.as_ref().and_then(|breaker| breaker.note(went, turn.breaker));
        [eject, breaker]
    }

    /// How long until its breaker lets a call through.
    pub(super) fn left(&self) -> Duration {
        let breaker = self.standing.as_ref().and_then(|standing| standing.breaker.as_ref());
        breaker.map_or(Duration::ZERO, Breaker::left)
    }

    /// Whether its latest call has failed.
    pub(super) fn is_doubted(&self) -> bool {
        self.standing.as_ref().and_then(|standing| standing.eject.as_ref()).is_some_and(Eject::is_doubted)
    }

    /// Whether calls go there as a matter of course.
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

/// What the head of an answer, or its want, says of the server; nothing, if it was somebody else's fault.
pub(super) fn judge(outcome: &Outcome) -> Option<Went> {
    match outcome {
        Ok((status, _)) => Some(if failed(*status) { Went::Badly } else { Went::Well }),
        Err(lost) => match lost.error.kind() {
            Kind::Unreachable | Kind::Reset | Kind::Cut | Kind::Malformed | Kind::Timeout => Some(Went::Badly),
            _ => None,
        },
    }
}

/// Those that tell of the server's own trouble: 501 and 505 tell of the request.
fn failed(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502..=504)
}

impl Change {
    /// Tells it in the log.
    pub(super) fn tell(self, upstream: &str, server: &str) {
        let good = |text| tracing::info!(target: "crocodile_pear::upstream", upstream, server, "{text}");
        let bad = |text| tracing::warn!(target: "crocodile_pear::upstream", upstream, server, "{text}");
        match self {
            Change::Opened => bad("the breaker has opened"),
            Change::Closed => good("the breaker has closed"),
            Change::Ejected => bad("ejected: its calls fail"),
            Change::Readmitted => good("readmitted"),
            Change::Down => bad("down: its health checks fail"),
            Change::Up => good("up: its health checks are good"),
        }
    }
}
