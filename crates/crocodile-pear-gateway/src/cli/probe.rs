//! `probe`: the measurements of `crocodile-pear-probe`, and what they need of the gateway.

use std::process::ExitCode;
use std::sync::Arc;

use crocodile_pear::unstable::upstream::ReadyUpstream;
use crocodile_pear_probe::Probe;

use super::file::compile;
use super::print::print;
use crate::config;
use crate::runtime::threads::event_loop;

/// Runs the command; `command` tells how it is used.
pub fn execute(probe: &Probe, mut command: clap::Command) -> ExitCode {
    let runtime = match event_loop() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(1);
        }
    };
    let report = runtime.block_on(probe.run(upstream));
    // A name that is still being resolved is not waited for.
    runtime.shutdown_background();
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            // Where usage cannot be printed, its exit code still tells.
            let _ = command.error(clap::error::ErrorKind::ValueValidation, error).print();
            return ExitCode::from(2);
        }
    };
    print(&report.findings);
    eprint!("{}", report.problems);
    if report.good { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Makes the upstream `server` of a configuration.
fn upstream(yaml: &str) -> Result<Arc<ReadyUpstream>, String> {
    let (node, sources, problems) = config::parse("advice.yaml", yaml, &|_| None);
    let loaded = compile(node.as_ref(), sources, &Default::default(), problems);
    let upstream = loaded.gateway.as_ref().and_then(|gateway| gateway.upstreams().get("server").cloned());
    upstream.ok_or_else(|| loaded.problems.first().map_or("", |problem| problem.message.as_str()).to_owned())
}
