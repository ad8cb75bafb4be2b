//! `import nginx`: a configuration of nginx, as far as people use it to proxy APIs.
//!
//! Files are read with a parser of our own (`lexer`, `parse`) that keeps the place of each directive. What applies in a
//! location is found as nginx does it (`scope`). A directive is taken by the file of its concern, and whoever takes it
//! says what became of it (`ledger`): one that nobody takes is reported, so that none vanishes.

mod access;
mod access_log;
mod answer;
mod cache;
mod call;
mod document;
mod file;
mod files;
mod known;
mod ledger;
mod lexer;
mod listen;
mod location;
mod measure;
mod parse;
mod piece;
mod regex;
mod scope;
mod server;
mod servers;
mod settings;
mod upstreams;
mod variable;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;

use crocodile_pear_spec::problem::{Problems, Span};

use super::outcome::{Imported, Unreadable};
use super::report::Report;
use super::yaml::{Map, Yaml};
use document::Hosted;
use file::NginxFile;
use ledger::DirectiveLedger;
use listen::VirtualServer;
use parse::Directive;
use scope::Scope;
use server::ServerContext;
use variable::Maps;

/// Imports a file; `output` is the folder of the configuration.
///
/// # Errors
/// Where it cannot be read, or is no configuration of nginx.
pub fn import(path: &Path, output: &Path) -> Result<Imported, Unreadable> {
    let read = parse::read(path)?;
    let (outer, http) = contexts(&read.directives);
    if !http.iter().any(|level| level.iter().any(|directive| matches!(directive.name.as_str(), "server" | "upstream")))
    {
        let span = read.directives.first().map_or(Span { line: 1, column: 1, length: 1, file: 0 }, |first| first.span);
        let mut problems = Problems::default();
        let message = "found no `server` block, and no `http` block with one";
        problems.error::<()>(span, message, "name the file that nginx reads: nginx.conf, or one with `server { … }`");
        return Err(Unreadable { sources: read.sources, problems: problems.into_sorted() });
    }
    let ledger = DirectiveLedger::default();
    outer.iter().for_each(|directive| ledger.import(directive));
    let all: Vec<&Directive> = http.iter().flat_map(|level| level.iter()).collect();
    let named = |name: &str, key: fn(&Directive) -> Option<String>| -> HashMap<String, &Directive> {
        let own = all.iter().filter(|directive| directive.name == name);
        own.filter_map(|directive| Some((key(directive)?, *directive))).collect()
    };
    let zone = |directive: &Directive| {
        let zone = directive.texts().find_map(|word| word.strip_prefix("zone="))?;
        Some(zone.split(':').next().unwrap_or(zone).to_owned())
    };
    let first = |directive: &Directive| directive.arg(0).map(str::to_owned);
    let variable = |directive: &Directive| directive.arg(1).map(|name| name.trim_start_matches('$').to_owned());
    let maps = Maps { blocks: named("map", variable), ledger: &ledger, within: RefCell::default() };
    let file = NginxFile {
        ledger: &ledger,
        http: Scope::new(http.clone()),
        blocks: named("upstream", first),
        maps: &maps,
        requests: named("limit_req_zone", zone),
        connections: named("limit_conn_zone", zone),
        formats: named("log_format", first),
        has_types: all.iter().any(|directive| {
            directive.name == "types"
                || directive.name == "include" && directive.texts().any(|path| path.ends_with("mime.types"))
        }),
        main: path.parent().unwrap_or(Path::new("")).to_owned(),
        output: output.to_owned(),
        upstreams: RefCell::default(),
        locations: RefCell::default(),
        told_open: Cell::new(false),
        counted: RefCell::default(),
    };
    let servers: Vec<VirtualServer<'_>> = all
        .iter()
        .filter(|directive| directive.name == "server" && directive.block.is_some())
        .map(|directive| listen::read(&file, directive))
        .collect();
    let configuration = configuration(&file, &read.directives, &servers);
    let mut report = Report::new(read.sources);
    ledger.close(&read.directives, &mut report);
    Ok(Imported { configuration, report })
}

/// The `http` blocks, and what they contain. A file for `conf.d` is what stands in `http`.
fn contexts(directives: &[Directive]) -> (Vec<&Directive>, Vec<&[Directive]>) {
    let blocks: Vec<&Directive> = directives.iter().filter(|directive| directive.name == "http").collect();
    let mut levels: Vec<&[Directive]> = blocks.iter().map(|directive| directive.inner()).collect();
    if levels.is_empty() || directives.iter().any(|directive| matches!(directive.name.as_str(), "server" | "upstream"))
    {
        levels.insert(0, directives);
    }
    (blocks, levels)
}

fn configuration<'a>(file: &NginxFile<'a>, directives: &'a [Directive], servers: &[VirtualServer<'a>]) -> Map {
    let has_tls = servers.iter().any(|found| found.addresses.iter().any(|address| address.is_tls));
    let redirects: Vec<Option<Vec<&Directive>>> =
        servers.iter().map(|found| listen::redirects(found).filter(|_| has_tls)).collect();
    let mut redirecting: Vec<bool> = redirects.iter().map(Option::is_some).collect();
    // A listener redirects all of its requests or none.
    let mixed = |at: usize| {
        (0..servers.len()).any(|other| {
            redirects[other].is_none()
                && servers[other]
                    .addresses
                    .iter()
                    .any(|address| servers[at].addresses.iter().any(|own| own.port == address.port))
        })
    };
    for (at, is_redirecting) in redirecting.iter_mut().enumerate() {
        *is_redirecting &= !mixed(at);
    }
    let mut hosted = hosted(file, servers, &redirects, &redirecting);
    let silent: Vec<String> = {
        let mut names: Vec<String> = Vec::new();
        let endpoints = hosted.iter().flat_map(|server| &server.endpoints).filter(|endpoint| endpoint.is_silent);
        for endpoint in endpoints {
            if !names.contains(&endpoint.name) {
                names.push(endpoint.name.clone());
            }
        }
        names
    };
    let scopes: Vec<Scope<'_>> = servers.iter().map(|found| found.scope.clone()).collect();
    let mut configuration = Map::default();
    configuration.set("listen", listen::write(file, servers, &redirecting));
    threads(file, directives, &mut configuration);
    configuration.set_filled("clients", settings::clients(file, &scopes));
    configuration.set_filled("log", access_log::read(file, &scopes, &silent));
    let top = document::top(&mut hosted);
    for (zones, key) in [(&file.requests, "rate_limit"), (&file.connections, "in_flight")] {
        let several = |zone: &&&Directive| file.counted.borrow().get(&zone.number).is_some_and(|count| *count > 1);
        for zone in zones.values().filter(|_| top.get(key).is_none()).filter(several) {
            let message = "each endpoint counts for itself; nginx counts all locations of the zone together";
            file.ledger.remark(
                zone,
                message,
                format!("write `{key}` at the top level, where it is for all endpoints together"),
            );
        }
    }
    configuration.extend(&top);
    let (defaults, upstreams) = file.upstreams.borrow().write();
    if !defaults.is_empty() {
        configuration.set("defaults", Map::of("upstreams", defaults));
    }
    configuration.set_filled("upstreams", upstreams);
    let (plain, groups) = document::write(hosted);
    if !plain.is_empty() || groups.is_empty() {
        configuration.set("endpoints", plain);
    }
    configuration.set_filled("groups", groups);
    configuration
}

fn threads(file: &NginxFile<'_>, directives: &[Directive], configuration: &mut Map) {
    let processes = directives.iter().find(|directive| directive.name == "worker_processes");
    let count = processes.and_then(|directive| directive.arg(0)?.parse::<u64>().ok());
    if let (Some(directive), Some(count)) = (processes, count.filter(|count| *count > 1)) {
        file.ledger.import(directive);
        configuration.set("threads", Yaml::plain(count));
    }
}

/// The servers with their endpoints. The default server, which answers for all hosts that no other has, comes first.
fn hosted<'a>(
    file: &NginxFile<'a>,
    servers: &[VirtualServer<'a>],
    redirects: &[Option<Vec<&'a Directive>>],
    redirecting: &[bool],
) -> Vec<Hosted> {
    let ledger = file.ledger;
    let serving: Vec<usize> = (0..servers.len()).filter(|at| !redirecting[*at]).collect();
    let default = serving
        .iter()
        .find(|at| servers[**at].addresses.iter().any(|address| address.is_default))
        .or_else(|| serving.iter().find(|at| servers[**at].hosts.is_empty()))
        .or_else(|| serving.first())
        .copied();
    let mut all: Vec<Hosted> = Vec::new();
    let mut hosts_of: Vec<(Vec<String>, usize)> = Vec::new();
    for (at, found) in servers.iter().enumerate() {
        if redirecting[at] {
            ledger.import(found.directive);
            redirects[at].iter().flatten().for_each(|directive| ledger.import(directive));
            for directive in found.scope.own().iter().filter(|directive| directive.name == "location") {
                if !ledger.has(directive) {
                    let why = "this listener redirects all requests to https";
                    let remedy = "write `acme` at the listener with TLS: it answers challenges itself";
                    ledger.report(directive, why, remedy);
                }
            }
            for directive in found.scope.own().iter().filter(|directive| directive.name == "return") {
                ledger.import(directive);
            }
            continue;
        }
        let is_default = default == Some(at);
        if !is_default && found.hosts.is_empty() {
            let message = "the server has no hosts of its own, and all listeners serve the same endpoints";
            let remedy = "import it into a configuration of its own, for a gateway with its port";
            ledger.report(found.directive, message, remedy);
            continue;
        }
        let twice = hosts_of.iter().find(|(hosts, other)| {
            let same = hosts.iter().any(|host| found.hosts.contains(host)) || (hosts.is_empty() && is_default);
            same || (*other == default.unwrap_or(usize::MAX)
                && found.hosts.iter().any(|host| servers[*other].hosts.contains(host)))
        });
        if twice.is_some() {
            let message = "another server has the same hosts, and all listeners serve the same endpoints";
            let remedy = "import it into a configuration of its own, or put both servers into one";
            ledger.report(found.directive, message, remedy);
            continue;
        }
        ledger.import(found.directive);
        let names = variable::Variables { maps: Some(file.maps), ..listen::names(found) };
        let endpoints = server::read(file, &ServerContext { scope: found.scope.clone(), names });
        // The only server answers for all hosts; the default server of several has its own names as well.
        let hosts = if is_default { Vec::new() } else { found.hosts.clone() };
        hosts_of.push((hosts.clone(), at));
        let hosted = Hosted { hosts, endpoints };
        match is_default {
            true => all.insert(0, hosted),
            false => all.push(hosted),
        }
    }
    let ports: Vec<&str> = {
        let mut ports: Vec<&str> =
            serving.iter().flat_map(|at| &servers[*at].addresses).map(|address| address.port.as_str()).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    };
    let differ = serving.iter().any(|at| {
        let mut own: Vec<&str> = servers[*at].addresses.iter().map(|address| address.port.as_str()).collect();
        own.sort_unstable();
        own.dedup();
        own != ports
    });
    if let Some(at) = serving.get(1).filter(|_| differ) {
        let message = "servers listen on different ports; here each listener serves the endpoints of all hosts";
        ledger.remark(servers[*at].directive, message, "");
    }
    all
}

#[cfg(test)]
mod tests;
