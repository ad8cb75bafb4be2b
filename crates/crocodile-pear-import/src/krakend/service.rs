//! The service: what stands beside the endpoints.

use std::collections::HashMap;
use std::time::Duration;

use super::endpoint::{self, ImportedEndpoint, Service};
use super::keys::{Item, ObjectKeys};
use super::router::{self, Options};
use super::telemetry::Telemetry;
use super::upstreams::BackendUpstreams;
use super::{cors, elsewhere, limit, old, secure, tls};
use crate::duration;
use crate::upstream_name::unused;
use crate::yaml::{Map, Yaml};

/// KrakenD's own default.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The settings in `extra_config` of the service.
#[derive(Default)]
struct Extra {
    cors: Option<Map>,
    secure: Map,
    options: Options,
    telemetry: Telemetry,
    limits: Vec<Yaml>,
    limit_is_set: bool,
}

/// Imports the whole file.
pub fn read(keys: &ObjectKeys<'_>) -> Map {
    let mut extra = Extra::default();
    if let Some(map) = keys.map("extra_config") {
        for (name, item) in map.all() {
            extra.read(old::namespace(name), &item);
        }
    }
    let mut configuration = Map::default();
    if let Some(name) = keys.filled("name") {
        configuration.comment(name.replace(['\n', '\r'], " "));
    }
    configuration.set("listen", listen(keys));
    let timeout = keys.duration("timeout").unwrap_or(TIMEOUT);
    let endpoints = keys.list("endpoints");
    let service = Service {
        hosts: keys.take("host"),
        timeout,
        common: common(&endpoints, timeout),
        cache: keys.duration("cache_ttl"),
        output: keys.filled("output_encoding"),
        settings: calls(keys),
    };
    if let Some(hosts) = &service.hosts {
        hosts.texts();
    }
    let clients = clients(keys, &extra.options);
    others(keys);
    keys.end();
    let mut upstreams = BackendUpstreams::default();
    let mut read: Vec<ImportedEndpoint> = Vec::new();
    for item in &endpoints {
        let known = upstreams.count();
        let Some(endpoint) = endpoint::read(item, &service, &mut upstreams) else {
            upstreams.forget(known);
            continue;
        };
        if read.iter().any(|other| other.name == endpoint.name) {
            item.report(format!("`{}` is there twice: KrakenD does not start", endpoint.name), "keep one of the two");
            upstreams.forget(known);
            continue;
        }
        if extra.limit_is_set && endpoint.own.get("rate_limit").is_some() {
            item.remark("the rate limit of the endpoint takes the place of the service's", "");
        }
        read.push(endpoint);
    }
    extra.write(&mut configuration);
    configuration.set_filled("clients", clients);
    let upstreams = upstreams.write(&duration::write(service.common));
    configuration.set_filled("upstreams", upstreams);
    let (mut plain, groups) = grouped(read);
    health(&extra.options, &mut plain);
    configuration.set("endpoints", plain);
    configuration.set_filled("groups", groups);
    configuration
}

/// The commonest timeout of the endpoints: the upstreams have it, and other endpoints say their own.
fn common(endpoints: &[Item<'_>], timeout: Duration) -> Duration {
    let mut counts: HashMap<Duration, usize> = HashMap::new();
    for item in endpoints {
        let own = item
            .node
            .field("timeout")
            .and_then(crocodile_pear_spec::settings::Node::as_text)
            .and_then(|text| duration::parse(&text.value));
        *counts.entry(own.filter(|own| !own.is_zero()).unwrap_or(timeout)).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(own, count)| (*count, *own == timeout, *own));
    most.map_or(timeout, |(own, _)| own)
}

fn listen(keys: &ObjectKeys<'_>) -> Yaml {
    let port = keys.whole("port").filter(|port| *port > 0).unwrap_or(8080);
    let address = keys.filled("listen_ip");
    let address = address.unwrap_or_else(|| "0.0.0.0".to_owned());
    let address = if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
    match keys.take("tls").and_then(|item| tls::listener(&item)) {
        None => Yaml::text(address),
        Some(tls) => {
            let mut listener = Map::of("address", Yaml::text(address));
            listener.set("tls", tls);
            listener.into()
        }
    }
}

/// Settings of all calls.
fn calls(keys: &ObjectKeys<'_>) -> Map {
    let mut settings = Map::default();
    if let Some(item) = keys.take("client_tls") {
        let tls = tls::backend(&item);
        settings.set_filled("tls", tls);
    }
    tls::insecure(keys);
    settings.set_some("keep", keys.duration("idle_connection_timeout").map(Yaml::duration));
    for name in ["dialer_timeout", "response_header_timeout"] {
        if let Some(item) = keys.take(name)
            && item.duration().is_some()
        {
            item.report(
                "phases of a call have no timeout of their own beside the one of the whole call",
                "write `timeout` of the upstream as a map",
            );
        }
    }
    keys.ignore(
        &[
            "max_idle_connections",
            "max_idle_connections_per_host",
            "dialer_fallback_delay",
            "dialer_keep_alive",
            "expect_continue_timeout",
            "disable_compression",
            "dns_cache_ttl",
            "sequential_start",
        ],
        "it tunes Go's HTTP client, and changes no answer: see `connections` and `resolver`",
    );
    settings
}

fn clients(keys: &ObjectKeys<'_>, options: &Options) -> Map {
    let mut clients = Map::default();
    let pairs = [
        ("read_header_timeout", "head"),
        ("idle_timeout", "keep"),
        ("read_timeout", "body"),
        ("write_timeout", "write"),
        ("max_shutdown_wait_time", "drain"),
    ];
    for (name, ours) in pairs {
        let Some(item) = keys.take(name) else { continue };
        if let Some(duration) = item.duration() {
            clients.set(ours, Yaml::duration(duration));
            if ours == "body" || ours == "write" {
                item.remark(format!("`{ours}` is how long a client may pause, not how long all of it may take"), "");
            }
        }
    }
    clients.set_some("max_head", keys.whole("max_header_bytes").filter(|size| *size > 0).map(Yaml::plain));
    options.write(&mut clients);
    clients
}

/// Keys that change no answer, or are not imported.
fn others(keys: &ObjectKeys<'_>) {
    if let Some(item) = keys.take("version") {
        item.done();
    }
    keys.accept_flag("disable_rest");
    let reasons = [
        (
            "plugin",
            "the gateway loads no Go plugins",
            "see what each plugin does, and use a step, a layer or `authenticate: forward`",
        ),
        ("async_agent", "the gateway consumes no queues", "run a consumer that calls the endpoints"),
        ("debug_endpoint", "there is no endpoint for debugging", "use `explain`, and the operators' page of `admin`"),
        (
            "echo_endpoint",
            "there is no endpoint that echoes",
            "use a `respond` step with `$headers`, `$query` and `$body`",
        ),
        (
            "use_h2c",
            "HTTP/2 without TLS is not a setting of KrakenD's kind",
            "see the page on HTTP/2 for what listeners speak",
        ),
        ("disable_keep_alives", "connections to upstreams are kept", "write `keep: 1ms` at the upstream"),
    ];
    for (name, why, instead) in reasons {
        let Some(item) = keys.take(name) else { continue };
        let is_off = item.node.as_plain() == Some("false") || item.node.as_list().is_some_and(<[_]>::is_empty);
        match is_off {
            true => item.ignore("it is off"),
            false => item.report(format!("`{name}` is not imported: {why}"), instead),
        }
    }
}

/// The `endpoints` and `groups` of the configuration. Settings that several endpoints share are written once, in a group.
fn grouped(endpoints: Vec<ImportedEndpoint>) -> (Map, Map) {
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
                plain.set(&endpoint.name, written(&endpoint, Some(&shared)));
            }
            continue;
        }
        let name = unused(group_name(&shared), |name| groups.get(name).is_some());
        let mut group = shared;
        let mut map = Map::default();
        for endpoint in &members {
            map.set(&endpoint.name, written(endpoint, None));
        }
        group.set("endpoints", map);
        groups.set(name, group);
    }
    (plain, groups)
}

fn group_name(shared: &Map) -> &'static str {
    match (shared.get("allow").is_some(), shared.get("authenticate").is_some()) {
        (true, _) => "restricted",
        (false, true) => "authenticated",
        _ => "cached",
    }
}

fn written(endpoint: &ImportedEndpoint, shared: Option<&Map>) -> Yaml {
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

/// KrakenD's own health endpoint.
fn health(options: &Options, endpoints: &mut Map) {
    if options.health_is_off {
        return;
    }
    let path = options.health_path.clone().unwrap_or_else(|| "/__health".to_owned());
    let answer = Map::of("respond", Map::of("body", Yaml::text("{status: \"ok\"}")));
    endpoints.set(format!("GET {path}"), Map::of("pipeline", Yaml::List(vec![answer.into()])));
}

impl Extra {
    fn read(&mut self, name: &str, item: &Item<'_>) {
        match name {
            "security/cors" => self.cors = cors::read(item),
            "security/http" => self.secure = secure::read(item),
            "router" => self.options = router::read(item),
            "telemetry/logging" => self.telemetry.logging(item),
            "telemetry/metrics" => self.telemetry.metrics(item),
            "telemetry/opentelemetry" => self.telemetry.opentelemetry(item),
            "qos/ratelimit/service" => {
                self.limits = limit::router(item, &[]);
                self.limit_is_set = true;
            }
            name => elsewhere::report(name, item),
        }
    }

    fn write(&mut self, configuration: &mut Map) {
        configuration.set_some("admin", self.telemetry.admin.as_ref().map(Yaml::text));
        let mut log = self.telemetry.log.clone();
        if !self.options.access_log_is_off {
            log.set("access", Yaml::plain("on"));
        }
        configuration.set_filled("log", log);
        configuration.set_some("traces", self.telemetry.traces.clone());
        configuration.set_some("max_body", self.options.max_body.map(Yaml::plain));
        configuration.set_some("cors", self.cors.clone());
        if !self.secure.is_empty() {
            configuration.set("headers", Map::of("set", self.secure.clone()));
        }
        match self.limits.as_slice() {
            [] => {}
            [one] => drop(configuration.set("rate_limit", one.clone())),
            several => drop(configuration.set("rate_limit", Yaml::List(several.to_vec()))),
        }
    }
}
