//! A table, for a terminal or for a page.

use std::io::{self, Write};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Terminal,
    Markdown,
}

impl Style {
    pub fn choose(markdown: bool) -> Self {
        if markdown { Self::Markdown } else { Self::Terminal }
    }
}

/// Rows of cells under their headings; the first columns are words, the others figures.
pub struct Sheet {
    words: usize,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    pub fn new<'a>(words: usize, headings: impl IntoIterator<Item = &'a str>) -> Self {
        Self { words, rows: vec![headings.into_iter().map(str::to_owned).collect()] }
    }

    /// A row with as many cells as there are headings.
    pub fn add(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn print(&self, style: Style) -> io::Result<()> {
        io::stdout().lock().write_all(self.text(style).as_bytes())
    }

    pub fn text(&self, style: Style) -> String {
        let mut out = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            out += &(self.line(row, style) + "\n");
            if number == 0 {
                out += &(self.rule(style) + "\n");
            }
        }
        out
    }

    fn line(&self, row: &[String], style: Style) -> String {
        let cells: Vec<String> = row
            .iter()
            .zip(self.widths())
            .enumerate()
            .map(
                |(place, (cell, width))| {
                    if place < self.words { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        match style {
            Style::Terminal => cells.join("  ").trim_end().to_owned(),
            Style::Markdown => format!("| {} |", cells.join(" | ")),
        }
    }

    fn rule(&self, style: Style) -> String {
        let widths = self.widths();
        match style {
            Style::Terminal => "-".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1)),
            Style::Markdown => {
                let bar = |(place, width): (usize, &usize)| {
                    let dashes = "-".repeat(width - 1);
                    if place < self.words { format!("{dashes}-") } else { format!("{dashes}:") }
                };
                format!("| {} |", widths.iter().enumerate().map(bar).collect::<Vec<_>>().join(" | "))
            }
        }
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let widest = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        // Two at least, which is what a rule in Markdown takes.
        (0..columns).map(|column| widest(column).max(2)).collect()
    }
}

/// A line between or below tables.
pub fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{line}")
}

/// The middle one, or the mean of the middle two.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => figures[middle],
        _ => f64::midpoint(figures[middle - 1], figures[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_below_each_other() {
        let mut sheet = Sheet::new(1, ["what", "how many"]);
        sheet.add(["users".into(), "10".into()]);
        assert_eq!(sheet.line(&sheet.rows[1], Style::Terminal), "users        10");
        assert_eq!(sheet.line(&sheet.rows[1], Style::Markdown), "| users |       10 |");
        assert_eq!(sheet.rule(Style::Markdown), "| ----- | -------: |");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
