//! A route that fails and logs each request, while nobody reads the log: what that costs the requests of other routes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use crocodile_pear_stage::gateway::Gateway;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::process::Folder;
use crate::report::say;
use crate::{Result, load, product, upstream};

#[derive(Args)]
pub struct Options {
    /// Requests a second for the route that fails
    #[arg(long, default_value_t = 500)]
    failing: u32,
    /// Requests a second for the other route
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Seconds of each part
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Runs the bench with far more lines than a pipe holds, which is 64 KiB of the system, and 1 MiB of the gateway.
pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    let upstream = upstream::start()?;
    let folder = Folder::new("logs")?;
    let config = format!(
        "listen: 127.0.0.1:0\nthreads: 2\nlog: {{ level: debug, access: on }}\nupstreams:\n  good: 'http://{upstream}'\n  \
         bad: 'http://127.0.0.1:9'\nendpoints:\n  GET /good/{{n}}: good /users/{{n}}\n  GET /bad: bad /\n"
    );
    let mut command = Command::new(binary);
    command.arg("run").arg(folder.write("gateway.yaml", &config)?);
    let gateway = Gateway::begin(command)?;
    let time = Duration::from_secs(options.seconds);
    say("| the log's reader | requests | failed | p50 ms | p99 ms | longest ms |\n|---|---|---|---|---|---|")?;
    for (name, reads) in [("reads", true), ("has stopped", false)] {
        if !reads {
            gateway.stop_reading();
        }
        let bad = tokio::spawn(paced(gateway.address, "/bad", options.failing, time));
        let good = paced(gateway.address, "/good/1", options.rate, time).await;
        bad.await?;
        let Paced { mut times, failed } = good;
        times.sort_unstable();
        let part = |part: f64| {
            let at = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
            times.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
        };
        say(&format!(
            "| {name} | {} | {failed} | {:.2} | {:.2} | {:.2} |",
            times.len(),
            part(0.5),
            part(0.99),
            part(1.0)
        ))?;
    }
    Ok(())
}

/// How long each request took from when it was due, and how many had no answer with 200.
struct Paced {
    times: Vec<Duration>,
    failed: usize,
}

/// Asks at this rate, whatever becomes of the requests before.
async fn paced(address: SocketAddr, target: &str, rate: u32, time: Duration) -> Paced {
    let request: Arc<[u8]> = load::get(target, "gateway").into();
    let idle: Arc<Mutex<Vec<Connection>>> = Arc::default();
    let mut due = tokio::time::interval(Duration::from_secs(1) / rate);
    let begun = Instant::now();
    let mut running = JoinSet::new();
    while begun.elapsed() < time {
        let since = due.tick().await;
        let (request, idle) = (request.clone(), idle.clone());
        running.spawn(async move {
            let known = idle.lock().await.pop();
            let mut connection = match known {
                Some(known) => known,
                None => Connection::open(address).await.ok()?,
            };
            let answer = connection.exchange(&request).await.ok()?;
            idle.lock().await.push(connection);
            Some((since.elapsed(), answer.status))
        });
    }
    let answers = running.join_all().await;
    let failed = answers.iter().filter(|answer| !matches!(answer, Some((_, 200)))).count();
    Paced { times: answers.into_iter().flatten().map(|(time, _)| time).collect(), failed }
}
