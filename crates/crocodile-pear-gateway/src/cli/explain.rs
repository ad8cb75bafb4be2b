//! `explain`: what an end-point does, before it does it.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use crocodile_pear::spec::suggest;
use crocodile_pear::upstream::Upstream;

use super::{File, print};
use crate::gateway::Endpoint;

#[derive(Args)]
pub struct Explain {
    #[command(flatten)]
    file: File,
    /// The end-point, as in `GET /inbox/{category}`; all of them unless given.
    endpoint: Option<String>,
}

impl Explain {
    pub fn execute(self) -> ExitCode {
        let Some((_, gateway)) = self.file.load().usable() else { return ExitCode::from(1) };
        let Some(wanted) = &self.endpoint else {
            let endpoints = gateway.endpoints().iter().map(|endpoint| outline(endpoint));
            let all: Vec<String> =
                endpoints.chain(gateway.upstreams().values().filter_map(|one| upstream(one))).collect();
            return print(&all.join("\n"));
        };
        let names = gateway.endpoints().iter().map(|endpoint| endpoint.name.as_str());
        match gateway.endpoints().iter().find(|endpoint| endpoint.name == *wanted) {
            Some(endpoint) => print(&outline(endpoint)),
            None => {
                let near = suggest(wanted, names).map(|near| format!("; did you mean `{near}`?"));
                eprintln!("error: no end-point is `{wanted}`{}", near.unwrap_or_default());
                ExitCode::from(1)
            }
        }
    }
}

fn outline(endpoint: &Endpoint) -> String {
    let mut text = format!("{}\n", endpoint.name);
    for line in endpoint.plan.outline() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  - {}", line.text);
        let _ = match &line.waits {
            Some(why) => writeln!(text, "      waits: {why}"),
            None => writeln!(text, "      streams"),
        };
    }
    let _ = writeln!(text, "  calls: {}", calls(endpoint));
    text
}

/// What happens to the calls of an upstream beside being sent; nothing, for a plain one.
fn upstream(upstream: &Upstream) -> Option<String> {
    let lines: Vec<String> = upstream.outline().iter().map(|line| format!("  - {line}\n")).collect();
    (!lines.is_empty()).then(|| format!("upstream {}\n{}", upstream.name(), lines.concat()))
}

/// "1 + 100"
fn calls(endpoint: &Endpoint) -> String {
    let parts: Vec<u64> = endpoint.plan.outline().iter().map(|line| line.calls).filter(|calls| *calls > 0).collect();
    let sum = endpoint.plan.calls();
    match parts.as_slice() {
        [] => "none".to_owned(),
        [1] => "1".to_owned(),
        [_] => format!("up to {sum}"),
        several => {
            let parts: Vec<String> = several.iter().map(u64::to_string).collect();
            format!("up to {} = {sum}", parts.join(" + "))
        }
    }
}
