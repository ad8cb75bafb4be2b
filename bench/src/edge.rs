//! What an edge gateway does beside proxying: asks a service whether a request may pass, serves files, copies calls. CPU of the process for
//! one request, beside nginx where it can do that, in one run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::Result;
use crate::expected::Expected;
use crate::load::{Load, Pace, get};
use crate::process::{Folder, Process};
use crate::report::{Sheet, Style, say};
use crate::{peers, product, upstream};

const WITHIN: Duration = Duration::from_secs(600);

const SMALL: usize = 10_000;
const LARGE: usize = 100_000_000;

#[derive(Args)]
pub struct Options {
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How many requests of each small kind are made in a round
    #[arg(long, default_value_t = 60_000)]
    requests: usize,
    /// How many rounds are made; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

const HEADINGS: [&str; 7] =
    ["", "requests", "crocodile-pear µs", "nginx µs", "of nginx", "p99 crocodile-pear ms", "p99 nginx ms"];

/// A request that both get.
struct Case {
    name: &'static str,
    target: &'static str,
    expected: Vec<u8>,
    requests: usize,
    connections: usize,
}

/// The cost of a case in a round.
#[derive(Clone, Copy)]
struct Cost {
    micros: f64,
    p99: f64,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    let files = Folder::new("edge-files")?;
    let bytes = |length: usize| (0..length).map(|at| b'a' + (at % 23) as u8).collect::<Vec<u8>>();
    let (small, large) = (bytes(SMALL), bytes(LARGE));
    std::fs::write(files.path().join("small.txt"), &small)?;
    std::fs::write(files.path().join("large.txt"), &large)?;
    let up = upstream::start()?;
    let service = upstream::serving(vec![b"HTTP/1.1 204 No Content\r\nx-user: ada\r\n\r\n".to_vec()], |_| Some(0))?;
    let ours = product::start(&binary, "edge", |listen| product::edge(listen, up, service, files.path()))?;
    let theirs = peers::edge(up, service, files.path())?;
    let item = upstream::item(0);
    let cases = [
        Case {
            name: "proxy, 282 B",
            target: "/proxy",
            expected: item.clone(),
            requests: options.requests,
            connections: 32,
        },
        Case {
            name: "the same, a service is asked",
            target: "/guarded",
            expected: item.clone(),
            requests: options.requests,
            connections: 32,
        },
        Case {
            name: "a file of 10 KB",
            target: "/files/small.txt",
            expected: small,
            requests: options.requests,
            connections: 32,
        },
        Case { name: "a file of 100 MB", target: "/files/large.txt", expected: large, requests: 20, connections: 2 },
    ];
    let mut sheet = Sheet::new(1, HEADINGS);
    for case in &cases {
        let mut costs = [Vec::new(), Vec::new()];
        // In turns, so that what else the machine does meets both.
        for _ in 0..options.rounds {
            for (process, costs) in [&ours, &theirs].into_iter().zip(&mut costs) {
                costs.push(cost(process, case).await?);
            }
        }
        let [own, other] = costs.map(median);
        sheet.add([
            case.name.to_owned(),
            case.requests.to_string(),
            format!("{:.1}", own.micros),
            format!("{:.1}", other.micros),
            format!("{:.2}", own.micros / other.micros),
            format!("{:.2}", own.p99),
            format!("{:.2}", other.p99),
        ]);
    }
    sheet.print(Style::choose(options.markdown))?;
    say("")?;
    mirror(&binary, up, options.requests, options.rounds).await?;
    say("")?;
    say(
        "µs: CPU of the process for one request. Medians of the rounds. Load, gateway and upstream share the machine.",
    )?;
    Ok(())
}

async fn cost(process: &Process, case: &Case) -> Result<Cost> {
    let before = process.cpu()?;
    let pace = load(process.address, case.target, &case.expected, case.requests, case.connections).await?;
    let spent = process.cpu()?.saturating_sub(before);
    Ok(Cost {
        micros: spent.as_secs_f64() * 1e6 / case.requests as f64,
        p99: pace.percentile(0.99).as_secs_f64() * 1e3,
    })
}

async fn load(address: SocketAddr, target: &str, body: &[u8], requests: usize, connections: usize) -> Result<Pace> {
    let request = get(target, &address.to_string());
    let expected = Expected::Exactly(body.to_vec());
    Load { address, request, expected, requests, connections, within: WITHIN }.run().await
}

fn median(mut costs: Vec<Cost>) -> Cost {
    costs.sort_by(|one, other| one.micros.total_cmp(&other.micros));
    let p99 = |costs: &[Cost]| {
        let mut all: Vec<f64> = costs.iter().map(|cost| cost.p99).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Cost { micros: costs[costs.len() / 2].micros, p99: p99(&costs) }
}

/// The effect of a mirror whose server never answers on clients, and its memory.
async fn mirror(binary: &Path, up: SocketAddr, requests: usize, rounds: usize) -> Result<()> {
    // Takes connections and reads nothing.
    let hangs = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = hangs.local_addr()?;
    let held = std::thread::Builder::new().name("hangs".into());
    held.spawn(move || hangs.incoming().collect::<Vec<_>>())?;
    let gateway = product::start(binary, "mirror", |listen| product::mirrored(listen, up, address))?;
    let item = upstream::item(0);
    let mut sheet = Sheet::new(1, ["a mirror that hangs", "p50 ms", "p99 ms", "peak MiB"]);
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (target, paces) in ["/plain", "/mirrored"].into_iter().zip(&mut costs) {
            let pace = load(gateway.address, target, &item, requests, 32).await?;
            let part = |part| pace.percentile(part).as_secs_f64() * 1e3;
            paces.push((part(0.5), part(0.99), gateway.peak()?));
        }
    }
    for (name, mut paces) in ["without", "with"].into_iter().zip(costs) {
        paces.sort_by(|one, other| one.1.total_cmp(&other.1));
        let (p50, p99, _) = paces[paces.len() / 2];
        let peak = paces.iter().map(|pace| pace.2).max().unwrap_or_default();
        sheet.add([
            name.to_owned(),
            format!("{p50:.2}"),
            format!("{p99:.2}"),
            format!("{:.1}", peak as f64 / f64::from(1 << 20)),
        ]);
    }
    sheet.print(Style::choose(false))?;
    Ok(())
}
