//! The table of `calls`, and what stands below it.

use super::entrant::{OTHERS, Who};
use super::other::Other;
use super::rows::{ROWS, Row};
use crate::Result;
use crate::peers::Peer;
use crate::report::{Sheet, Style, say};

/// The median of somebody's row, in microseconds of CPU.
type Figure = (Who, &'static Row, f64);

pub fn print(running: &[Who], figures: Vec<Figure>, failed: &[String], style: Style) -> Result<()> {
    let others: Vec<&Other> = running.iter().filter_map(|who| who.other()).collect();
    let builds = running.iter().filter_map(|who| match who {
        Who::Build(name) => Some(*name),
        _ => None,
    });
    let page = Page { builds: builds.collect(), others, figures };
    page.sheet().print(style)?;
    say("")?;
    say(
        "CPU: user and system time for one request of a client, all of its calls in it; every answer compared; medians.",
    )?;
    if !page.builds.is_empty() {
        say("The column of another build: its CPU divided by that of the first.")?;
    }
    if !page.others.is_empty() {
        say(
            "The column of another gateway: CPU of its process in proxied requests of nginx; then our CPU divided by its.",
        )?;
    }
    about(running).iter().chain(failed).try_for_each(|line| say(line))?;
    Ok(())
}

/// Versions, and what is missing.
fn about(running: &[Who]) -> Vec<String> {
    let nginx = Peer::Nginx.describe().filter(|_| running.iter().any(|who| matches!(who, Who::Nginx)));
    let nginx = nginx.unwrap_or_else(|| "nginx is not installed: there is nothing to compare with.".to_owned());
    let others = OTHERS.iter().map(|other| match other.installed() {
        Some(version) => format!("{} ({version}): {}", other.name, other.setup),
        None => {
            let Other { name, program, install, .. } = other;
            format!("{name} is not installed, its column is missing: put `{program}` into PATH ({install}).")
        }
    });
    [nginx].into_iter().chain(others).collect()
}

struct Page {
    builds: Vec<&'static str>,
    others: Vec<&'static Other>,
    figures: Vec<Figure>,
}

impl Page {
    fn sheet(&self) -> Sheet {
        let beside: Vec<[String; 2]> =
            self.others.iter().map(|other| [other.name.to_owned(), format!("ours / {}", other.name)]).collect();
        let beside = beside.iter().flatten().map(String::as_str);
        let builds = self.builds.iter().copied();
        let mut sheet =
            Sheet::new(1, ["request", "CPU µs", "x nginx", "bound"].into_iter().chain(builds).chain(beside));
        let unit = self.unit();
        if unit.is_some() {
            sheet.add(self.line(&format!("nginx, {}", ROWS[0].name), unit, None, None));
        }
        for row in &ROWS {
            if let Some(own) = self.own(row) {
                sheet.add(self.line(row.name, Some(own), row.bound, Some(row)));
            }
        }
        sheet
    }

    /// A line: our figure, and those of the others for this row.
    fn line(&self, name: &str, own: Option<f64>, bound: Option<f64>, row: Option<&Row>) -> Vec<String> {
        let empty = String::new;
        let mut cells = vec![
            name.to_owned(),
            own.map_or_else(empty, |own| format!("{own:.1}")),
            own.map_or_else(empty, |own| self.times(own)),
            bound.map_or_else(empty, |bound| bound.to_string()),
        ];
        for build in &self.builds {
            let figure = row.and_then(|row| self.figure(row, |who| matches!(who, Who::Build(name) if name == *build)));
            cells.push(figure.zip(own).map_or_else(empty, |(figure, own)| format!("{:.2}", figure / own)));
        }
        for other in &self.others {
            let figure = row.and_then(|row| self.of(other, row));
            cells.push(figure.map_or_else(empty, |figure| self.times(figure)));
            cells.push(figure.zip(own).map_or_else(empty, |(figure, own)| format!("{:.2}", own / figure)));
        }
        cells
    }

    /// In proxied requests of nginx.
    fn times(&self, figure: f64) -> String {
        self.unit().map_or("-".to_owned(), |unit| format!("{:.2}", figure / unit))
    }

    fn unit(&self) -> Option<f64> {
        self.figures.iter().find(|(who, ..)| matches!(who, Who::Nginx)).map(|(.., figure)| *figure)
    }

    fn own(&self, row: &Row) -> Option<f64> {
        self.figure(row, |who| matches!(who, Who::Own))
    }

    fn of(&self, other: &Other, row: &Row) -> Option<f64> {
        self.figure(row, |who| who.other().is_some_and(|known| known.name == other.name))
    }

    fn figure(&self, row: &Row, is: impl Fn(Who) -> bool) -> Option<f64> {
        let found = self.figures.iter().find(|(who, of, _)| of.target == row.target && is(*who));
        found.map(|(.., figure)| *figure)
    }
}
