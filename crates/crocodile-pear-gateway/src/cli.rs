//! The commands, one file each.

mod check;
mod completions;
mod demo;
mod events;
mod explain;
mod file;
mod health;
mod import;
mod init;
mod print;
mod probe;
mod reap;
mod run;
mod schema;
mod top;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

pub use check::check;

/// An HTTP gateway: many calls out, one answer back, streamed as the parts arrive.
#[derive(Parser)]
#[command(name = "crocodile-pear", version = env!("CROCODILE_PEAR_VERSION"), about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a first configuration. It calls the upstreams of `crocodile-pear demo`.
    Init(init::Init),
    /// Serve a configuration. SIGHUP reloads it; if it has errors, the old one stays.
    Run(run::Run),
    /// Report all problems in a configuration. Exits with 1 if there is an error.
    Check(check::Check),
    /// Show what each endpoint does: which calls run in parallel, which wait and why, and the maximum number of
    /// calls.
    Explain(explain::Explain),
    /// Measure a server: what it supports, how it handles connections, and what new and reused connections cost.
    Probe(crocodile_pear_probe::Probe),
    /// Show the state of a running gateway, once a second: traffic, errors, latencies, routes and servers.
    Top(top::Top),
    /// Print what an event source needs to send its messages.
    Events(events::Events),
    /// Request a URL once. Exits with 0 if the status is 2xx, and with 1 otherwise.
    Health(health::Health),
    /// Import the configuration of another gateway.
    Import(import::Import),
    /// Print the JSON Schema of the configuration, for editors.
    Schema,
    /// Serve example endpoints with built-in example upstreams, and print what to try.
    Demo(demo::Demo),
    /// Print the completions of a shell.
    Completions(completions::Completions),
    /// Write the manual pages to a folder.
    Man(completions::Man),
}

/// Runs the command that the process was started with. Exit codes: 0 success, 1 problems found, 2 wrong usage.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Init(init) => init.execute(),
        Command::Run(run) => run.execute(),
        Command::Check(check) => check.execute(),
        Command::Explain(explain) => explain.execute(),
        Command::Probe(probe) => probe::execute(&probe, Cli::command()),
        Command::Top(top) => top.execute(),
        Command::Events(events) => events.execute(),
        Command::Health(health) => health.execute(),
        Command::Import(import) => import.execute(),
        Command::Schema => schema::execute(),
        Command::Demo(demo) => demo.execute(),
        Command::Completions(completions) => completions.execute(Cli::command()),
        Command::Man(man) => man.execute(Cli::command()),
    }
}
