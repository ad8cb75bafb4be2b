//! The measurements of a server: what it supports, how it handles connections, and what new and reused ones cost.

mod advice;
mod certificate;
mod found;
mod json;
mod keep;
mod link;
mod measure;
mod offer;
mod progress;
mod table;
mod target;
mod trouble;
mod trust;
mod way;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Node};
use futures_util::future::join_all;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio::task::JoinHandle;

use crate::found::ProbeResult;
use crate::keep::IdleTime;
use crate::link::Dial;
use crate::progress::ProgressLine;
use crate::way::{Http, ProtocolStack};

pub use crate::advice::MakeUpstream;
pub use crate::target::{Scheme, Target};
pub use crate::trouble::{Trouble, UsageError};
pub use crate::trust::{ProbeTls, TlsFiles, Verify};

/// The options of a probe.
#[derive(Args)]
pub struct Probe {
    /// The URL to request, https://HOST:PORT/PATH. It gets a few hundred GETs, most of them one after the other.
    #[arg(value_parser = Target::read)]
    url: Target,
    /// Calls per row of the table.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=5_000))]
    calls: u32,
    /// Requests to try on one connection.
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    requests: u32,
    /// How long to watch an idle connection, up to 15m; 0s: not at all.
    #[arg(long, value_name = "TIME", default_value = "6s", value_parser = between(Duration::ZERO, minutes(15)))]
    idle: Duration,
    /// Timeout for connecting, for a handshake and for an answer, each, from 10ms to 5m.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = between(Duration::from_millis(10), minutes(5)))]
    timeout: Duration,
    /// Time limit for all measurements together, from 1s to 1h; the rest is left out.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = between(Duration::from_secs(1), minutes(60)))]
    limit: Duration,
    /// Send this header field with each request, as 'NAME: VALUE'; can be repeated.
    #[arg(short = 'H', long, value_name = "FIELD", value_parser = field)]
    header: Vec<(HeaderName, HeaderValue)>,
    #[command(flatten)]
    files: TlsFiles,
    /// Measure even if the certificate is not trusted.
    #[arg(long)]
    insecure: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The result of a probe, as text.
pub struct Report {
    /// The findings for the standard output: a table with advice, or JSON.
    pub findings: String,
    /// The problems for the standard error stream, each with its remedy. In JSON they are among the findings.
    pub problems: String,
    /// Whether there was no problem.
    pub good: bool,
}

/// A time of so many minutes.
pub const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// Reads a duration as the configuration has it.
pub fn between(least: Duration, most: Duration) -> impl Fn(&str) -> Result<Duration, UsageError> + Clone + Send + Sync {
    move |text| {
        let mut problems = Problems::default();
        let read = Duration::decode(&Node::from_json(&text.into()), &mut problems);
        let Some(read) = read else {
            let remedy = problems.into_sorted().into_iter().find_map(|problem| problem.remedy);
            return Err(UsageError::new(remedy.unwrap_or_else(|| "this is too long".to_owned())));
        };
        match (least..=most).contains(&read) {
            true => Ok(read),
            false => {
                let (least, most) = (advice::written(least), advice::written(most));
                Err(UsageError::new(format!("it is from {least} to {most}")))
            }
        }
    }
}

fn field(text: &str) -> Result<(HeaderName, HeaderValue), UsageError> {
    let wrong = |reason: &str| UsageError::new(reason);
    let (name, value) = text.split_once(':').ok_or_else(|| wrong("write it as 'NAME: VALUE'"))?;
    let name: HeaderName = name.trim().parse().map_err(|_| wrong("this is not the name of a header field"))?;
    if !crocodile_pear::unstable::upstream::may_send(&name) {
        return Err(wrong(&format!("`{name}` belongs to the connection, and is not sent")));
    }
    let value = value.trim().parse().map_err(|_| wrong("this is not a valid value of a header field"))?;
    Ok((name, value))
}

/// The moment at which this part of the time limit is over, so that time is left for the parts that follow.
fn share(begun: Instant, limit: Duration, part: f64) -> Instant {
    begun + limit.mul_f64(part)
}

impl Probe {
    /// Measures the server. The advice is tried with an upstream of the gateway.
    ///
    /// # Errors
    /// The options do not go together, or a file of TLS is wrong.
    pub async fn run(&self, upstream: MakeUpstream) -> Result<Report, UsageError> {
        let found = self.probe(self.trust()?, upstream).await;
        let (findings, problems) = match self.json {
            true => (format!("{:#}\n", json::write(&found)), String::new()),
            false => (table::write(&found), table::problems(&found)),
        };
        Ok(Report { findings, problems, good: found.problems.is_empty() })
    }

    fn trust(&self) -> Result<Option<ProbeTls>, UsageError> {
        if self.url.scheme == Scheme::Http {
            let TlsFiles { ca, certificate, .. } = &self.files;
            return match ca.is_some() || certificate.is_some() || self.insecure {
                true => Err(UsageError::new("--ca, --certificate and --insecure are for https URLs")),
                false => Ok(None),
            };
        }
        let verify = if self.insecure { Verify::Not } else { Verify::Strictly };
        ProbeTls::new(&self.url.host, &self.files, verify).map(Some)
    }

    async fn probe(&self, trust: Option<ProbeTls>, upstream: MakeUpstream) -> ProbeResult {
        let begun = Instant::now();
        let progress = ProgressLine::new();
        let mut found = ProbeResult::new(self.url.clone(), self.calls, self.limit);
        if let Err(trouble) = self.search(begun, trust, upstream, &mut found, &progress).await {
            found.problems.push(trouble);
        }
        progress.done();
        found.took = begun.elapsed();
        found
    }

    /// Runs the parts of a probe in order.
    async fn search(
        &self,
        begun: Instant,
        trust: Option<ProbeTls>,
        upstream: MakeUpstream,
        found: &mut ProbeResult,
        progress: &ProgressLine,
    ) -> Result<(), Trouble> {
        let address = self.address(found, progress).await?;
        let deadline = begun + self.limit;
        let (target, headers, patience) = (self.url.clone(), self.headers(), self.timeout);
        let dial = Arc::new(Dial { target, address, trust, headers, patience, deadline });

        progress.say("trying versions of HTTP and TLS");
        let offers = offer::discover(&dial).await;
        // Also of one that is not trusted it is told whose it is.
        found.shown(dial.trust.as_ref());
        found.offered(offers?);

        // Beside all that follows, since a connection at rest disturbs nothing.
        let idle = self.watch(&dial, found);
        self.count(begun, &dial, found, progress).await;
        self.resume(&dial, found, progress).await;
        let mut cells = found.cells();
        let end = share(begun, self.limit, 0.9);
        found.statuses = measure::rounds(&dial, &mut cells, self.calls, end, progress).await;
        found.measured(cells);
        self.join(idle, found, progress).await;
        found.advice = Some(advice::advise(found, &self.files));
        if !found.doubted() {
            progress.say("trying the advice");
            advice::attempt(found, &dial, upstream).await;
        }
        Ok(())
    }

    /// The first address that takes a connection.
    async fn address(&self, found: &mut ProbeResult, progress: &ProgressLine) -> Result<SocketAddr, Trouble> {
        progress.say("resolving the name");
        let limit = self.timeout.min(self.limit);
        let (addresses, cold) = self.url.resolve(limit).await?;
        let (_, warm) = self.url.resolve(limit).await?;
        found.resolve = Some((cold, warm));
        found.addresses = addresses.clone();
        progress.say("connecting");
        let tried = join_all(addresses.iter().map(|&address| link::connect(address, limit))).await;
        let mut good = None;
        for (address, outcome) in addresses.into_iter().zip(tried) {
            match outcome {
                Ok(_) => drop(good.get_or_insert(address)),
                Err(trouble) => found.unreachable.push((address, trouble)),
            }
        }
        found.address = good;
        good.ok_or_else(|| found.unreachable.remove(0).1)
    }

    fn headers(&self) -> HeaderMap {
        let mut headers: HeaderMap = self.header.iter().cloned().collect();
        let agent = HeaderValue::from_static(concat!("crocodile-pear/", env!("CARGO_PKG_VERSION")));
        headers.entry(header::USER_AGENT).or_insert(agent);
        headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers
    }

    fn watch(&self, dial: &Arc<Dial>, found: &ProbeResult) -> Vec<(Http, JoinHandle<Result<IdleTime, Trouble>>)> {
        let longest = self.idle;
        let watched = found.newest().into_iter().filter(|_| !longest.is_zero()).map(|way: ProtocolStack| {
            let dial = dial.clone();
            (way.http, tokio::spawn(async move { keep::wait(&dial, way, longest).await }))
        });
        watched.collect()
    }

    /// Resumes a TLS session; a single version of HTTP is enough to see that.
    async fn resume(&self, dial: &Dial, found: &mut ProbeResult, progress: &ProgressLine) {
        progress.say("resuming sessions of TLS");
        let http = found.ways().next().map(|way| way.http);
        let ways: Vec<ProtocolStack> = found.ways().filter(|way| Some(way.http) == http).collect();
        for (way, tls) in ways.into_iter().filter_map(|way| Some((way, way.tls?))) {
            match keep::resume(dial, way, tls).await {
                Ok(resumed) => found.resumed.push(resumed),
                Err(trouble) => found.problems.push(trouble),
            }
        }
    }

    async fn join(
        &self,
        idle: Vec<(Http, JoinHandle<Result<IdleTime, Trouble>>)>,
        found: &mut ProbeResult,
        progress: &ProgressLine,
    ) {
        progress.say("watching connections at rest");
        for (http, watched) in idle {
            match watched.await {
                Ok(Ok(idle)) => found.rest(http, idle),
                Ok(Err(trouble)) => found.problems.push(trouble),
                // The task does not panic, and nobody ends it.
                Err(_) => {}
            }
        }
    }

    async fn count(&self, begun: Instant, dial: &Dial, found: &mut ProbeResult, progress: &ProgressLine) {
        for (number, way) in found.newest().into_iter().enumerate() {
            progress.say(&format!("counting requests on one connection, {}", way.http.label()));
            let end = share(begun, self.limit, 0.2 * (number + 1) as f64);
            match keep::count(dial, way, self.requests, end).await {
                Ok(kept) => found.kept.push(kept),
                Err(trouble) => found.problems.push(trouble),
            }
        }
    }
}
