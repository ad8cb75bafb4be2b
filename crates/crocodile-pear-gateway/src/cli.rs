//! The commands, one file each.

mod check;
mod demo;
mod events;
mod explain;
mod init;
mod probe;
mod run;
mod schema;
mod top;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use crocodile_pear::problem::{Problem, Problems, Severity};
use crocodile_pear::spec::Decode;

use crate::config::{self, Colour, Format, Sources};
use crate::document::{self, Document, Unread};
use crate::gateway::{Gateway, Surroundings};
use crate::lasting::Lasting;

/// Many calls out, one answer back, streamed as the parts arrive.
#[derive(Parser)]
#[command(name = "crocodile-pear", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a first configuration, which runs beside the demo.
    Init(init::Init),
    /// Serve a configuration. SIGHUP reads it again; one with problems changes nothing.
    Run(run::Run),
    /// Report every problem of a configuration; exit code 1 if there is an error.
    Check(check::Check),
    /// Show what each endpoint does: what runs side by side, what must wait and why, the most calls it can make.
    Explain(explain::Explain),
    /// Find out what a server offers, what it does with connections, and what cold and kept ones cost.
    Probe(probe::Probe),
    /// Show how a running gateway is: traffic, errors, latencies, routes and servers, once a second.
    Top(top::Top),
    /// Print what a source of events needs to tell what changes.
    Events(events::Events),
    /// Print the JSON Schema of a configuration, for editors.
    Schema,
    /// Serve example endpoints over built-in example upstreams, and print what to try.
    Demo(demo::Demo),
}

/// The configuration that commands take if none is named.
const CONFIG: &str = "crocodile-pear.yaml";

/// Where the configuration is.
#[derive(clap::Args)]
struct File {
    /// The configuration.
    #[arg(default_value = CONFIG)]
    file: PathBuf,
}

/// Runs the command that the process was started with. Exit codes: 0 good, 1 problems found, 2 wrong usage.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Init(init) => init.execute(),
        Command::Run(run) => run.execute(),
        Command::Check(check) => check.execute(),
        Command::Explain(explain) => explain.execute(),
        Command::Probe(probe) => probe.execute(),
        Command::Top(top) => top.execute(),
        Command::Events(events) => events.execute(),
        Command::Schema => schema::execute(),
        Command::Demo(demo) => demo.execute(),
    }
}

/// A configuration that was read, with what was found.
struct Loaded {
    document: Option<Document>,
    gateway: Option<Gateway>,
    problems: Vec<Problem>,
    sources: Sources,
}

impl File {
    /// Reads and compiles it: the same way for `run`, `check`, `explain` and a reload.
    fn load(&self) -> Loaded {
        self.reload(&Lasting::default())
    }

    /// The same for a gateway that goes on with what the one before it has.
    fn reload(&self, lasting: &Lasting) -> Loaded {
        let (node, sources, problems) = config::load(&self.file);
        compile(node.as_ref(), sources, lasting, problems)
    }
}

fn compile(
    node: Option<&crocodile_pear::spec::Node>,
    sources: Sources,
    lasting: &Lasting,
    mut problems: Problems,
) -> Loaded {
    node.into_iter().for_each(|node| document::check_served(node, &mut problems));
    let document = node.and_then(|node| Document::decode(node, &mut problems));
    let files = |written: &_| sources.beside(written);
    let paths = |written: &_| sources.path(written);
    let unread = Unread::default();
    let given = Surroundings { unread: &unread, files: &files, paths: &paths, lasting };
    let gateway = document.as_ref().and_then(|document| Gateway::compile(document, given, &mut problems));
    if let (None, Some(node)) = (&document, node) {
        let (readable, broken) = Document::partial(node);
        let given = Surroundings { unread: &broken, ..given };
        drop(Gateway::compile(&readable, given, &mut problems));
    }
    let gateway = gateway.filter(|_| !problems.fatal());
    Loaded { document, gateway, problems: problems.into_sorted(), sources }
}

impl Loaded {
    /// The report on the problems, empty when there are none.
    fn report(&self, format: Format) -> String {
        config::report(&self.problems, &self.sources, format)
    }

    /// The problems, each as one line.
    fn lines(&self) -> Vec<String> {
        let line = |problem: &Problem| format!("{}: {}", self.sources.place(problem.span), problem.message);
        self.problems.iter().map(line).collect()
    }

    /// Writes the problems to the log, each as one line.
    fn log(&self) {
        for problem in &self.problems {
            let at = self.sources.place(problem.span);
            let remedy = problem.remedy.as_deref().unwrap_or_default();
            match problem.severity {
                Severity::Error => tracing::error!(at, remedy, "{}", problem.message),
                Severity::Warning => tracing::warn!(at, remedy, "{}", problem.message),
            }
        }
    }

    /// Tells the problems; the gateway and its document if it can run, and where they were read from.
    fn usable(self) -> Option<(Document, Gateway, Sources)> {
        if !self.problems.is_empty() {
            eprint!("{}", self.report(Format::Text(Colour::on(&std::io::stderr()))));
        }
        Some((self.document?, self.gateway?, self.sources))
    }

    fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

/// Writes to the standard output; a reader that went away ends the command, silently.
fn print(text: &str) -> ExitCode {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
