//! `import`: the configuration of another gateway, as one of ours.
//!
//! An importer is a function of `crocodile-pear-import` from a path to [`Imported`]: the configuration as a tree of YAML,
//! and a report on every setting of the input. Or it is [`Unreadable`], with problems that name the place. Everything
//! else is here: the configuration is checked, the report printed, the file written.

#[cfg(test)]
mod tests;
mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use crocodile_pear::unstable::config::problem::{ConfigProblem, Severity};
use serde_json::json;

use super::print::print;
use crate::config::{self, Colour, ProblemFormat, Sources};
use crocodile_pear_import::report::Fate;
use crocodile_pear_import::{Imported, Unreadable, krakend, nginx};
use write::Existing;

#[derive(Args)]
pub struct Import {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand)]
enum From {
    /// Import a configuration of KrakenD: version 2 or 3, in JSON, YAML or TOML.
    ///
    /// Every setting is imported, or the report says where it stands, why it is not, and what to use instead.
    ///
    /// Exits with 0 if everything was imported, with 3 if something was not, and with 1 if the file cannot be read.
    Krakend(Arguments),
    /// Import a configuration of nginx: nginx.conf with all that it includes, or a file with `server` blocks.
    ///
    /// Every directive is imported, or the report says where it stands, why it is not, and what to use instead.
    ///
    /// Exits with 0 if everything was imported, with 3 if something was not, and with 1 if a file cannot be read.
    Nginx(Arguments),
}

#[derive(Args)]
struct Arguments {
    /// The file to import.
    file: PathBuf,
    /// The configuration to write. Without it, the configuration goes to the standard output, and the report to the
    /// standard error stream.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the output if it exists.
    #[arg(long)]
    force: bool,
    /// Write nothing if anything was not imported, or differs.
    #[arg(long)]
    strict: bool,
    /// Print the report as JSON: every setting with its place and what became of it. Without an output, it contains the
    /// configuration.
    #[arg(long)]
    json: bool,
}

/// The exit code for an input that was read, with settings that were not imported.
const REPORTED: u8 = 3;

impl Import {
    pub fn execute(self) -> ExitCode {
        let (read, arguments): (fn(&Path, &Path) -> _, _) = match self.from {
            From::Krakend(arguments) => (|path, _| krakend::import(path), arguments),
            From::Nginx(arguments) => (nginx::import, arguments),
        };
        if let Some(output) = arguments.output.as_ref().filter(|output| output.exists() && !arguments.force) {
            eprintln!("error: `{}` exists; write `--force` to replace it", output.display());
            return ExitCode::from(1);
        }
        match read(&arguments.file, arguments.folder()) {
            Ok(imported) => arguments.finish(&imported),
            Err(unreadable) => arguments.refuse(&unreadable),
        }
    }
}

impl Arguments {
    /// The folder of the configuration: paths in it are relative to this one.
    fn folder(&self) -> &Path {
        self.output.as_deref().unwrap_or(&self.file).parent().unwrap_or(Path::new(""))
    }

    fn refuse(&self, Unreadable { sources, problems }: &Unreadable) -> ExitCode {
        if self.json {
            print(&config::report(problems, sources, ProblemFormat::Json));
        } else {
            eprint!("{}", config::report(problems, sources, ProblemFormat::Text(Colour::on(&io::stderr()))));
        }
        ExitCode::from(1)
    }

    fn finish(&self, Imported { configuration, report }: &Imported) -> ExitCode {
        let text = configuration.document();
        let path = self.output.clone().unwrap_or_else(|| self.file.with_file_name("crocodile-pear.yaml"));
        let checked = write::check(&path, &text);
        let works = checked.problems.iter().all(|problem| problem.severity != Severity::Error);
        let whole = report.is_whole() && works;
        let warned = report.count(Fate::Remarked) > 0 || !checked.problems.is_empty();
        let refused = self.strict && (!whole || warned);
        let written = self.output.as_deref().filter(|_| !refused);
        if let Some(Err(error)) = written.map(|path| self.save(path, &text)) {
            eprintln!("error: cannot write `{}`: {error}", path.display());
            return ExitCode::from(1);
        }
        let shown = Some(&text).filter(|_| self.output.is_none() && !refused);
        if self.json {
            let checked = problems(&checked.problems, &checked.sources);
            let report =
                json!({ "written": written, "configuration": shown, "settings": report.json(), "check": checked });
            print(&(format!("{report:#}") + "\n"));
        } else {
            let (quiet, colour) = match self.output {
                None => (false, Colour::on(&io::stderr())),
                Some(_) => (true, Colour::on(&io::stdout())),
            };
            let format = ProblemFormat::Text(colour);
            let mut told = report.text(format);
            if !checked.problems.is_empty() {
                told = format!("{}\nin the configuration itself:\n\n{}", told, checked.report(format));
            }
            match written {
                Some(path) => told.push_str(&format!("wrote {}\n", path.display())),
                None if refused => told.push_str("nothing was written (--strict)\n"),
                None => {}
            }
            if quiet {
                print(&told);
            } else {
                eprint!("{told}");
                print(shown.map_or("", String::as_str));
            }
        }
        if whole && !refused { ExitCode::SUCCESS } else { ExitCode::from(REPORTED) }
    }

    fn save(&self, path: &Path, text: &str) -> io::Result<()> {
        write::save(path, text, if self.force { Existing::Replace } else { Existing::Keep })
    }
}

/// Problems as JSON.
fn problems(problems: &[ConfigProblem], sources: &Sources) -> serde_json::Value {
    serde_json::from_str(&config::report(problems, sources, ProblemFormat::Json)).unwrap_or_default()
}
