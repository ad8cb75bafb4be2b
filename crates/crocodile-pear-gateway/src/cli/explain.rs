//! `explain`: what an endpoint does, before it does it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use crocodile_pear::unstable::config::spec::suggest;
use crocodile_pear::unstable::json::Raw;
use crocodile_pear::unstable::pipeline::step::{Outline, PublicLinks};
use crocodile_pear::unstable::upstream::ReadyUpstream;

use super::file::ConfigFile;
use super::print::print;
use crate::gateway::Endpoint;
use crate::layer::stack::Stack;

#[derive(Args)]
pub struct Explain {
    #[command(flatten)]
    file: ConfigFile,
    /// The endpoint, such as `GET /inbox/{category}` [default: all].
    endpoint: Option<String>,
    /// A recorded answer of an upstream, as JSON: names the variables of links in it that are templates
    #[arg(long, value_name = "FILE")]
    answer: Option<PathBuf>,
}

impl Explain {
    pub fn execute(self) -> ExitCode {
        let Some((_, gateway, sources)) = self.file.load().usable() else { return ExitCode::from(1) };
        let print = |text: &str| print(&sources.mask.hide(text));
        let answer = match self.answer.as_deref().map(recorded).transpose() {
            Ok(answer) => answer,
            Err(reason) => {
                eprintln!("error: {reason}");
                return ExitCode::from(1);
            }
        };
        let outline = |endpoint: &Endpoint| outline(endpoint) + &templates(endpoint, answer.as_ref());
        let Some(wanted) = &self.endpoint else {
            let endpoints = gateway.endpoints().iter().map(|endpoint| brief(endpoint, &outline));
            let upstreams = gateway.named_upstreams().values().filter_map(|one| upstream(one));
            let all: Vec<String> = endpoints.chain(unserved(gateway.unserved())).chain(upstreams).collect();
            return print(&all.join("\n"));
        };
        let names = gateway.endpoints().iter().map(|endpoint| &*endpoint.name);
        match gateway.endpoints().iter().find(|endpoint| *endpoint.name == **wanted) {
            Some(endpoint) => print(&outline(endpoint)),
            None => {
                let near = suggest(wanted, names.clone()).map(|near| format!("; did you mean `{near}`?"));
                eprintln!("error: no endpoint is `{wanted}`{}", near.unwrap_or_default());
                eprintln!("the endpoints are:");
                names.for_each(|name| eprintln!("  {name}"));
                ExitCode::from(1)
            }
        }
    }
}

/// The text for an endpoint; parts that are the same in several versions appear once.
fn brief(endpoint: &Endpoint, outline: &dyn Fn(&Endpoint) -> String) -> String {
    match &endpoint.same_as {
        None => outline(endpoint),
        Some(version) => {
            let own = endpoint.layers.outline().filter(|(name, _)| *name == "version");
            let own: String = own.map(|(name, text)| format!("  layer {name}: {text}\n")).collect();
            format!("{}\n{own}  the rest is as in {version}\n", endpoint.name)
        }
    }
}

/// The answer in a file.
fn recorded(path: &Path) -> Result<Raw, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Raw::check(&bytes.into()).map_err(|error| format!("{}: {}", path.display(), error.detail()))
}

/// The templates among the links that an endpoint follows, and their variables.
fn templates(endpoint: &Endpoint, answer: Option<&Raw>) -> String {
    let Some(answer) = answer else { return String::new() };
    let found = endpoint.plan.templates(answer);
    if found.is_empty() {
        return "  templates in the answer: none that a step follows\n".to_owned();
    }
    found.iter().map(|template| format!("  template in the answer: {}\n", template.outline())).collect()
}

fn outline(endpoint: &Endpoint) -> String {
    let mut text = format!("{}\n{}", endpoint.name, layers(endpoint.outline(), &endpoint.origins));
    for (layer, origin) in endpoint.origins.iter().filter(|(layer, _)| !endpoint.has(layer)) {
        if origin.starts_with("in place") {
            let _ = writeln!(text, "  layer {layer}: off, {origin}");
        }
    }
    if let Some(upgrade) = &endpoint.upgrade {
        let _ = writeln!(text, "  upgrade: {}", upgrade.outline());
    }
    let outline = endpoint.plan.outline();
    let several = outline.iter().filter(|line| line.calls > 0).count() > 1;
    for line in outline {
        // An expression may be written on several lines. Writing to a string cannot fail.
        let _ = writeln!(text, "  - {}", line.text.split_whitespace().collect::<Vec<_>>().join(" "));
        let _ = match &line.waits {
            Some(why) => writeln!(text, "      waits: {why}"),
            None => writeln!(text, "      streams"),
        };
        if several && line.calls > 1 {
            let _ = writeln!(text, "      calls: {}", total(std::slice::from_ref(line)));
        }
    }
    let _ = writeln!(text, "  calls: {}", total(outline));
    for line in endpoint.plan.links().map(PublicLinks::outline).unwrap_or_default() {
        let _ = writeln!(text, "  {line}");
    }
    if let Some(detached) = endpoint.detached() {
        let _ = writeln!(text, "  detached: {detached}");
    }
    if let Some(methods) = endpoint.call_methods() {
        let _ = writeln!(text, "  methods of calls: {methods}");
    }
    if let Some(body) = endpoint.client_body() {
        let _ = writeln!(text, "  client's body: {body}");
    }
    text
}

/// The layers around an endpoint, from the outside in.
fn layers(outline: impl Iterator<Item = (&'static str, String)>, origins: &[(&'static str, String)]) -> String {
    let origin = |layer: &str| {
        // They come from one field.
        let layer = if layer == "consumer_limit" { "rate_limit" } else { layer };
        let origins: Vec<&str> = origins.iter().filter(|(own, _)| *own == layer).map(|(_, origin)| &**origin).collect();
        if origins.is_empty() { String::new() } else { format!(" ({})", origins.join("; ")) }
    };
    outline.map(|(name, text)| format!("  layer {name}{}: {text}\n", origin(name))).collect()
}

/// The handling of requests that no endpoint serves; `None` without layers that are written for them.
fn unserved(stack: &Stack) -> Option<String> {
    let lines = layers(stack.outline(), &[]);
    (!lines.is_empty()).then(|| format!("requests that no endpoint serves\n{lines}"))
}

/// The handling of the calls of an upstream besides sending them; `None` for a plain one.
fn upstream(upstream: &ReadyUpstream) -> Option<String> {
    let lines: Vec<String> = upstream.outline().iter().map(|line| format!("  - {line}\n")).collect();
    (!lines.is_empty()).then(|| format!("upstream {}\n{}", upstream.name(), lines.concat()))
}

/// "up to 1 + 500 x 3 = 1501", and how many there are if all batches are full.
fn total(outline: &[Outline]) -> String {
    let most = sum(outline);
    if outline.iter().all(|line| line.together.is_none()) {
        return most;
    }
    let full = outline.iter().map(|line| match line.together {
        Some(calls) => Outline { calls, items: calls, ..line.clone() },
        None => line.clone(),
    });
    let full = sum(&full.collect::<Vec<_>>());
    format!("{most}; {} if each batch is full", full.trim_start_matches("up to "))
}

fn sum(outline: &[Outline]) -> String {
    let parts = terms(outline);
    let sum = outline.iter().fold(0_u64, |sum, line| sum.saturating_add(line.calls));
    if sum == u64::MAX {
        return "no limit".to_owned();
    }
    match parts.as_slice() {
        [] => "none".to_owned(),
        [(1, 1)] => "1".to_owned(),
        [(items, each)] if *items == 1 || *each == 1 => format!("up to {sum}"),
        several => {
            let parts: Vec<String> = several.iter().map(term).collect();
            format!("up to {} = {sum}", parts.join(" + "))
        }
    }
}

/// For how many items so many calls each are made; steps one after the other for the same items are one term.
fn terms(outline: &[Outline]) -> Vec<(u64, u64)> {
    let mut terms: Vec<(u64, u64)> = Vec::new();
    for line in outline.iter().filter(|line| line.calls > 0) {
        let each = line.calls / line.items.max(1);
        match terms.last_mut() {
            Some((items, sum)) if *items == line.items && *items > 1 => *sum += each,
            _ => terms.push((line.items, each)),
        }
    }
    terms
}

fn term((items, each): &(u64, u64)) -> String {
    match (items, each) {
        (1, each) => each.to_string(),
        (items, 1) => items.to_string(),
        (items, each) => format!("{items} x {each}"),
    }
}
