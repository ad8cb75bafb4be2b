//! Work of an edge gateway beside proxying: asks a service whether a request may pass, serves files, copies calls. CPU of the process for
//! one request, beside nginx where it can do that, in one run.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;

use crate::Result;
use crate::client::Connection;
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
    dying(&binary, up).await?;
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

/// The states of the service that decides.
const ALIVE: usize = 0;
const SILENT: usize = 1;
const GONE: usize = 2;

/// The time that the gateway waits for a decision.
const DECISION: Duration = Duration::from_millis(500);

/// A service that decides, until it hangs, and then is gone. Blocking: it has a thread for each connection.
struct Decider {
    address: SocketAddr,
    state: Arc<AtomicUsize>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Decider {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (state, streams) = (Arc::new(AtomicUsize::new(ALIVE)), Arc::new(Mutex::new(Vec::new())));
        let (now, kept): (Arc<AtomicUsize>, Arc<Mutex<Vec<TcpStream>>>) = (state.clone(), streams.clone());
        std::thread::Builder::new().name("decider".into()).spawn(move || {
            for stream in listener.incoming().map_while(std::result::Result::ok) {
                if now.load(Ordering::SeqCst) == GONE {
                    return;
                }
                if let (Ok(own), Ok(mut kept)) = (stream.try_clone(), kept.lock()) {
                    kept.push(own);
                }
                let now = now.clone();
                std::thread::spawn(move || decide(stream, &now));
            }
        })?;
        Ok(Decider { address, state, streams })
    }

    /// Closes its connections and takes no more.
    fn go(&self) {
        self.state.store(GONE, Ordering::SeqCst);
        // Wakes the thread that accepts, which ends.
        let _ = TcpStream::connect(self.address);
        for stream in self.streams.lock().map(|mut streams| std::mem::take(&mut *streams)).unwrap_or_default() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Lets all requests pass while the service is alive.
fn decide(mut stream: TcpStream, state: &AtomicUsize) {
    let (mut received, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        received.extend_from_slice(&piece[..read]);
        while let Some(end) = memchr::memmem::find(&received, b"\r\n\r\n") {
            received.drain(..end + 4);
            // The head is dropped: nobody ever gets an answer to it.
            if state.load(Ordering::SeqCst) != ALIVE {
                continue;
            }
            if stream.write_all(b"HTTP/1.1 204 No Content\r\nx-user: ada\r\n\r\n").is_err() {
                return;
            }
        }
    }
}

/// The statuses that clients get under load while the service that decides is there, hangs, and is gone.
async fn dying(binary: &Path, up: SocketAddr) -> Result<()> {
    const CLIENTS: usize = 64;
    let decider = Decider::start()?;
    let gateway = product::start(binary, "dying", |listen| product::guarded(listen, up, decider.address, DECISION))?;
    let mut sheet = Sheet::new(1, ["the service that decides", "requests", "let in", "refused", "other", "slowest ms"]);
    for (name, state, each) in [("answers", ALIVE, 200), ("hangs", SILENT, 8), ("is gone", GONE, 200)] {
        match state {
            GONE => decider.go(),
            state => decider.state.store(state, Ordering::SeqCst),
        }
        let tasks = tokio::task::LocalSet::new();
        let workers: Vec<_> = (0..CLIENTS).map(|_| tasks.spawn_local(statuses(gateway.address, each))).collect();
        let all = tasks.run_until(async {
            let mut all = Vec::new();
            for worker in workers {
                all.extend(worker.await??);
            }
            Result::Ok(all)
        });
        let all = tokio::time::timeout(WITHIN, all).await.map_err(|_| "not done in time")??;
        let count = |wanted: fn(u16) -> bool| all.iter().filter(|(status, _)| wanted(*status)).count().to_string();
        let slowest = all.iter().map(|(_, took)| *took).max().unwrap_or_default();
        sheet.add([
            name.to_owned(),
            all.len().to_string(),
            count(|status| status == 200),
            count(|status| matches!(status, 502..=504)),
            count(|status| status != 200 && !matches!(status, 502..=504)),
            format!("{:.1}", slowest.as_secs_f64() * 1e3),
        ]);
    }
    sheet.print(Style::choose(false))?;
    say(&format!("The gateway waits {} ms for a decision.", DECISION.as_millis()))?;
    Ok(())
}

/// The status of each of so many requests, and how long it took.
async fn statuses(address: SocketAddr, requests: usize) -> Result<Vec<(u16, Duration)>> {
    let request = get("/guarded", &address.to_string());
    let mut connection = Connection::open(address).await?;
    let mut statuses = Vec::with_capacity(requests);
    for _ in 0..requests {
        let begun = Instant::now();
        let answer = connection.exchange(&request).await?;
        statuses.push((answer.status, begun.elapsed()));
    }
    Ok(statuses)
}

/// The effect of a mirror whose server never answers on clients, and its memory.
async fn mirror(binary: &Path, up: SocketAddr, requests: usize, rounds: usize) -> Result<()> {
    // Takes connections and reads nothing.
    let hangs = TcpListener::bind("127.0.0.1:0")?;
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
