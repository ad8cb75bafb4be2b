//! The configuration as a person would write it: what all endpoints share at the top, what those of a host share at their
//! group.

use super::settings::{EndpointDraft, LocationPhase};
use crate::upstream_name::{base, unused};
use crate::yaml::{Map, Yaml};

/// The endpoints of a server with its hosts; those of the default server have none.
pub struct Hosted {
    pub hosts: Vec<String>,
    pub endpoints: Vec<EndpointDraft>,
}

/// The layers that requests pass before the content; an answer of `return` comes before them.
const ACCESS: [&str; 4] = ["authenticate", "addresses", "rate_limit", "in_flight"];

/// Settings that may stand above endpoints.
const SHARED: [&str; 7] = ["max_body", "authenticate", "addresses", "rate_limit", "in_flight", "headers", "compress"];

/// How a setting from above is taken off an endpoint.
fn off(key: &str) -> Yaml {
    if key == "authenticate" { Yaml::plain("none") } else { Yaml::plain("off") }
}

/// The value that all endpoints have for a setting, if they have the same.
fn common(endpoints: &[&EndpointDraft], key: &str) -> Option<Yaml> {
    let is_access = ACCESS.contains(&key);
    let calls = |endpoint: &EndpointDraft| endpoint.phase == LocationPhase::Content && endpoint.body.is_some();
    if key == "max_body" && endpoints.iter().any(|endpoint| calls(endpoint)) {
        // No other endpoint reads a body.
        let mut values = endpoints.iter().filter(|endpoint| calls(endpoint)).map(|endpoint| endpoint.settings.get(key));
        let first = values.next()?;
        return first.filter(|_| values.all(|value| value == first)).cloned();
    }
    let (meant, others): (Vec<&&EndpointDraft>, Vec<&&EndpointDraft>) =
        endpoints.iter().partition(|endpoint| !is_access || endpoint.phase == LocationPhase::Content);
    let value = meant.first()?.settings.get(key)?;
    let same = meant.iter().all(|endpoint| endpoint.settings.get(key) == Some(value));
    (same && (others.is_empty() || meant.len() > others.len())).then(|| value.clone())
}

/// Takes a setting from endpoints that now have it from above.
fn lift(endpoints: &mut [&mut EndpointDraft], key: &str) {
    for endpoint in endpoints {
        let mut rest = Map::default();
        for (other, value) in endpoint.settings.iter().filter(|(other, _)| *other != key) {
            rest.set(other, value.clone());
        }
        if ACCESS.contains(&key) && endpoint.phase == LocationPhase::Rewrite {
            rest.set(key, off(key));
        }
        endpoint.settings = rest;
    }
}

/// The settings of the top level.
pub fn top(servers: &mut [Hosted]) -> Map {
    let mut top = Map::default();
    for key in SHARED {
        let all: Vec<&EndpointDraft> = servers.iter().flat_map(|server| &server.endpoints).collect();
        if let Some(value) = common(&all, key) {
            top.set(key, value);
            lift(&mut servers.iter_mut().flat_map(|server| &mut server.endpoints).collect::<Vec<_>>(), key);
        }
    }
    top
}

/// The `endpoints` and the `groups`.
pub fn write(servers: Vec<Hosted>) -> (Map, Map) {
    let (mut plain, mut groups) = (Map::default(), Map::default());
    for mut server in servers {
        if server.hosts.is_empty() {
            parts(server.endpoints, &mut plain, &mut groups);
            continue;
        }
        let mut group = Map::default();
        match server.hosts.as_slice() {
            [one] => group.set("hosts", Yaml::text(one)),
            several => group.set("hosts", Yaml::texts(several)),
        };
        for key in SHARED.into_iter().filter(|key| !matches!(*key, "rate_limit" | "in_flight" | "max_body")) {
            let several = server.endpoints.len() > 1;
            let value = common(&server.endpoints.iter().collect::<Vec<_>>(), key);
            if let Some(value) = value.filter(|_| several) {
                group.set(key, value);
                lift(&mut server.endpoints.iter_mut().collect::<Vec<_>>(), key);
            }
        }
        let mut endpoints = Map::default();
        for endpoint in server.endpoints {
            add(&mut endpoints, &endpoint);
        }
        group.set("endpoints", endpoints);
        let base = base(server.hosts[0].trim_start_matches("*."));
        let name = unused(&base, |name| groups.get(name).is_some());
        groups.set(name, group);
    }
    (plain, groups)
}

/// Endpoints without hosts: several with the same access are a group.
fn parts(endpoints: Vec<EndpointDraft>, plain: &mut Map, groups: &mut Map) {
    let shared = |endpoint: &EndpointDraft| {
        let mut map = Map::default();
        for key in ["authenticate", "addresses", "headers"] {
            let value = endpoint.settings.get(key).filter(|value| **value != off(key));
            map.set_some(key, value.cloned());
        }
        map
    };
    let mut sets: Vec<(Map, Vec<EndpointDraft>)> = Vec::new();
    for endpoint in endpoints {
        let own = shared(&endpoint);
        match sets.iter_mut().find(|(known, _)| *known == own) {
            Some((_, members)) => members.push(endpoint),
            None => sets.push((own, vec![endpoint])),
        }
    }
    for (shared, mut members) in sets {
        if shared.is_empty() || members.len() == 1 {
            members.iter().for_each(|endpoint| add(plain, endpoint));
            continue;
        }
        for (key, _) in shared.iter() {
            lift(&mut members.iter_mut().collect::<Vec<_>>(), key);
        }
        let base = match shared.get("authenticate").is_some() || shared.get("addresses").is_some() {
            true => "restricted",
            false => "headers",
        };
        let name = unused(base, |name| groups.get(name).is_some());
        let mut group = shared;
        let mut map = Map::default();
        members.iter().for_each(|endpoint| add(&mut map, endpoint));
        group.set("endpoints", map);
        groups.set(name, group);
    }
}

fn add(map: &mut Map, endpoint: &EndpointDraft) {
    if let Some(comment) = &endpoint.comment {
        map.comment(comment);
    }
    map.set(&endpoint.name, one(endpoint));
}

fn one(endpoint: &EndpointDraft) -> Yaml {
    let mut map = endpoint.settings.clone();
    match &endpoint.body {
        None => map.into(),
        Some(body @ Yaml::Text(_)) if map.is_empty() => body.clone(),
        Some(Yaml::List(steps)) => {
            map.set("pipeline", Yaml::List(steps.clone()));
            map.into()
        }
        Some(call) => {
            map.set("pipeline", Yaml::List(vec![Map::of("request", call.clone()).into()]));
            map.into()
        }
    }
}
