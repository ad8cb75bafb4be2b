//! `check`: every problem at once.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::file::{ConfigFile, Loaded};
use super::print::print;
use crate::config::{Colour, ProblemFormat};

#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    file: ConfigFile,
    /// The format of the report.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
    /// Exits with 1 if there is a warning, too.
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum OutputFormat {
    /// For people.
    Text,
    /// A JSON list, for editors.
    Json,
}

impl Check {
    pub fn execute(self) -> ExitCode {
        let loaded = self.file.load();
        let format = match self.format {
            OutputFormat::Text => ProblemFormat::Text(Colour::on(&std::io::stdout())),
            OutputFormat::Json => ProblemFormat::Json,
        };
        print(&report(&self.file.file, &loaded, format));
        let fails = loaded.has_errors() || self.strict && !loaded.problems.is_empty();
        if fails { ExitCode::from(1) } else { ExitCode::SUCCESS }
    }
}

/// Returns what `check` writes of a configuration, and whether it has errors.
pub fn check(file: &Path, format: ProblemFormat) -> (String, bool) {
    let loaded = ConfigFile { file: file.to_owned() }.load();
    (report(file, &loaded, format), loaded.has_errors())
}

/// The report: the problems and, in the text for people, how many endpoints and upstreams a good configuration has.
fn report(file: &Path, loaded: &Loaded, format: ProblemFormat) -> String {
    let mut report = loaded.report(format);
    if let (ProblemFormat::Text(_), Some(gateway)) = (format, &loaded.gateway) {
        let endpoints = count(gateway.endpoints().len(), "endpoint");
        let upstreams = count(gateway.upstreams().len(), "upstream");
        report += &format!("{}: good ({endpoints}, {upstreams})\n", file.display());
        for database in gateway.databases().values().filter(|database| database.is_pooled()) {
            let name = database.name();
            report += &format!("database `{name}`: behind a connection pooler; statements are sent unnamed\n");
        }
    }
    report
}

/// "1 upstream", "2 upstreams"
fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
