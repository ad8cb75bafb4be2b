//! What a call costs, and an item: CPU of the gateway for one request of a client, in requests that nginx proxies.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::Result;
use crate::expected::Expected;
use crate::load::{self, Load, Pace};
use crate::peers::Peer;
use crate::process::Process;
use crate::report::{Sheet, Style, median, say};
use crate::{product, upstream};

/// Items of the list, each with a link of its own.
const ITEMS: usize = 100;

/// Bytes of a detail, as of what is proxied.
const SIZE: usize = upstream::SIZE;

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
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

/// One row of the table.
struct Row {
    name: &'static str,
    target: &'static str,
    /// What it may cost, in proxied requests of nginx.
    bound: Option<f64>,
    expected: fn() -> Expected,
}

const ROWS: [Row; 12] = [
    row("proxied, 282 B", "/proxy", None, || Expected::Exactly(upstream::item(0))),
    row("one call, fields of 1 KB picked", "/pick", Some(1.15), || Expected::Exactly(PICKED.to_vec())),
    row("merge of 3", "/merge", Some(2.0), merged),
    row("list of 10", "/ten", Some(6.5), || Expected::any_order((1..=10).map(detail).collect())),
    row("list of 100, handed on", "/rows", None, || Expected::Exactly(list())),
    row("each + concatenate", "/each", Some(6.0), || Expected::any_order((1..=ITEMS).map(listed).collect())),
    row("each + transform", "/transformed", Some(9.0), || Expected::any_order((1..=ITEMS).map(transformed).collect())),
    row("100 bare calls", "/bare", Some(62.0), || Expected::any_order((1..=ITEMS).map(detail).collect())),
    row("each + a request per item", "/called", Some(70.0), || Expected::any_order((1..=ITEMS).map(detail).collect())),
    row("each + follow, embedded", "/embedded", Some(75.0), || {
        Expected::any_order((1..=ITEMS).map(embedded).collect())
    }),
    row("... and fields of both", "/flat", None, || Expected::any_order((1..=ITEMS).map(flat).collect())),
    row("... and nested fields of both", "/nested", Some(85.0), || {
        Expected::any_order((1..=ITEMS).map(nested).collect())
    }),
];

const fn row(name: &'static str, target: &'static str, bound: Option<f64>, expected: fn() -> Expected) -> Row {
    Row { name, target, bound, expected }
}

/// Somebody who is asked for a row, and how often in a round.
struct Candidate<'a> {
    process: &'a Process,
    row: &'a Row,
    requests: usize,
    /// Microseconds of CPU for one request, a figure a round.
    figures: Vec<f64>,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary.clone())?;
    let upstream = serve()?;
    let gateway = product::start(&binary, "calls", |listen| product::calls(listen, upstream))?;
    let nginx = match Peer::Nginx.missing() {
        Some(_) => None,
        None => Some(Peer::Nginx.start(&binary, upstream)?),
    };
    let wanted = |row: &&Row| options.only.as_ref().is_none_or(|only| row.target.contains(only.as_str()));
    let asked = nginx.iter().map(|nginx| (nginx, &ROWS[0]));
    let asked = asked.chain(ROWS.iter().filter(wanted).map(|row| (&gateway, row)));
    let mut candidates = Vec::new();
    for (process, row) in asked {
        candidates.push(Candidate::new(process, row, &options).await?);
    }
    for _ in 0..options.rounds {
        for candidate in &mut candidates {
            candidate.measure(options.connections).await?;
        }
    }
    print(candidates, nginx.is_some(), &options)
}

impl<'a> Candidate<'a> {
    async fn new(process: &'a Process, row: &'a Row, options: &Options) -> Result<Self> {
        let mut candidate = Candidate { process, row, requests: TRIAL, figures: Vec::new() };
        candidate.load(options.connections).await?;
        let pace = candidate.load(options.connections).await?;
        candidate.requests = ((pace.per_second() * options.seconds) as usize).max(TRIAL);
        Ok(candidate)
    }

    async fn load(&self, connections: usize) -> Result<Pace> {
        let load = Load {
            address: self.process.address,
            request: load::get(self.row.target, &self.process.address.to_string()),
            expected: (self.row.expected)(),
            requests: self.requests,
            connections,
            within: LONGEST,
        };
        load.run().await.map_err(|error| format!("{}: {error}", self.row.target).into())
    }

    async fn measure(&mut self, connections: usize) -> Result<()> {
        let before = self.process.cpu()?;
        self.load(connections).await?;
        self.figures.push((self.process.cpu()? - before).as_secs_f64() * 1e6 / self.requests as f64);
        Ok(())
    }
}

fn print(candidates: Vec<Candidate<'_>>, beside: bool, options: &Options) -> Result<()> {
    let mut sheet = Sheet::new(1, ["request", "CPU µs", "x nginx", "bound"]);
    let mut unit = None;
    for (place, Candidate { row, figures, .. }) in candidates.into_iter().enumerate() {
        let figure = median(figures);
        let name = if beside && place == 0 { "nginx, proxied, 282 B" } else { row.name };
        if beside && place == 0 {
            unit = Some(figure);
        }
        let times = unit.map_or("-".to_owned(), |unit| format!("{:.2}", figure / unit));
        let bound = row.bound.map_or(String::new(), |bound| format!("{bound}"));
        sheet.add([name.to_owned(), format!("{figure:.1}"), times, bound]);
    }
    sheet.print(Style::choose(options.markdown))?;
    say("")?;
    say(
        "CPU: user and system time for one request of a client, all of its calls in it; every answer compared; medians.",
    )?;
    match Peer::Nginx.describe().filter(|_| beside) {
        Some(about) => say(&about)?,
        None => say("nginx is not installed: there is nothing to compare with.")?,
    }
    Ok(())
}

fn serve() -> Result<SocketAddr> {
    let details = (1..=ITEMS).map(|number| upstream::written(&detail(number)));
    let others = [upstream::written(&list()), upstream::answer(0), upstream::written(&user())];
    upstream::serving(others.into_iter().chain(details).collect(), asked)
}

/// The list, what is proxied, what is picked from, and then the details.
fn asked(head: &[u8]) -> Option<usize> {
    let target = std::str::from_utf8(head.strip_prefix(b"GET /")?).ok()?.split(' ').next()?;
    match target.strip_prefix("d/") {
        Some(number) => number.parse::<usize>().ok().map(|number| number + OTHERS.len() - 1),
        None => OTHERS.iter().position(|known| *known == target),
    }
}

const OTHERS: [&str; 3] = ["list", "item", "user"];

/// 1 KB, of which three fields are picked.
fn user() -> Vec<u8> {
    let bare = r#"{"id":17,"name":"Marta Silva","email":"marta.silva@example.com","phone":"+351 210 000 017","address":{"street":"Rua das Flores 17","city":"Porto","zip":"4050-262"},"active":true,"notes":"","links":[{"rel":"self","href":"/users/17"},{"rel":"posts","href":"/users/17/posts"}]}"#;
    let notes = "call back on Monday, ".chars().cycle().take(1_000 - bare.len()).collect::<String>();
    bare.replace(r#""notes":"""#, &format!(r#""notes":"{notes}""#)).into_bytes()
}

const PICKED: &[u8] = br#"{"id":17,"name":"Marta Silva","city":"Porto"}"#;

fn list() -> Vec<u8> {
    let items: Vec<Vec<u8>> = (1..=ITEMS).map(listed).collect();
    [&b"{\"items\":["[..], &items.join(&b','), b"]}"].concat()
}

/// An item of the list, 290 bytes.
fn listed(number: usize) -> Vec<u8> {
    let bare = format!(r#"{{"id":{number},"href":"/d/{number}","name":"item {number}","pad":"","n":1.5}}"#);
    bare.replace(r#""pad":"""#, &format!(r#""pad":"{}""#, "y".repeat(290 - bare.len()))).into_bytes()
}

fn detail(number: usize) -> Vec<u8> {
    let text = text(number);
    format!(r#"{{"id":{number},"text":"{text}","links":[{{"rel":"self","href":"/a"}}],"value":12.5}}"#).into_bytes()
}

fn text(number: usize) -> String {
    let bare = format!(r#"{{"id":{number},"text":"","links":[{{"rel":"self","href":"/a"}}],"value":12.5}}"#);
    ('a'..='z').cycle().skip(number).take(SIZE - bare.len()).collect()
}

fn transformed(number: usize) -> Vec<u8> {
    format!(r#"{{"id":{number},"name":"item {number}"}}"#).into_bytes()
}

fn embedded(number: usize) -> Vec<u8> {
    let listed = listed(number);
    [&listed[..listed.len() - 1], br#","d":"#, &detail(number), b"}"].concat()
}

fn flat(number: usize) -> Vec<u8> {
    format!(r#"{{"id":{number},"name":"item {number}","text":"{}"}}"#, text(number)).into_bytes()
}

fn nested(number: usize) -> Vec<u8> {
    format!(r#"{{"id":{number},"name":"item {number}","d":{{"text":"{}","value":12.5}}}}"#, text(number)).into_bytes()
}

fn merged() -> Expected {
    let third = String::from_utf8_lossy(&detail(3)).into_owned();
    Expected::Exactly(format!(r#"{{"a":1,"b":"{}","c":{third}}}"#, text(2)).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_details_have_their_size() {
        assert!((1..=ITEMS).all(|number| listed(number).len() == 290 && detail(number).len() == SIZE));
        assert_eq!(user().len(), 1_000);
        assert_eq!((asked(b"GET /list HTTP/1.1"), asked(b"GET /d/7 HTTP/1.1")), (Some(0), Some(9)));
        assert_eq!((asked(b"GET /item HTTP/1.1"), asked(b"GET /other HTTP/1.1")), (Some(1), None));
    }
}
