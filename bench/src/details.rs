//! A list and a hundred details: what following links costs the gateway.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::Result;
use crate::expected::Expected;
use crate::load::{self, Load};
use crate::process::Process;
use crate::report::{Sheet, Style, median, say};
use crate::{product, upstream};

/// Items of the list, each with a link of its own.
const ITEMS: usize = 100;

/// Bytes of one detail.
const SIZES: [usize; 2] = [300, 2000];

/// A round that takes longer than this is stuck.
const LONGEST: Duration = Duration::from_secs(300);

#[derive(Args)]
pub struct Options {
    /// Requests a round
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    requests: u32,
    /// Rounds; the median and the best are reported
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Connections of the load generator
    #[arg(long, default_values_t = [1, 8])]
    connections: Vec<usize>,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

/// A request to the gateway.
#[derive(Clone, Copy)]
enum Shape {
    Bare,
    Embedded,
    Selected,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary.clone())?;
    let mut sheet = Sheet::new(1, ["request", "detail B", "connections", "CPU ms", "best CPU ms"]);
    for size in SIZES {
        let upstream = serve(size)?;
        let gateway = product::start(&binary, "details", |listen| product::details(listen, upstream))?;
        for shape in [Shape::Bare, Shape::Embedded, Shape::Selected] {
            for connections in &options.connections {
                let figures = measure(&gateway, shape, size, *connections, &options).await?;
                let best = figures.iter().copied().fold(f64::INFINITY, f64::min);
                sheet.add([
                    shape.name().to_owned(),
                    size.to_string(),
                    connections.to_string(),
                    format!("{:.2}", median(figures)),
                    format!("{best:.2}"),
                ]);
            }
        }
    }
    sheet.print(Style::choose(options.markdown))?;
    say("")?;
    say(
        "CPU: user and system time of the gateway for one request of a client, all of its calls in it; every answer compared.",
    )?;
    Ok(())
}

/// Milliseconds of CPU for one request, a figure a round.
async fn measure(
    gateway: &Process,
    shape: Shape,
    size: usize,
    connections: usize,
    options: &Options,
) -> Result<Vec<f64>> {
    let load = |requests| Load {
        address: gateway.address,
        request: load::get(shape.target(), &gateway.address.to_string()),
        expected: Expected::any_order((1..=ITEMS).map(|number| shape.item(number, size)).collect()),
        requests,
        connections,
        within: LONGEST,
    };
    let requests = options.requests as usize;
    load(requests.div_ceil(10)).run().await?;
    let mut figures = Vec::new();
    for _ in 0..options.rounds {
        let before = gateway.cpu()?;
        load(requests).run().await?;
        figures.push((gateway.cpu()? - before).as_secs_f64() * 1e3 / requests as f64);
    }
    Ok(figures)
}

fn serve(size: usize) -> Result<SocketAddr> {
    let items: Vec<String> = (1..=ITEMS).map(listed).collect();
    let list = format!(r#"{{"total":{ITEMS},"items":[{}]}}"#, items.join(","));
    let details = (1..=ITEMS).map(|number| upstream::written(detail(number, size).as_bytes()));
    upstream::serving(std::iter::once(upstream::written(list.as_bytes())).chain(details).collect(), asked)
}

/// 0 for the list, the number of a detail otherwise.
fn asked(head: &[u8]) -> Option<usize> {
    let target = std::str::from_utf8(head.strip_prefix(b"GET /")?).ok()?.split(' ').next()?;
    match target.strip_prefix("details/") {
        Some(number) => number.parse().ok(),
        None => (target == "list").then_some(0),
    }
}

fn listed(number: usize) -> String {
    format!(
        r#"{{"id":{number},"title":"Case number {number}","at":"2026-03-01T10:15:00Z","href":"/details/{number}"}}"#
    )
}

fn detail(number: usize, size: usize) -> String {
    let bare = format!(r#"{{"n":{number},"owner":{{"id":7,"name":"Karin Öberg"}},"tags":["a","b"],"text":""}}"#);
    let text: String = ('a'..='z').cycle().skip(number).take(size.saturating_sub(bare.len())).collect();
    bare.replace(r#""text":"""#, &format!(r#""text":"{text}""#))
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Bare => "100 calls, no list",
            Self::Embedded => "1 list + 100 details, embedded",
            Self::Selected => "1 list + 100 details, 3 fields",
        }
    }

    fn target(self) -> &'static str {
        match self {
            Self::Bare => "/bare",
            Self::Embedded => "/embedded",
            Self::Selected => "/selected",
        }
    }

    fn item(self, number: usize, size: usize) -> Vec<u8> {
        let (listed, detail) = (listed(number), detail(number, size));
        let text = detail.split(r#""text":"#).nth(1).unwrap_or_default();
        match self {
            Self::Bare => detail.into_bytes(),
            Self::Embedded => format!(r#"{},"detail":{detail}}}"#, listed.trim_end_matches('}')).into_bytes(),
            Self::Selected => format!(r#"{{"id":{number},"number":{number},"text":{text}"#).into_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_have_their_size() {
        assert!(SIZES.iter().all(|size| (1..=ITEMS).all(|number| detail(number, *size).len() == *size)));
        assert_eq!((asked(b"GET /list HTTP/1.1"), asked(b"GET /details/7 HTTP/1.1")), (Some(0), Some(7)));
    }
}
