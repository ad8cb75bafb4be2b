//! `probe`: what a server does with connections, and what cold and kept ones cost.

use std::fmt::Write;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use crocodile_pear::error::Error;
use crocodile_pear::upstream::{Call, Connections, Settings, Upstream};
use http::Uri;
use serde_json::json;
use tokio::net::{TcpStream, lookup_host};

use super::print;

/// A server whose answers are longer is not asked for a small thing; what they cost would be the body's.
const MAX_BODY: usize = 16 << 20;

#[derive(Args)]
pub struct Probe {
    /// What to ask for, as http://HOST:PORT/PATH. It gets some hundred GETs, one after the other.
    url: Uri,
    /// Calls on cold connections, and on kept ones.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    calls: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Probe {
    pub fn execute(self) -> ExitCode {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return fail(&error),
        };
        match runtime.block_on(self.probe()) {
            Ok(found) if self.json => print(&format!("{:#}\n", found.json())),
            Ok(found) => print(&found.text()),
            Err(error) => fail(&error),
        }
    }

    async fn probe(&self) -> Result<Found, Failure> {
        let host = self.url.host().filter(|_| self.url.scheme_str() == Some("http"));
        let host = host.ok_or("only http URLs can be probed: write http://HOST:PORT/PATH")?;
        let port = self.url.port_u16().unwrap_or(80);
        let begun = Instant::now();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<SocketAddr> = lookup_host((bare, port)).await?.collect();
        let resolve = begun.elapsed();
        let address = *addresses.first().ok_or("the host has no address")?;

        // The first call warms up what is not the connection's.
        let (answer, _) = self.call(&self.upstream(0)?).await?;
        let (mut connect, mut cold, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let closed = self.upstream(0)?;
        for number in 0..self.calls {
            self.progress("cold", number);
            let begun = Instant::now();
            drop(TcpStream::connect(address).await?);
            connect.push(begun.elapsed());
            cold.push(self.call(&closed).await?.1);
        }
        let keeping = self.upstream(1)?;
        let opened = || keeping.counters().opened;
        // Until the server closes, the first time.
        let mut lasted = None;
        for number in 0..self.calls {
            self.progress("kept", number);
            let before = opened();
            let times = self.call(&keeping).await?.1;
            match opened() == before {
                true => kept.push(times),
                false if number > 0 => drop(lasted.get_or_insert(number)),
                false => {}
            }
        }
        self.done();
        let url = self.url.to_string();
        Ok(Found { url, answer, addresses: addresses.len(), resolve, connect, cold, kept, lasted, calls: self.calls })
    }

    fn upstream(&self, idle: usize) -> Result<Arc<Upstream>, Error> {
        let mut parts = self.url.clone().into_parts();
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        let root = Uri::from_parts(parts).unwrap_or_default();
        let connections = Connections { idle, ..Connections::default() };
        Upstream::new(Settings { connections, ..Settings::new("server", root) })
    }

    async fn call(&self, upstream: &Arc<Upstream>) -> Result<(Answered, Times), Error> {
        let target = self.url.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let begun = Instant::now();
        let answer = upstream.call(Call::get(target)).await?;
        let first = begun.elapsed();
        let status = answer.status.as_u16();
        let bytes = answer.body.collect(MAX_BODY).await?.len();
        Ok((Answered { status, bytes }, Times { first, total: begun.elapsed() }))
    }

    fn progress(&self, what: &str, number: u32) {
        if std::io::stderr().is_terminal() {
            eprint!("\r{what}: {number} of {} ", self.calls);
        }
    }

    fn done(&self) {
        if std::io::stderr().is_terminal() {
            eprint!("\r{:40}\r", "");
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(1)
}

struct Answered {
    status: u16,
    bytes: usize,
}

/// Of one call.
struct Times {
    first: Duration,
    total: Duration,
}

/// What a probe has found.
struct Found {
    url: String,
    answer: Answered,
    addresses: usize,
    resolve: Duration,
    connect: Vec<Duration>,
    cold: Vec<Times>,
    kept: Vec<Times>,
    /// After so many answers the server closed a connection.
    lasted: Option<u32>,
    calls: u32,
}

impl Found {
    /// The rows: what, and the times.
    fn rows(&self) -> [(&'static str, Vec<Duration>); 6] {
        let first = |times: &[Times]| times.iter().map(|times| times.first).collect();
        let total = |times: &[Times]| times.iter().map(|times| times.total).collect();
        [
            ("resolve", vec![self.resolve]),
            ("connect", self.connect.clone()),
            ("first byte, cold", first(&self.cold)),
            ("total, cold", total(&self.cold)),
            ("first byte, kept", first(&self.kept)),
            ("total, kept", total(&self.kept)),
        ]
    }

    fn connections(&self) -> String {
        match self.lasted {
            Some(1) => "closed after every answer".to_owned(),
            Some(answers) => format!("closed after {answers} answers"),
            None => format!("kept over {} calls", self.calls),
        }
    }

    fn advice(&self) -> (String, String) {
        let (cold, kept) = (self.rows().map(|(_, times)| part(times, 0.5)), "30s");
        let saved = cold[3].zip(cold[5]).map(|(cold, kept)| cold.saturating_sub(kept));
        let url = self.url.trim_end_matches('/');
        match (self.lasted, saved) {
            (Some(1), _) | (_, None) => (
                "the server keeps no connection: none is kept for it either".to_owned(),
                format!("upstreams: {{ server: {{ url: '{url}', keep: 0s }} }}"),
            ),
            (_, Some(saved)) => (
                format!("a kept connection saves {} a call", shown(saved)),
                format!("upstreams: {{ server: {{ url: '{url}', keep: {kept} }} }}"),
            ),
        }
    }

    fn text(&self) -> String {
        let Answered { status, bytes } = self.answer;
        let mut text = format!("GET {}\n  answer       {status}, {bytes} bytes, HTTP/1.1\n", self.url);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  addresses    {}", self.addresses);
        let _ = writeln!(text, "  connections  {}\n", self.connections());
        let _ = writeln!(text, "  {:18}{:>10}{:>10}", "", "p50", "p99");
        for (what, times) in self.rows() {
            let at = |share| part(times.clone(), share).map_or("-".to_owned(), shown);
            let _ = writeln!(text, "  {what:18}{:>10}{:>10}", at(0.5), at(0.99));
        }
        let (why, yaml) = self.advice();
        let _ = writeln!(text, "\n{why}:\n  {yaml}");
        text
    }

    fn json(&self) -> serde_json::Value {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1_000.0;
        let row = |(what, times): (&str, Vec<Duration>)| {
            let at = |share| part(times.clone(), share).map(milliseconds);
            (what.replace(", ", "_").replace(' ', "_"), json!({"p50_ms": at(0.5), "p99_ms": at(0.99)}))
        };
        let times: serde_json::Map<_, _> = self.rows().into_iter().map(row).collect();
        let (why, yaml) = self.advice();
        json!({
            "url": self.url,
            "status": self.answer.status,
            "bytes": self.answer.bytes,
            "http": ["1.1"],
            "addresses": self.addresses,
            "connections": {"kept": self.lasted != Some(1), "closed_after": self.lasted, "calls": self.calls},
            "times": times,
            "advice": {"why": why, "yaml": yaml},
        })
    }
}

/// The time that this share of all keeps within.
fn part(mut times: Vec<Duration>, share: f64) -> Option<Duration> {
    times.sort_unstable();
    let place = (times.len() as f64 * share).ceil() as usize;
    times.get(place.saturating_sub(1)).copied()
}

fn shown(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}
