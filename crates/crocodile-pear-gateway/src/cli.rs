//! The commands, one file each.

mod check;
mod demo;
mod events;
mod explain;
mod file;
mod init;
mod print;
mod probe;
mod run;
mod schema;
mod top;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

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

/// Runs the command that the process was started with. Exit codes: 0 good, 1 problems found, 2 wrong usage.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Init(init) => init.execute(),
        Command::Run(run) => run.execute(),
        Command::Check(check) => check.execute(),
        Command::Explain(explain) => explain.execute(),
        Command::Probe(probe) => probe.execute(Cli::command()),
        Command::Top(top) => top.execute(),
        Command::Events(events) => events.execute(),
        Command::Schema => schema::execute(),
        Command::Demo(demo) => demo.execute(),
    }
}
