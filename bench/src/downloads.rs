//! Large answers over HTTP/2 without TLS, for clients with small and large windows: how many of them stop.

use std::path::PathBuf;

use clap::Args;
use crocodile_pear_stage::downloads;

use crate::report::say;
use crate::{Result, product};

#[derive(Args)]
pub struct Options {
    /// How many downloads of each kind
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// Their size in MiB
    #[arg(long, default_value_t = 50)]
    size: usize,
    /// The threads of the gateway, one count after the other
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    say(
        "| upstream | threads | window | at once | client | downloads | stopped | s | slowest ms |\n|---|--:|--:|--:|---|--:|--:|--:|--:|",
    )?;
    let (mut all, mut stopped) = (0, 0);
    let mut told = |kind: downloads::Kind, outcome: downloads::Outcome| {
        all += outcome.downloads;
        stopped += outcome.stopped;
        let _ = say(&format!(
            "| HTTP/{} | {} | {} | {} | {:?} | {} | {} | {:.1} | {} |",
            kind.upstream,
            kind.threads,
            kind.window,
            kind.at_once,
            kind.pace,
            outcome.downloads,
            outcome.stopped,
            outcome.took.as_secs_f64(),
            outcome.slowest.as_millis()
        ));
    };
    let play = || downloads::play(&binary, (options.size << 20, options.count), &options.threads, &mut told);
    // The downloads have a runtime of their own, which cannot be started on a thread of this one.
    std::thread::scope(|scope| scope.spawn(play).join()).expect("the play does not panic");
    say(&format!("{all} downloads of {} MiB, {stopped} stopped", options.size))?;
    if stopped > 0 {
        return Err("downloads stopped".into());
    }
    Ok(())
}
