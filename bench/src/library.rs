//! The library beside reqwest and futures: a call for each of many ids, and three calls at once, typed, on one thread. Each
//! round is a process of its own, so that CPU and memory are those of one side; rounds are interleaved.

use std::net::SocketAddr;
use std::process::Command;

use clap::{Args, ValueEnum};
use crocodile_pear::Client;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;

use crate::report::{median, say};
use crate::{Result, upstream};

#[derive(Args)]
pub struct Options {
    /// Rounds of each side, of which the median is reported
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Runs in a round
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    /// Ids of one run
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    ids: u32,
    /// The only side, for a round
    #[arg(long, hide = true)]
    side: Option<Side>,
    /// The calls of a run
    #[arg(long, hide = true, default_value = "each")]
    shape: Shape,
    /// The upstream
    #[arg(long, hide = true)]
    address: Option<SocketAddr>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Side {
    Library,
    Reqwest,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shape {
    /// A call for each id, 20 at once, in order
    Each,
    /// Three calls at once
    Join,
}

#[derive(Deserialize)]
struct Item {
    n: u64,
    text: String,
}

impl Item {
    fn weight(&self) -> u64 {
        self.n + self.text.len() as u64
    }
}

/// Microseconds of CPU for a call, and the most memory in bytes.
struct Sample {
    cpu: f64,
    peak: f64,
}

pub async fn run(options: Options) -> Result<()> {
    if let (Some(side), Some(address)) = (options.side, options.address) {
        return round(side, address, &options).await;
    }
    let address = upstream::start()?;
    say("| | library, µs of CPU a call | reqwest | ratio | library, MB | reqwest | ratio |")?;
    say("|---|---|---|---|---|---|---|")?;
    for (shape, name) in [(Shape::Each, "a call for each id"), (Shape::Join, "three calls at once")] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            ours.push(measure(Side::Library, shape, address, &options)?);
            theirs.push(measure(Side::Reqwest, shape, address, &options)?);
        }
        let middle = |samples: &[Sample], of: fn(&Sample) -> f64| median(samples.iter().map(of).collect());
        let (cpu, other) = (middle(&ours, |sample| sample.cpu), middle(&theirs, |sample| sample.cpu));
        let (peak, beside) = (middle(&ours, |sample| sample.peak / 1e6), middle(&theirs, |sample| sample.peak / 1e6));
        let (ratio, more) = (cpu / other, peak / beside);
        say(&format!("| {name} | {cpu:.1} | {other:.1} | {ratio:.2} | {peak:.1} | {beside:.1} | {more:.2} |"))?;
    }
    Ok(())
}

fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Runs a round in a process of its own.
fn measure(side: Side, shape: Shape, address: SocketAddr, options: &Options) -> Result<Sample> {
    let mut round = Command::new(std::env::current_exe()?);
    round.args(["library", "--side", &word(side), "--shape", &word(shape), "--address", &address.to_string()]);
    round.args(["--runs", &options.runs.to_string(), "--ids", &options.ids.to_string()]);
    let said = round.output()?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut figures = text.split_whitespace().map(str::parse::<f64>);
    match (figures.next(), figures.next()) {
        (Some(Ok(cpu)), Some(Ok(peak))) => Ok(Sample { cpu, peak }),
        _ => Err(format!("a round failed: {text}{}", String::from_utf8_lossy(&said.stderr)).into()),
    }
}

async fn round(side: Side, address: SocketAddr, options: &Options) -> Result<()> {
    let api = format!("http://{address}/item?n=");
    // Connections and memory are there.
    let (calls, wanted) = work(side, &api, 2, options).await?;
    let begun = cpu()?;
    let (calls_made, weight) = work(side, &api, options.runs, options).await?;
    let spent = cpu()? - begun;
    if weight == 0 || wanted == 0 || calls == 0 {
        return Err("nothing was read".into());
    }
    say(&format!("{} {}", spent / 1000.0 / calls_made as f64, peak()?))?;
    Ok(())
}

/// The calls that were made, and what their answers weigh.
async fn work(side: Side, api: &str, runs: u32, options: &Options) -> Result<(u64, u64)> {
    let (library, reqwest) = (Client::new(), reqwest::Client::new());
    let (mut calls, mut weight) = (0, 0);
    for _ in 0..runs {
        let items: Vec<Item> = match (side, options.shape) {
            (Side::Library, Shape::Each) => {
                let (client, api) = (library.clone(), api.to_owned());
                let call = move |id: &u32| client.get(format!("{api}{}", id % 10)).as_json::<Item>();
                let items = library.items(0..options.ids).call(20, call);
                items.map(|(_, item)| item).ordered().try_collect().await?
            }
            (Side::Reqwest, Shape::Each) => {
                let items = stream::iter(0..options.ids).map(|id| {
                    let call = reqwest.get(format!("{api}{}", id % 10));
                    async move { call.send().await?.error_for_status()?.json::<Item>().await }
                });
                items.buffered(20).try_collect().await?
            }
            (Side::Library, Shape::Join) => {
                let get = |id: u32| library.get(format!("{api}{id}")).as_json::<Item>();
                let (one, two, three) = library.join((get(1), get(2), get(3))).await?;
                vec![one, two, three]
            }
            (Side::Reqwest, Shape::Join) => {
                let get = async |id: u32| {
                    reqwest.get(format!("{api}{id}")).send().await?.error_for_status()?.json::<Item>().await
                };
                let (one, two, three) = tokio::try_join!(get(1), get(2), get(3))?;
                vec![one, two, three]
            }
        };
        calls += items.len() as u64;
        weight += items.iter().map(Item::weight).sum::<u64>();
    }
    Ok((calls, weight))
}

/// Nanoseconds of CPU that all threads of this process have used.
fn cpu() -> Result<f64> {
    let mut all = 0.0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        all += text.split_whitespace().next().unwrap_or("0").parse::<f64>()?;
    }
    Ok(all)
}

/// The most memory that this process had in use, in bytes.
fn peak() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.split_whitespace().next().unwrap_or("0").parse::<u64>()? << 10)
}
