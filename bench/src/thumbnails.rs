//! Source A's pictures: sixty of 13.3 KB at 300 ms in a browser, one request each and one streamed request for all.

mod chromium;
mod visit;
mod waterfall;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::report::{Sheet, Style, say};
use crate::{Result, product};

use chromium::Chromium;
use visit::{Visit, Way};

const HEADINGS: [&str; 8] =
    ["60 pictures", "how", "requests", "connections", "at once", "KB", "first after ms", "last after ms"];

/// Beyond ten waves of the latency, what a visit may take: a slow machine's, and still an end.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Args)]
pub struct Options {
    /// Milliseconds until the upstream answers
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(..=10_000))]
    latency: u64,
    /// How many times the page is loaded; the waterfall shows the one in the middle
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The browser, if not the Chromium or Chrome on the PATH
    #[arg(long)]
    browser: Option<PathBuf>,
    /// Where the picture of the page goes, if not beside this bench's binary
    #[arg(long)]
    screenshot: Option<PathBuf>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    let browser = chromium::find(options.browser)?;
    let demo = product::demo(&binary)?;
    let mut chromium = tokio::time::timeout(PATIENCE, Chromium::start(&browser))
        .await
        .map_err(|_| format!("{} does not speak to us", browser.display()))??;
    let page = format!("http://{}/gallery.html?latency={}", demo.address, options.latency);
    let patience = PATIENCE + 20 * Duration::from_millis(options.latency);
    let mut visits = Vec::new();
    for _ in 0..options.rounds {
        let visit = tokio::time::timeout(patience, visit::pay(&mut chromium, &page));
        visits.push(visit.await.map_err(|_| format!("the page was not loaded within {} s", patience.as_secs()))??);
    }
    let screenshot = match options.screenshot {
        Some(path) => path,
        None => std::env::current_exe()?.with_file_name("thumbnails.png"),
    };
    std::fs::write(&screenshot, tokio::time::timeout(PATIENCE, chromium.screenshot()).await??)
        .map_err(|error| format!("{}: {error}", screenshot.display()))?;

    table(&chromium.version, &visits, options.latency).print(Style::choose(options.markdown))?;
    visits.sort_by(|one, other| one.one.last().total_cmp(&other.one.last()));
    say("")?;
    let middle = &visits[(visits.len() - 1) / 2];
    waterfall::lines(&middle.many, &middle.one).iter().try_for_each(|line| say(line))?;
    say("")?;
    say("Milliseconds from the start of each way until a picture is decoded; KB on the wire, with heads.")?;
    say("In one, they come compressed; the demo's pictures differ in their colours only, and so come to little.")?;
    Ok(say(&format!("The page, as it was in the end: {}", screenshot.display()))?)
}

fn table(browser: &str, visits: &[Visit], latency: u64) -> Sheet {
    let mut sheet = Sheet::new(2, HEADINGS);
    let figures = |what: &str, how: &str, rest: [&str; 6]| {
        let [requests, connections, at_once, size, first, last] = rest.map(str::to_owned);
        [what.to_owned(), how.to_owned(), requests, connections, at_once, size, first, last]
    };
    sheet.add(figures("thesis, 2015, 300 ms", "one by one", ["60", "6", "6", "800", "300", "3000"]));
    sheet.add(figures("thesis, 2015, 300 ms", "in one", ["1", "1", "1", "800", "300", "300"]));
    for visit in visits {
        let what = format!("{browser}, {latency} ms");
        sheet.add(row(&what, "one by one", &visit.many));
        sheet.add(row(&what, "in one", &visit.one));
    }
    sheet
}

fn row(what: &str, how: &str, way: &Way) -> [String; 8] {
    [
        what.to_owned(),
        how.to_owned(),
        way.requests.len().to_string(),
        way.connections().to_string(),
        way.at_once().to_string(),
        format!("{:.0}", way.bytes() / 1e3),
        format!("{:.0}", way.first()),
        format!("{:.0}", way.last()),
    ]
}
