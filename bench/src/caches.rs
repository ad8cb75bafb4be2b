//! Caches of other products in front of the gateway: whether a client gets what is another's, and how much they keep.

use std::path::PathBuf;

use clap::Args;
use crocodile_pear_stage::downstream::{self, Product};

use crate::report::say;
use crate::{Result, product};

#[derive(Args)]
pub struct Options {
    /// How many random endpoints are asked, with two clients each
    #[arg(long, default_value_t = 10_000)]
    endpoints: usize,
    /// The seed of the endpoints and the clients
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    let play = || downstream::play(&binary, options.seed, options.endpoints, &Product::ALL);
    // It waits for processes, which holds no thread of a runtime.
    let figures = std::thread::scope(|scope| scope.spawn(play).join()).expect("the play does not panic");
    say("| cache | requests | hits | cacheable endpoints | of these kept | 304 |\n|---|--:|--:|--:|--:|--:|")?;
    for (product, counts) in &figures.caches {
        let name = product.name();
        match counts.asked {
            0 => say(&format!("| {name} | left out: not installed |||||"))?,
            asked => say(&format!(
                "| {name} | {asked} | {} | {} | {} | {} |",
                counts.hits, counts.cacheable, counts.kept, counts.unchanged
            ))?,
        }
    }
    let wrong = figures.wrong.len();
    say(&format!(
        "{} endpoints; {} answers 304 of the gateway itself; {wrong} answers of another, stale or broken",
        figures.endpoints, figures.unchanged
    ))?;
    figures.wrong.iter().take(5).for_each(|wrong| eprintln!("{wrong}\n"));
    if wrong > 0 {
        return Err(format!("{wrong} answers are not what they should be").into());
    }
    Ok(())
}
