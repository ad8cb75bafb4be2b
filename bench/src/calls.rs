//! The cost of a call, and of an item: CPU of the gateway for one request of a client, in requests that nginx proxies.
//! Gateways of others do what they can of it, in the same rounds.

mod entrant;
mod krakend;
mod other;
mod page;
mod rows;
mod tailcall;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use self::entrant::{Build, Entrant, Who};
use self::other::Question;
use self::rows::{ROWS, Row};
use crate::Result;
use crate::load::{Load, Pace};
use crate::product;
use crate::report::{Style, median};

/// A round that takes longer than this is stuck.
const LONGEST: Duration = Duration::from_secs(300);

/// How many requests tell how long one takes.
const TRIAL: usize = 40;

#[derive(Args)]
pub struct Options {
    /// Rounds, in which all rows take turns; the medians are reported
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Seconds of each row in a round
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Connections of the load generator
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Only rows whose target contains this
    #[arg(long)]
    only: Option<String>,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Another build of the gateway, with a column of its own: release=target/release/crocodile-pear
    #[arg(long, value_name = "NAME=BINARY")]
    beside: Vec<Build>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

/// Somebody who is asked for a row, and how often in a round.
struct Candidate<'a> {
    entrant: &'a Entrant,
    row: &'static Row,
    question: Question,
    requests: usize,
    /// Microseconds of CPU for one request, a figure a round.
    figures: Vec<f64>,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary.clone())?;
    let mut failed = Vec::new();
    let entrants = entrant::start(&binary, &options.beside, rows::serve()?, &mut failed)?;
    let mut candidates = Vec::new();
    for row in &ROWS {
        for entrant in entrants.iter().filter(|entrant| options.want(entrant.who, row)) {
            match Candidate::new(entrant, row, &options).await {
                Ok(candidate) => candidates.extend(candidate),
                // Another version of it may want other words: this is no reason to measure nothing.
                Err(error) if entrant.who.other().is_some() => failed.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
    }
    for _ in 0..options.rounds {
        for candidate in &mut candidates {
            candidate.measure(options.connections).await?;
        }
    }
    let figures = candidates.into_iter().map(|one| (one.entrant.who, one.row, median(one.figures))).collect();
    let running: Vec<Who> = entrants.iter().map(|entrant| entrant.who).collect();
    page::print(&running, figures, &failed, Style::choose(options.markdown))?;
    if failed.is_empty() { Ok(()) } else { Err("not everything could be measured".into()) }
}

impl Options {
    /// nginx proxies in any case: everything is compared with it.
    fn want(&self, who: Who, row: &Row) -> bool {
        matches!(who, Who::Nginx) || self.only.as_ref().is_none_or(|only| row.target.contains(only.as_str()))
    }
}

impl<'a> Candidate<'a> {
    /// `None` if it cannot do what the row wants.
    async fn new(entrant: &'a Entrant, row: &'static Row, options: &Options) -> Result<Option<Self>> {
        let Some(question) = entrant.who.question(row, &entrant.process.address.to_string()) else { return Ok(None) };
        let mut candidate = Candidate { entrant, row, question, requests: TRIAL, figures: Vec::new() };
        candidate.load(options.connections).await?;
        let pace = candidate.load(options.connections).await?;
        candidate.requests = ((pace.per_second() * options.seconds) as usize).max(TRIAL);
        Ok(Some(candidate))
    }

    async fn load(&self, connections: usize) -> Result<Pace> {
        let load = Load {
            address: self.entrant.process.address,
            request: self.question.request.clone(),
            expected: self.question.expected.clone(),
            requests: self.requests,
            connections,
            within: LONGEST,
        };
        let named = |error| format!("{}, {}: {error}", self.entrant.who.name(), self.row.name).into();
        load.run().await.map_err(named)
    }

    async fn measure(&mut self, connections: usize) -> Result<()> {
        let before = self.entrant.process.cpu()?;
        self.load(connections).await?;
        self.figures.push((self.entrant.process.cpu()? - before).as_secs_f64() * 1e6 / self.requests as f64);
        Ok(())
    }
}
