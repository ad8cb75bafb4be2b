//! The `upstream` blocks: servers, and how calls are balanced.

use super::file::NginxFile;
use super::measure;
use super::parse::Directive;
use super::piece;
use super::upstreams::is_host;
use super::variable::Variables;
use crate::duration;
use crate::yaml::{Map, Yaml};

/// Where the servers of an `upstream` block are.
pub fn read(file: &NginxFile<'_>, block: &Directive, scheme: &str) -> Option<Map> {
    let ledger = file.ledger;
    let mut servers: Vec<(String, Option<String>, u64)> = Vec::new();
    let mut failures: Vec<(Option<u64>, Option<String>)> = Vec::new();
    let (mut place, mut balance) = (Map::default(), Map::default());
    let (mut most, mut method) = (None, "round_robin".to_owned());
    for directive in block.inner() {
        match directive.name.as_str() {
            "server" => {
                if let Some((server, fails, conns)) = server(file, directive, scheme) {
                    servers.push(server);
                    failures.push(fails);
                    most = conns.or(most);
                }
            }
            "least_conn" | "least_time" | "fair" => {
                ledger.import(directive);
                method = "least_loaded".to_owned();
            }
            "random" => {
                ledger.import(directive);
                method = if directive.is("two") { "least_loaded" } else { "random" }.to_owned();
            }
            "ip_hash" => {
                ledger.import(directive);
                method = "hash".to_owned();
                balance.set("key", Yaml::text("$client.address"));
            }
            "hash" => match (Variables { maps: Some(file.maps), ..Variables::default() })
                .resolve(directive.arg(0).unwrap_or_default())
            {
                Ok(key) => {
                    ledger.import(directive);
                    method = "hash".to_owned();
                    balance.set("key", Yaml::text(piece::expression(&key)));
                }
                Err(why) => ledger.report(directive, format!("the key is not imported: {why}"), "write `balance`"),
            },
            "sticky" => {
                ledger.import(directive);
                method = "cookie".to_owned();
                balance.set_some("cookie", directive.arg(1).filter(|_| directive.is("cookie")).map(Yaml::text));
            }
            "keepalive_timeout" => match directive.arg(0).and_then(measure::time) {
                Some(keep) => {
                    ledger.import(directive);
                    place.set("keep", Yaml::duration(keep));
                }
                None => ledger.report(directive, "this is no time", "write `60s`"),
            },
            _ => {}
        }
    }
    ledger.import(block);
    if servers.is_empty() {
        return None;
    }
    let keep = place.get("keep").cloned();
    let mut place = self::place(&servers);
    if servers.len() > 1 {
        balance.set_some("eject", eject(&failures));
        match (method.as_str(), balance.is_empty()) {
            ("least_loaded", true) => {}
            (method, true) => drop(place.set("balance", Yaml::plain(method))),
            (method, false) => {
                let mut all = Map::default();
                if method != "least_loaded" {
                    all.set("by", Yaml::plain(method));
                }
                all.extend(&balance);
                place.set("balance", all);
            }
        }
    }
    place.set_some("in_flight", most.map(Yaml::plain));
    place.set_some("keep", keep);
    Some(place)
}

type ServerDirective = ((String, Option<String>, u64), (Option<u64>, Option<String>), Option<u64>);

/// A server of a block; none if it takes no calls.
fn server(file: &NginxFile<'_>, directive: &Directive, scheme: &str) -> Option<ServerDirective> {
    let ledger = file.ledger;
    let address = directive.arg(0)?;
    let (mut weight, mut fails, mut wait, mut conns) = (1, None, None, None);
    let mut remarks: Vec<String> = Vec::new();
    for parameter in directive.texts().skip(1) {
        match parameter.split_once('=') {
            Some(("weight", value)) => weight = value.parse::<u64>().unwrap_or(1),
            Some(("max_fails", value)) => fails = value.parse().ok(),
            Some(("fail_timeout", value)) => {
                wait = measure::time(value).filter(|wait| !wait.is_zero()).map(duration::write);
            }
            Some(("max_conns", value)) => conns = value.parse().ok(),
            Some(("slow_start" | "service" | "route" | "drain", _)) => {
                remarks.push(format!("`{parameter}` is not imported"));
            }
            None if parameter == "down" => {
                ledger.import(directive);
                return None;
            }
            None if parameter == "backup" => {
                let remedy = "make it a server like the others: one that fails gets no calls for a while";
                ledger.report(directive, "a server that is called only if all others fail is not imported", remedy);
                return None;
            }
            None if parameter == "resolve" => {}
            _ => remarks.push(format!("`{parameter}` is not imported")),
        }
    }
    if weight > 100 {
        remarks.push(format!("a weight is 100 at most, and not {weight}"));
    }
    let (url, socket) = match address.strip_prefix("unix:") {
        Some(path) => (format!("{scheme}://localhost"), Some(path.to_owned())),
        None if is_host(address) => (format!("{scheme}://{address}"), None),
        None => {
            ledger.report(directive, format!("`{address}` is no host"), "write `host:port`, or `unix:/path`");
            return None;
        }
    };
    match remarks.is_empty() {
        true => ledger.import(directive),
        false => ledger.remark(directive, remarks.join("; "), ""),
    }
    Some(((url, socket, weight.clamp(1, 100)), (fails, wait), conns))
}

/// `url`, or `servers`.
fn place(servers: &[(String, Option<String>, u64)]) -> Map {
    let mut place = Map::default();
    if let [(url, socket, _)] = servers {
        place.set("url", Yaml::text(url));
        place.set_some("socket", socket.as_ref().map(Yaml::text));
        return place;
    }
    let is_plain = servers.iter().all(|(_, socket, weight)| socket.is_none() && *weight == servers[0].2);
    let one = |(url, socket, weight): &(String, Option<String>, u64)| {
        if is_plain {
            return Yaml::text(url);
        }
        let mut server = Map::of("url", Yaml::text(url));
        server.set_some("socket", socket.as_ref().map(Yaml::text));
        if *weight != 1 {
            server.set("weight", Yaml::plain(weight));
        }
        match server.len() {
            1 => Yaml::text(url),
            _ => server.into(),
        }
    };
    place.set("servers", Yaml::List(servers.iter().map(one).collect()));
    place
}

/// `max_fails` and `fail_timeout`, if the servers agree.
fn eject(failures: &[(Option<u64>, Option<String>)]) -> Option<Yaml> {
    let (fails, wait) = failures.first()?;
    if failures.iter().any(|other| other != &(*fails, wait.clone())) {
        return None;
    }
    if *fails == Some(0) {
        return Some(Yaml::plain("never"));
    }
    let mut eject = Map::default();
    eject.set_some("failures", fails.as_ref().map(Yaml::plain));
    eject.set_some("first", wait.as_ref().map(Yaml::plain));
    (!eject.is_empty()).then(|| eject.into())
}
