//! The table: every shape of request through every peer, rounds interleaved, medians reported.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::Result;
use crate::asked::Shape;
use crate::load::{self, Load};
use crate::peers::Peer;
use crate::report::{Sheet, Style, median, say};
use crate::{product, upstream};

/// A round that takes longer than this is stuck.
const LONGEST: Duration = Duration::from_secs(300);

#[derive(Args)]
pub struct Options {
    /// Proxied requests a round; half as many merges, a quarter as many concatenations
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(8..=10_000_000))]
    requests: u32,
    /// Connections of the load generator
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4_000))]
    connections: u32,
    /// Rounds, of which the median is reported
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Only these peers
    #[arg(long = "peer", value_enum)]
    peers: Vec<Peer>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

/// A round of one peer.
struct Sample {
    /// Microseconds of CPU for one request.
    cpu: f64,
    per_second: f64,
    /// Bytes.
    peak: f64,
    /// Microseconds.
    middle: f64,
    late: f64,
}

/// A row of the table in the making.
struct Entry {
    shape: Shape,
    peer: Peer,
    samples: Vec<Sample>,
    /// Why there are no figures.
    excuse: Option<String>,
}

pub async fn run(options: Options) -> Result<()> {
    let mut peers = options.peers.clone();
    if peers.is_empty() {
        peers = vec![Peer::CrocodilePear, Peer::Nginx];
    }
    let binary = match peers.contains(&Peer::CrocodilePear) {
        true => product::find(options.binary.clone())?,
        false => PathBuf::new(),
    };
    let upstream = upstream::start()?;
    let mut entries: Vec<Entry> =
        Shape::ALL.iter().flat_map(|shape| peers.iter().map(|peer| Entry::new(*shape, *peer))).collect();
    for round in 1..=options.rounds {
        for entry in entries.iter_mut().filter(|entry| entry.excuse.is_none()) {
            progress(&format!("round {round} of {}: {}, {}", options.rounds, entry.peer.name(), entry.shape.name()));
            match measure(entry.shape, entry.peer, &binary, upstream, &options).await {
                Ok(sample) => entry.samples.push(sample),
                Err(error) => entry.fail(&error.to_string()),
            }
        }
    }
    progress("");
    report(&entries, &options)?;
    match entries.iter().any(Entry::failed) {
        true => Err("not everything could be measured".into()),
        false => Ok(()),
    }
}

async fn measure(shape: Shape, peer: Peer, binary: &Path, upstream: SocketAddr, options: &Options) -> Result<Sample> {
    let running = peer.start(binary, upstream)?;
    let requests = (options.requests / shape.weight()) as usize;
    let load = |requests| Load {
        address: running.address,
        request: load::get(shape.target(), &running.address.to_string()),
        expected: shape.expected(),
        requests,
        connections: options.connections as usize,
        within: LONGEST,
    };
    // Connections opened, memory touched: what is measured is the gateway at work.
    load(requests.div_ceil(10)).run().await?;
    let before = running.cpu()?;
    let pace = load(requests).run().await?;
    let cpu = running.cpu()? - before;
    Ok(Sample {
        cpu: microseconds(cpu) / requests as f64,
        per_second: pace.per_second(),
        peak: running.peak()? as f64,
        middle: microseconds(pace.percentile(0.5)),
        late: microseconds(pace.percentile(0.99)),
    })
}

fn report(entries: &[Entry], options: &Options) -> Result<()> {
    let style = Style::choose(options.markdown);
    let base = entries.iter().find(|entry| (entry.shape, entry.peer) == (Shape::Proxy, Peer::Nginx));
    let base = base.map_or(f64::NAN, |entry| entry.median(|sample| sample.cpu));
    let headings = ["request", "gateway", "CPU µs", "x nginx", "requests/s", "peak MiB", "p50 µs", "p99 µs"];
    let mut sheet = Sheet::new(2, headings);
    for entry in entries {
        sheet.add(entry.row(base));
    }
    sheet.print(style)?;
    say("")?;
    say(&format!(
        "{} requests a round ({} merges, {} concatenations) over {} connections, median of {} rounds; every answer compared.",
        options.requests,
        options.requests / Shape::Merge.weight(),
        options.requests / Shape::Ten.weight(),
        options.connections,
        options.rounds,
    ))?;
    say("CPU: user and system time of all the gateway's processes and threads for one request of a client;")?;
    say("x nginx: that, against nginx's proxied request. Peak: VmHWM, summed over processes.")?;
    for described in [Peer::CrocodilePear, Peer::Nginx].into_iter().filter_map(Peer::describe) {
        say(&described)?;
    }
    for entry in entries.iter().filter(|entry| entry.failed()) {
        say(&format!("\n{}, {}: {}", entry.peer.name(), entry.shape.name(), entry.excuse.as_deref().unwrap_or("")))?;
    }
    Ok(())
}

impl Entry {
    fn new(shape: Shape, peer: Peer) -> Self {
        let excuse = if peer.can(shape) { peer.missing() } else { Some("cannot") };
        Self { shape, peer, samples: Vec::new(), excuse: excuse.map(str::to_owned) }
    }

    fn fail(&mut self, why: &str) {
        self.samples.clear();
        self.excuse = Some(format!("failed\n{why}"));
    }

    fn failed(&self) -> bool {
        self.excuse.as_ref().is_some_and(|excuse| excuse.starts_with("failed"))
    }

    fn median(&self, figure: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(figure).collect())
    }

    fn row(&self, base: f64) -> [String; 8] {
        let (shape, peer) = (self.shape.name().to_owned(), self.peer.name().to_owned());
        if let Some(excuse) = &self.excuse {
            let excuse = excuse.lines().next().unwrap_or_default().to_owned();
            return [shape, peer, excuse, "".into(), "".into(), "".into(), "".into(), "".into()];
        }
        let cpu = self.median(|sample| sample.cpu);
        let ratio = if base.is_normal() { format!("{:.2}", cpu / base) } else { "-".to_owned() };
        [
            shape,
            peer,
            format!("{cpu:.1}"),
            ratio,
            format!("{:.0}", self.median(|sample| sample.per_second)),
            format!("{:.1}", self.median(|sample| sample.peak) / f64::from(1 << 20)),
            format!("{:.0}", self.median(|sample| sample.middle)),
            format!("{:.0}", self.median(|sample| sample.late)),
        ]
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Over the line before, on a terminal; nothing in a pipe.
fn progress(line: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
    }
}
