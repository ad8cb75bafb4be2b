//! Faults while requests come: what clients get, when all is well again, what the log tells.

use std::path::{Path, PathBuf};

use clap::Args;
use crocodile_pear_stage::faults::{self, Fault, Figures, Reload, Times};

use crate::report::say;
use crate::{Result, product};

#[derive(Args)]
pub struct Options {
    /// The faults, by the beginning of their names, such as `redis`, `postgresql/killed` or `shutdown`; all without one
    faults: Vec<String>,
    /// Reads the configuration again in the middle of each fault
    #[arg(long)]
    reload: bool,
    /// So many pairs of faults at the same time, instead of one after the other
    #[arg(long, default_value_t = 0)]
    pairs: usize,
    /// The seed of the pairs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints the names of the faults
    #[arg(long)]
    list: bool,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub async fn run(options: Options) -> Result<()> {
    let named = |fault: &&Fault| {
        options.faults.is_empty() || options.faults.iter().any(|name| fault.name.starts_with(name.as_str()))
    };
    let chosen: Vec<&'static Fault> = faults::all().filter(named).collect();
    let stops = |name: &&&str| {
        let name = format!("shutdown/{name}");
        options.faults.is_empty() || options.faults.iter().any(|chosen| name.starts_with(chosen.as_str()))
    };
    let mut stops: Vec<&str> = faults::SHUTDOWNS.iter().filter(stops).copied().collect();
    if options.pairs > 0 {
        stops.clear();
    }
    if options.list {
        chosen.iter().try_for_each(|fault| say(fault.name))?;
        return Ok(stops.iter().try_for_each(|name| say(&format!("shutdown/{name}")))?);
    }
    let binary = product::find(options.binary)?;
    let reload = if options.reload { Reload::Meanwhile } else { Reload::Never };
    let runs: Vec<Vec<&Fault>> = match options.pairs {
        0 => chosen.into_iter().map(|fault| vec![fault]).collect(),
        count => faults::pairs(options.seed, count).into_iter().map(|pair| pair.to_vec()).collect(),
    };
    // The faults have runtimes of their own, which cannot be started on a thread of this one.
    std::thread::scope(|scope| scope.spawn(|| table(&binary, &runs, &stops, reload)).join())
        .expect("the table does not panic")
}

fn table(binary: &Path, runs: &[Vec<&Fault>], stops: &[&str], reload: Reload) -> Result<()> {
    say(
        "| fault | asked | while it lasts | p50, p99, longest ms | whole after ms | log lines | told | wrong |\n|---|---|---|---|---|---|---|---|",
    )?;
    let mut wrong = 0;
    let faulty = runs.iter().map(|faults| (faults[0].name, faults::run(binary, faults, Times::LONG, reload)));
    let stopped = stops.iter().map(|name| (*name, faults::shutdown(binary, name, Times::LONG)));
    for (name, figures) in faulty.chain(stopped) {
        match figures {
            Some(figures) => {
                wrong += figures.wrong.len();
                say(&row(&figures))?;
                figures.wrong.iter().take(5).for_each(|reason| eprintln!("  {reason}"));
            }
            None => say(&format!("| {name} | left out: a program is not installed |||||||"))?,
        }
    }
    if wrong > 0 {
        return Err(format!("{wrong} answers, times or lines are not what they should be").into());
    }
    Ok(())
}

fn row(figures: &Figures) -> String {
    let during: Vec<String> = figures.during.iter().map(|(status, count)| format!("{count} × {status}")).collect();
    let times = figures.times.map(|time| format!("{:.0}", time.as_secs_f64() * 1e3)).join(", ");
    let Figures { name, asked, whole, lines, told, wrong, .. } = figures;
    let told = told.split_once("Z ").map_or(told.as_str(), |(_, line)| line).replace('|', "/");
    format!(
        "| {name} | {asked} | {} | {times} | {} | {lines} | {told} | {} |",
        during.join(", "),
        whole.as_millis(),
        wrong.len()
    )
}
