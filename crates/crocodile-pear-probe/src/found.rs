//! The findings of a probe.

use std::net::SocketAddr;
use std::time::Duration;

use http::Version;

use crate::certificate::Certificate;
use crate::keep::{ConnectionLimits, IdleTime, Resumed};
use crate::measure::{Cell, ConnectionKind, Statuses, part};
use crate::offer::Offer;
use crate::target::{Scheme, Target};
use crate::trouble::{Trouble, TroubleCause};
use crate::trust::{ProbeTls, Verify};
use crate::way::{Http, ProtocolStack};

/// A certificate that ends sooner is mentioned.
const SOON: i64 = 14;

pub struct ProbeResult {
    pub target: Target,
    /// Calls that each row was to have.
    pub calls: u32,
    pub limit: Duration,
    pub took: Duration,
    /// The first time and the second.
    pub resolve: Option<(Duration, Duration)>,
    pub addresses: Vec<SocketAddr>,
    pub unreachable: Vec<(SocketAddr, Trouble)>,
    /// The one that is measured.
    pub address: Option<SocketAddr>,
    pub offers: Vec<Offer>,
    pub verify: Option<Verify>,
    pub certificate: Option<Certificate>,
    /// The fault of the certificate.
    pub fault: Option<String>,
    pub kept: Vec<ConnectionLimits>,
    pub resumed: Vec<Resumed>,
    pub cells: Vec<Cell>,
    pub statuses: Statuses,
    pub advice: Option<Advice>,
    pub problems: Vec<Trouble>,
    /// Notes on findings that are not problems.
    pub notes: Vec<String>,
}

/// The YAML to write, and why.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The reason, one sentence.
    pub why: String,
    pub yaml: String,
}

impl ProbeResult {
    pub fn new(target: Target, calls: u32, limit: Duration) -> Self {
        ProbeResult {
            target,
            calls,
            limit,
            took: Duration::ZERO,
            resolve: None,
            addresses: Vec::new(),
            unreachable: Vec::new(),
            address: None,
            offers: Vec::new(),
            verify: None,
            certificate: None,
            fault: None,
            kept: Vec::new(),
            resumed: Vec::new(),
            cells: Vec::new(),
            statuses: Statuses::new(),
            advice: None,
            problems: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Takes note of the certificate.
    pub fn shown(&mut self, trust: Option<&ProbeTls>) {
        let Some(trust) = trust else { return };
        self.verify = Some(trust.verify);
        self.certificate = trust.certificate();
        self.fault = trust.fault();
        let left = self.certificate.as_ref().map(Certificate::days_left);
        if let Some(left @ 0..SOON) = left {
            self.notes.push(format!("the certificate ends in {left} days"));
        }
    }

    pub fn offered(&mut self, offers: Vec<Offer>) {
        for Offer { way, answer } in &offers {
            // A server of HTTP/1.1 may do anything with an HTTP/2 that nobody has announced.
            let guessed = *way == ProtocolStack { http: Http::Two, tls: None };
            if let Some(trouble) = answer.as_ref().err().filter(|trouble| !guessed && grave(trouble.cause)) {
                self.problems.push(Trouble { what: format!("{}: {}", way.label(), trouble.what), ..trouble.clone() });
            }
        }
        self.offers = offers;
        for (address, trouble) in &self.unreachable {
            self.notes.push(format!("{address}: {}", trouble.what));
        }
        if let Some(status @ 300..=499) = self.status().filter(|status| *status != 429) {
            self.notes.push(format!("the answer is a {status}, and the times are those of such an answer"));
        }
    }

    pub fn ways(&self) -> impl Iterator<Item = ProtocolStack> {
        self.offers.iter().filter(|offer| offer.answer.is_ok()).map(|offer| offer.way)
    }

    /// The best way for each version of HTTP that works: that with the newest TLS, as the gateway would take it.
    pub fn newest(&self) -> Vec<ProtocolStack> {
        [Http::One, Http::Two]
            .into_iter()
            .filter_map(|http| self.ways().filter(|way| way.http == http).last())
            .collect()
    }

    pub fn offers_http(&self, http: Http) -> bool {
        self.ways().any(|way| way.http == http)
    }

    /// The version of the answer to a request over HTTP/1.1.
    pub fn answers_10(&self) -> bool {
        let mut answers = self.offers.iter().filter_map(|offer| offer.answer.as_ref().ok());
        answers.any(|answer| answer.version == Version::HTTP_10)
    }

    pub fn status(&self) -> Option<u16> {
        self.offers.iter().find_map(|offer| offer.answer.as_ref().ok()).map(|got| got.status.as_u16())
    }

    pub fn bytes(&self) -> Option<u64> {
        self.offers.iter().find_map(|offer| offer.answer.as_ref().ok()).map(|got| got.bytes)
    }

    pub fn kept(&self, http: Http) -> Option<&ConnectionLimits> {
        self.kept.iter().find(|kept| kept.http == http)
    }

    /// Takes note of how long a connection may be at rest.
    pub fn rest(&mut self, http: Http, idle: IdleTime) {
        for kept in self.kept.iter_mut().filter(|kept| kept.http == http) {
            kept.idle = Some(idle);
        }
    }

    /// The cells to measure: none on connections that are never kept.
    pub fn cells(&self) -> Vec<Cell> {
        let reusable = |way: &ProtocolStack| self.kept(way.http).is_some_and(ConnectionLimits::reusable);
        let cells = self.ways().flat_map(|way| {
            let kept = reusable(&way).then(|| Cell::new(way, ConnectionKind::Kept));
            [Some(Cell::new(way, ConnectionKind::Cold)), kept].into_iter().flatten()
        });
        cells.collect()
    }

    pub fn measured(&mut self, cells: Vec<Cell>) {
        for cell in cells.iter() {
            let Some(trouble) = &cell.trouble else { continue };
            let (row, failed) = (cell.label(), cell.failed);
            let calls = failed as usize + cell.times.len();
            let what = format!("{row}: {failed} of {calls} calls failed: {}", trouble.what);
            self.problems.push(Trouble { what, ..trouble.clone() });
        }
        self.cells = cells;
        let bad = |status: &u16| *status >= 500 || *status == 429;
        if self.statuses.len() > 1 || self.statuses.keys().any(bad) {
            let told: Vec<_> =
                self.statuses.iter().map(|(status, times)| format!("{status} ({times} times)")).collect();
            let trouble = Trouble::new(TroubleCause::Broken, format!("the upstream answered {}", told.join(", ")));
            self.problems.push(trouble.remedy("where calls are limited, `--calls` and `--requests` make fewer"));
        }
    }

    pub fn cell(&self, way: ProtocolStack, connection: ConnectionKind) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.way == way && cell.connection == connection)
    }

    /// The calls of the row that has the fewest, if that is fewer than it should be.
    pub fn short(&self) -> Option<usize> {
        let fewest = self.cells.iter().map(|cell| cell.times.len()).min()?;
        (fewest < self.calls as usize).then_some(fewest)
    }

    /// Whether the certificate would not do for the gateway.
    pub fn doubted(&self) -> bool {
        self.fault.is_some()
    }

    pub fn is_tls(&self) -> bool {
        self.target.scheme == Scheme::Https
    }
}

impl Cell {
    pub fn label(&self) -> String {
        format!("{} {}", self.way.label(), self.connection.word())
    }

    /// p50 and p99 of what is there of one phase.
    pub fn connect(&self) -> [Option<Duration>; 2] {
        SHARES.map(|share| part(self.times.iter().filter_map(|times| times.connect), share))
    }

    pub fn tls(&self) -> [Option<Duration>; 2] {
        SHARES.map(|share| part(self.times.iter().filter_map(|times| times.tls), share))
    }

    pub fn first(&self) -> [Option<Duration>; 2] {
        SHARES.map(|share| part(self.times.iter().map(|times| times.first), share))
    }

    pub fn total(&self) -> [Option<Duration>; 2] {
        SHARES.map(|share| part(self.times.iter().map(|times| times.total), share))
    }
}

const SHARES: [f64; 2] = [0.5, 0.99];

/// Whether it is more than not offering a version.
fn grave(cause: TroubleCause) -> bool {
    matches!(cause, TroubleCause::Broken | TroubleCause::Silent | TroubleCause::Unreachable | TroubleCause::Distrusted)
}
