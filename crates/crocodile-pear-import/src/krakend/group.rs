//! Groups: what several endpoints share is written once.

use super::endpoint::ImportedEndpoint;
use crate::upstream_name::unused;
use crate::yaml::{Map, Yaml};

/// The `endpoints` and the `groups` of the configuration.
pub fn write(endpoints: Vec<ImportedEndpoint>) -> (Map, Map) {
    let mut sets: Vec<(Map, Vec<ImportedEndpoint>)> = Vec::new();
    for endpoint in endpoints {
        match sets.iter_mut().find(|(shared, _)| *shared == endpoint.shared) {
            Some((_, members)) => members.push(endpoint),
            None => sets.push((endpoint.shared.clone(), vec![endpoint])),
        }
    }
    let (mut plain, mut groups) = (Map::default(), Map::default());
    for (shared, members) in sets {
        if shared.is_empty() || members.len() == 1 {
            for endpoint in members {
                plain.set(&endpoint.name, one(&endpoint, Some(&shared)));
            }
            continue;
        }
        let name = unused(name(&shared), |name| groups.get(name).is_some());
        let mut group = shared;
        let mut map = Map::default();
        for endpoint in &members {
            map.set(&endpoint.name, one(endpoint, None));
        }
        group.set("endpoints", map);
        groups.set(name, group);
    }
    (plain, groups)
}

fn name(shared: &Map) -> &'static str {
    match (shared.get("allow").is_some(), shared.get("authenticate").is_some()) {
        (true, _) => "restricted",
        (false, true) => "authenticated",
        _ => "cached",
    }
}

fn one(endpoint: &ImportedEndpoint, shared: Option<&Map>) -> Yaml {
    let mut map = Map::default();
    for (key, value) in shared.into_iter().flat_map(Map::iter).chain(endpoint.own.iter()) {
        map.set(key, value.clone());
    }
    match &endpoint.body {
        body @ Yaml::Text(_) if map.is_empty() => body.clone(),
        Yaml::Text(call) => {
            map.set("pipeline", Yaml::List(vec![Map::of("request", Yaml::text(call)).into()]));
            map.into()
        }
        pipeline => {
            map.set("pipeline", pipeline.clone());
            map.into()
        }
    }
}
