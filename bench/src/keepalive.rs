//! Source C: what a kept connection saves, over a link of 15 ms each way that is made here.

mod link;
mod secure;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::LocalSet;

use self::link::link;
use self::secure::{Secure, Tls};
use crate::Result;
use crate::client::Connection;
use crate::report::{Sheet, Style, say};
use crate::{load, product, upstream};

#[derive(Args)]
pub struct Options {
    /// Milliseconds of the link, each way
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    delay: u64,
    /// Calls for each row, one after the other
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    calls: u32,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

pub async fn run(options: Options) -> Result<()> {
    LocalSet::new().run_until(table(options)).await
}

async fn table(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    let (delay, calls) = (Duration::from_millis(options.delay), options.calls);
    let plain = link(upstream::start()?, delay).await?;
    let mut sheet = Sheet::new(2, ["over the link", "connection", "p50 ms", "p99 ms", "trips", "the source ms"]);
    for (how, keep, trips) in [("cold", false, 2), ("kept", true, 1)] {
        let times = ask(plain, "/item", keep, calls).await?;
        sheet.add(row("a client alone, HTTP/1.1", how, &times, trips, "-"));
    }
    for (how, keep, trips) in [("cold", "0s", 2), ("kept", "30s", 1)] {
        let times = through(&binary, &format!("{{ url: 'http://{plain}', keep: {keep} }}"), calls).await?;
        sheet.add(row("HTTP/1.1", how, &times, trips, "-"));
    }
    let secure = Secure::new()?;
    for tls in [Tls::V12, Tls::V13] {
        let far = link(secure.serve(tls)?, delay).await?;
        for (http, protocol) in [("HTTP/1.1", "http1"), ("HTTP/2", "http2")] {
            // The source has one figure for all of them.
            for (how, keep, source) in [("cold", "0s", "135"), ("kept", "30s", "30")] {
                let trips = if how == "kept" { 1 } else { 3 };
                let trust =
                    format!("tls: {{ ca: '{}', versions: ['{}'] }}", secure.authority().display(), tls.version());
                let upstream = format!("{{ url: 'https://{far}', protocol: {protocol}, keep: {keep}, {trust} }}");
                let times = through(&binary, &upstream, calls).await?;
                sheet.add(row(&format!("{http}, TLS {}", tls.version()), how, &times, trips, source));
            }
        }
    }
    sheet.print(Style::choose(options.markdown))?;
    say(&format!("\nA trip there and back takes {} ms and what two timers of a millisecond add.", 2 * options.delay))?;
    say("Cold under TLS: one trip for TCP, one for TLS (sessions are resumed, in 1.2 too), one for the call.")?;
    say(
        "The source (State Farm), 15 ms each way with TLS: 135 ms cold, 30 ms kept; in production 206 ms saved a call.",
    )?;
    Ok(())
}

fn row(what: &str, how: &str, times: &[Duration], trips: u32, source: &str) -> [String; 6] {
    let at = |part: f64| {
        let place = (times.len() as f64 * part).ceil() as usize;
        times.get(place.saturating_sub(1)).map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0)
    };
    let (middle, late) = (format!("{:.1}", at(0.5)), format!("{:.1}", at(0.99)));
    [what.into(), how.into(), middle, late, trips.to_string(), source.into()]
}

/// Times of calls through a gateway with this upstream.
async fn through(binary: &Path, upstream: &str, calls: u32) -> Result<Vec<Duration>> {
    let gateway = product::start(binary, "keepalive", |listen| product::proxy(listen, upstream))?;
    ask(gateway.address, "/proxy", true, calls).await
}

/// Between two calls: a connection of HTTP/2 that is not kept is closed after a ping has come back.
const PAUSE: Duration = Duration::from_millis(80);

/// Times of calls, sorted, the first of a kept connection left out.
async fn ask(address: SocketAddr, target: &str, keep: bool, calls: u32) -> Result<Vec<Duration>> {
    let request = load::get(target, "bench");
    let mut connection = Connection::open(address).await?;
    connection.exchange(&request).await?;
    let mut times = Vec::with_capacity(calls as usize);
    for _ in 0..calls {
        // What is not kept is closed by then.
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        if !keep {
            connection = Connection::open(address).await?;
        }
        let answer = connection.exchange(&request).await?;
        times.push(begun.elapsed());
        if answer.status != 200 {
            return Err(format!("status {}", answer.status).into());
        }
    }
    times.sort_unstable();
    Ok(times)
}
