//! An endpoint.

use std::time::Duration;

use serde_json::Value;

use super::auth::{self, Auth};
use super::backend::{self, Backend, InheritedSettings};
use super::flatmap::Operation;
use super::keys::{Item, ObjectKeys};
use super::path::{self, EndpointPath};
use super::steps::{self, BackendCall, Made, Output, Strategy};
use super::upstreams::BackendUpstreams;
use super::{cel, elsewhere, limit, old};
use crate::duration;
use crate::jq;
use crate::yaml::{Map, Yaml};

/// The settings that endpoints take from the service.
pub struct Service<'a> {
    pub hosts: Option<Item<'a>>,
    pub timeout: Duration,
    /// The timeout that the upstreams have.
    pub common: Duration,
    pub cache: Option<Duration>,
    pub output: Option<String>,
    /// Settings of all upstreams.
    pub settings: Map,
}

pub struct ImportedEndpoint {
    /// `GET /path`.
    pub name: String,
    /// Settings that others may share: `authenticate`, `allow`, `headers`.
    pub shared: Map,
    pub own: Map,
    /// Its call in the short form, or its pipeline.
    pub body: Yaml,
}

/// The parts of an endpoint while it is read.
struct Parts<'a> {
    item: &'a Item<'a>,
    route: EndpointPath,
    method: String,
    headers: Vec<String>,
    query: Vec<String>,
    output: Output,
    made: Made,
    auth: Option<Auth>,
    conditions: Vec<String>,
    limits: Vec<Yaml>,
    validate: Option<Value>,
    cache: Option<Duration>,
    timeout: Duration,
    /// How often a call is tried; none if that is not said.
    attempts: Option<u64>,
}

/// Imports an endpoint; none if it cannot be, which is reported.
pub fn read(item: &Item<'_>, service: &Service<'_>, upstreams: &mut BackendUpstreams) -> Option<ImportedEndpoint> {
    let keys = item.map()?;
    let mut parts = parts(item, &keys, service)?;
    if let Some(extra) = keys.map("extra_config") {
        for (name, item) in extra.all() {
            parts.extra(old::namespace(name), &item);
        }
    }
    let list = keys.list("backend");
    keys.end();
    let around = InheritedSettings {
        hosts: service.hosts.as_ref(),
        is_noop: parts.output == Output::Proxy,
        headers: &parts.headers,
        parameters: &parts.route.parameters,
        settings: &service.settings,
    };
    let backends: Vec<Option<Backend>> = list.iter().map(|item| backend::read(item, &around)).collect();
    let backends: Option<Vec<Backend>> = backends.into_iter().collect();
    let backends = match backends {
        Some(backends) if !backends.is_empty() => backends,
        Some(_) => {
            item.report("the endpoint has no backend: KrakenD does not start", "");
            return None;
        }
        None => {
            item.remark(
                format!("`{} {}` is not imported, because a backend is not", parts.method, parts.route.text),
                "",
            );
            return None;
        }
    };
    parts.finish(&list, &backends, service, upstreams)
}

/// The keys of the endpoint itself.
fn parts<'a>(item: &'a Item<'a>, keys: &ObjectKeys<'_>, service: &Service<'_>) -> Option<Parts<'a>> {
    let Some(written) = keys.take("endpoint") else {
        item.report("the endpoint has no path", "write `endpoint`");
        return None;
    };
    let route = match path::route(&written.text()?) {
        Ok(route) => route,
        Err(why) => {
            item.report(
                format!("the endpoint is not imported: {why}"),
                "a parameter is a whole segment: `/{word}`, or `/{*rest}` at the end",
            );
            return None;
        }
    };
    let method = keys.filled("method");
    let method = method.map_or_else(|| "GET".to_owned(), |method| method.to_ascii_uppercase());
    if !["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method.as_str()) {
        item.ignore(format!("KrakenD serves no `{method}`"));
        return None;
    }
    let encoding = keys.take("output_encoding");
    let name = encoding
        .as_ref()
        .and_then(super::keys::Item::text)
        .filter(|name| !name.is_empty())
        .or_else(|| service.output.clone());
    let output = output(name.as_deref().unwrap_or("json"), encoding.as_ref());
    let headers: Vec<String> =
        keys.take_old("input_headers", "headers_to_pass").map(|item| star(&item)).unwrap_or_default();
    let query = keys.take_old("input_query_strings", "querystring_params").map(|item| star(&item)).unwrap_or_default();
    let attempts = keys.take("concurrent_calls").and_then(|calls| attempts(&calls));
    Some(Parts {
        item,
        route,
        method,
        headers: headers.into_iter().map(|name| name.to_ascii_lowercase()).collect(),
        query,
        output,
        made: Made { output, fixed: None, flatmap: Vec::new(), is_sequential: false },
        auth: None,
        conditions: Vec::new(),
        limits: Vec::new(),
        validate: None,
        cache: keys.duration("cache_ttl").or(service.cache),
        timeout: keys.duration("timeout").unwrap_or(service.timeout),
        attempts,
    })
}

/// `concurrent_calls` as attempts: the first answer counts here as well, and a server that is well gets one call.
fn attempts(calls: &Item<'_>) -> Option<u64> {
    let count = calls.whole().filter(|count| *count > 1)?;
    let message = format!(
        "KrakenD makes {count} calls at once; here another one follows if one fails, or if its server is silent while others answer"
    );
    calls.remark(message, "see `retry` and `balance.silence` of the upstream: only idempotent calls are repeated");
    Some(count)
}

/// A list of names; `*` stands for all, and is remarked.
fn star(item: &Item<'_>) -> Vec<String> {
    let names = item.texts();
    if names.iter().any(|name| name == "*") {
        item.remark("`*` passes on everything that a client sends", "name what the upstream needs");
        return vec!["*".to_owned()];
    }
    names
}

fn output(name: &str, item: Option<&Item<'_>>) -> Output {
    match name {
        "no-op" => Output::Proxy,
        "json-collection" => Output::Collection,
        "string" => Output::Text,
        "json" | "fast-json" => Output::Json,
        other => {
            if let Some(item) = item {
                let remedy = "use a `convert` step: `convert: [json, xml]` for what the client accepts";
                item.report(format!("the output encoding `{other}` is not imported: the answer is JSON"), remedy);
            }
            Output::Json
        }
    }
}

impl Parts<'_> {
    fn extra(&mut self, name: &str, item: &Item<'_>) {
        match name {
            "auth/validator" => match auth::read(item) {
                Some(auth) => self.auth = Some(auth),
                // Closed to all rather than open to all.
                None => self.conditions.push("false".to_owned()),
            },
            "qos/ratelimit/router" => self.limits.extend(limit::router(item, &self.route.parameters)),
            "validation/cel" => self.conditions.extend(cel::read(item, &self.route.parameters)),
            "validation/json-schema" => self.validate = Some(item.json()),
            "proxy" => self.proxy(item),
            name => elsewhere::report(name, item),
        }
    }

    fn proxy(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        self.made.is_sequential = keys.is_true("sequential");
        if let Some(fixed) = keys.map("static") {
            let data = fixed.take("data").map(|item| item.json());
            let strategy = match fixed.text("strategy").as_deref() {
                Some("success") => Strategy::Success,
                Some("complete") => Strategy::Complete,
                Some("errored" | "incomplete") => Strategy::Errored,
                _ => Strategy::Always,
            };
            fixed.end();
            self.made.fixed = data.filter(Value::is_object).map(|data| (data, strategy));
        }
        if let Some(item) = keys.take("flatmap_filter") {
            self.made.flatmap = Operation::read(&item).iter().map(Operation::expression).collect();
        }
        if let Some(item) = keys.take("sequential_propagated_params") {
            item.report(
                "`sequential_propagated_params` is not imported",
                "use the call's `$name` in `body` or `headers` of a later one",
            );
        }
        if let Some(item) = keys.take("combiner") {
            item.report("another combiner is not imported", "write the `merge` as jq");
        }
        keys.ignore(&["force_sandboxed_request"], "each call has a request of its own");
        keys.end();
    }

    /// The endpoint, of its parts and its backends.
    fn finish(
        mut self,
        items: &[Item<'_>],
        all: &[Backend],
        service: &Service<'_>,
        upstreams: &mut BackendUpstreams,
    ) -> Option<ImportedEndpoint> {
        let shadows: Vec<usize> = (0..all.len()).filter(|at| all[*at].is_shadow).collect();
        let real: Vec<usize> = (0..all.len()).filter(|at| !all[*at].is_shadow).collect();
        if real.is_empty() {
            self.item.report("all backends are shadows, so there is no answer", "");
            return None;
        }
        let mirror = self.mirror(items, all, &shadows, &real, upstreams);
        if self.output == Output::Proxy && real.len() > 1 {
            self.item.report("`no-op` is for one backend: KrakenD does not start", "");
            return None;
        }
        let names = self.names(all, &real);
        let mut calls: Vec<BackendCall<'_>> = Vec::new();
        for at in &real {
            calls.push(self.call(&items[*at], &all[*at], &calls, &names, mirror.as_deref(), service, upstreams)?);
        }
        for at in &real {
            self.conditions.extend(all[*at].conditions.iter().cloned());
            match (&all[*at].limit, real.len()) {
                (Some(limit), 1) => self.limits.push(limit.clone()),
                (Some(_), _) => items[*at].report(
                    "the rate limit of this backend is not imported: the endpoint calls several",
                    "use `rate_limit` of the endpoint, or `in_flight` of the upstream",
                ),
                (None, _) => {}
            }
        }
        self.claimless();
        self.collisions(all, &real);
        let body = match calls.as_slice() {
            [only] => {
                self.made.flatmap.clear();
                steps::single(only, &self.made)
            }
            several => steps::several(several, &self.made),
        };
        drop(calls);
        Some(self.written(body, real.len() > 1))
    }

    /// The upstream that gets copies, if that can be said.
    fn mirror(
        &self,
        items: &[Item<'_>],
        all: &[Backend],
        shadows: &[usize],
        real: &[usize],
        upstreams: &mut BackendUpstreams,
    ) -> Option<String> {
        let (first, rest) = shadows.split_first()?;
        for at in rest {
            items[*at].report("one backend gets copies; this one does not", "");
        }
        let (shadow, only) = (&all[*first], &all[*real.first()?]);
        if real.len() > 1 || shadow.path != only.path || shadow.method != only.method {
            items[*first].report(
                "the shadow gets another request than the backend, so it is not imported",
                "a `mirror` of an upstream gets copies of its calls",
            );
            return None;
        }
        Some(upstreams.name(&shadow.urls, self.forwarding(shadow), None))
    }

    fn names(&self, all: &[Backend], real: &[usize]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for at in real {
            let base = all[*at].name();
            let mut name = base.clone();
            let mut number = 2;
            while names.contains(&name) {
                name = format!("{base}_{number}");
                number += 1;
            }
            names.push(name);
        }
        names
    }

    /// The settings of a backend's upstream: its own, and what passes to it.
    fn forwarding(&self, backend: &Backend) -> Map {
        let mut settings = Map::default();
        let passes = |name: &String| backend.headers.as_ref().is_none_or(|own| own.contains(name));
        let is_all = self.headers.iter().any(|name| name == "*") && backend.headers.is_none();
        const OWN: [&str; 9] = [
            "content-type",
            "content-length",
            "host",
            "connection",
            "transfer-encoding",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-proto",
            "expect",
        ];
        let named = match (&backend.headers, self.headers.iter().any(|name| name == "*")) {
            (Some(own), true) => own.clone(),
            _ => self.headers.iter().filter(|name| passes(name)).cloned().collect(),
        };
        let mut named: Vec<String> = named.into_iter().filter(|name| !OWN.contains(&name.as_str())).collect();
        named.sort();
        named.dedup();
        if is_all {
            settings.set("forward", Yaml::plain("all"));
        } else {
            settings.set_filled("forward", Yaml::texts(named));
            if backend.headers.as_ref().is_none_or(|own| own.iter().any(|name| name.starts_with("x-forwarded-"))) {
                settings.set("forwarded", Yaml::plain("x"));
            }
        }
        let mut headers = Map::default();
        for (value, field) in self.auth.iter().flat_map(|auth| &auth.claims) {
            if passes(field) && self.headers.iter().any(|name| name == field || name == "*") {
                headers.set(field, Yaml::text(format!("{{{value}}}")));
            }
        }
        settings.set_filled("headers", headers);
        settings.extend(&backend.settings);
        settings
    }

    #[expect(clippy::too_many_arguments, reason = "a call is where all that is known comes together")]
    fn call<'b>(
        &self,
        item: &Item<'_>,
        backend: &'b Backend,
        before: &[BackendCall<'_>],
        names: &[String],
        mirror: Option<&str>,
        service: &Service<'_>,
        upstreams: &mut BackendUpstreams,
    ) -> Option<BackendCall<'b>> {
        let give = |value: path::PlaceholderValue<'_>| self.value(&value, before);
        let target = match path::target(backend.path.as_deref().unwrap_or("/"), give) {
            Ok(target) => target,
            Err(why) => {
                item.report(format!("the backend is not imported, and so its endpoint is not: {why}"), "");
                return None;
            }
        };
        let passed: Vec<String> = match (&backend.query, self.query.iter().any(|name| name == "*")) {
            (Some(own), true) => own.clone(),
            (Some(own), false) => self.query.iter().filter(|name| own.contains(name)).cloned().collect(),
            (None, _) => self.query.clone(),
        };
        let mut target = target;
        for (name, value) in &backend.changes.query {
            let sign = if target.contains('?') { '&' } else { '?' };
            target = format!("{target}{sign}{name}={}", martian_value(value));
        }
        let is_whole = passed.iter().any(|name| name == "*");
        if is_whole && target.contains('?') {
            item.report(
                "the whole query of a client does not follow a query of the path's own, so it is not passed",
                "name the parameters: `/path?fixed=1&page={$query.page}`",
            );
        }
        let target = if is_whole && target.contains('?') { target } else { path::with_query(&target, &passed) };
        let method = backend.method.clone().unwrap_or_else(|| self.method.clone());
        let is_one = names.len() == 1;
        let has_body = !matches!(method.as_str(), "GET" | "HEAD");
        let mut settings = self.forwarding(backend);
        settings.set_some("retry", self.attempts.map(|attempts| Map::of("attempts", Yaml::plain(attempts))));
        settings.set_some("mirror", mirror.map(Yaml::text));
        let mut headers = Map::default();
        for (name, value) in &backend.changes.call {
            headers.set(name, Yaml::text(value));
        }
        let timeout = (self.timeout != service.common).then(|| duration::write(self.timeout));
        Some(BackendCall {
            name: names.get(before.len()).cloned().unwrap_or_default(),
            upstream: upstreams.name(&backend.urls, settings, None),
            path: target,
            method: (if is_one { method != self.method } else { method != "GET" }).then_some(method),
            timeout,
            body: has_body && (!is_one || backend.method.as_ref().is_some_and(|own| *own != self.method)),
            headers,
            backend,
        })
    }

    /// The text for a value in a `url_pattern`.
    fn value(&self, value: &path::PlaceholderValue<'_>, before: &[BackendCall<'_>]) -> Result<String, String> {
        match value {
            path::PlaceholderValue::Parameter(name) => {
                let found = self.route.parameters.iter().find(|(known, _)| known == name);
                let (known, ours) = found.ok_or_else(|| format!("the endpoint has no parameter `{name}`"))?;
                Ok(if known == "*" { format!("/{{*{ours}}}") } else { format!("{{{ours}}}") })
            }
            path::PlaceholderValue::Claim(claim) if self.auth.is_none() => {
                Err(format!("the endpoint has no `auth/validator`, and so no claim `{claim}`"))
            }
            path::PlaceholderValue::Claim(claim) => {
                let path: String = claim.split('.').map(jq::field).collect();
                Ok(format!("{{$claims{path}}}"))
            }
            path::PlaceholderValue::Earlier(number, field) => {
                if !self.made.is_sequential {
                    return Err(format!("`resp{number}_{field}` needs `sequential: true`"));
                }
                let call = before
                    .get(*number)
                    .ok_or_else(|| format!("`resp{number}_{field}` is of a call that is not made before"))?;
                let names: Vec<&str> = field.split('.').collect();
                let origin = call.backend.shape.origin(&names);
                let origin = origin.ok_or_else(|| {
                    format!("`{field}` is no field of what is made of the answer of backend {number}")
                })?;
                let path: String = origin.iter().map(|name| jq::field(name)).collect();
                Ok(format!("{{${}{path}}}", call.name))
            }
        }
    }

    /// Conditions over claims, where there are none, let nobody pass: KrakenD cannot evaluate them, and refuses.
    fn claimless(&mut self) {
        if self.auth.is_none() && self.conditions.iter().any(|condition| condition.contains("$claims")) {
            self.conditions.retain(|condition| !condition.contains("$claims"));
            self.conditions.push("false".to_owned());
            self.item.remark(
                "a condition reads `JWT`, and the endpoint has no `auth/validator`: all requests are refused",
                "add `authenticate`",
            );
        }
    }

    /// Warns of keys that several answers can have.
    fn collisions(&self, all: &[Backend], real: &[usize]) {
        let keys: Vec<Option<Vec<String>>> = real.iter().map(|at| all[*at].shape.keys()).collect();
        let disjoint = |one: &Option<Vec<String>>, other: &Option<Vec<String>>| match (one, other) {
            (Some(one), Some(other)) => one.iter().all(|key| !other.contains(key)),
            _ => false,
        };
        let some = (0..keys.len()).any(|at| keys[at + 1..].iter().any(|other| !disjoint(&keys[at], other)));
        if some && !self.made.is_sequential {
            self.item.remark(
                "several answers may have the same key: in KrakenD the last to arrive wins, here the last that is written",
                "give each backend a `group`, or see `merge`",
            );
        }
    }

    fn written(self, body: Yaml, is_many: bool) -> ImportedEndpoint {
        let mut shared = Map::default();
        shared.set_some("authenticate", self.auth.as_ref().map(|auth| Yaml::List(vec![auth.method.clone().into()])));
        let conditions = self.auth.as_ref().and_then(|auth| auth.allow.clone()).into_iter().chain(self.conditions);
        let conditions: Vec<String> = conditions.collect();
        if !conditions.is_empty() {
            shared.set("allow", Yaml::text(conditions.join(" and ")));
        }
        if let Some(cache) = self.cache.filter(|_| self.output != Output::Proxy) {
            let value = format!("{{if $status == 200 then \"public, max-age={}\" else null end}}", cache.as_secs());
            shared.set("headers", Map::of("set", Map::of("cache-control", Yaml::text(value))));
        }
        let mut own = Map::default();
        if is_many && self.made.is_sequential {
            own.set("timeout", Yaml::duration(self.timeout));
        }
        match self.limits.as_slice() {
            [] => {}
            [one] => drop(own.set("rate_limit", one.clone())),
            several => drop(own.set("rate_limit", Yaml::List(several.to_vec()))),
        }
        own.set_some("validate", self.validate.as_ref().map(|schema| Map::of("body", Yaml::json(schema))));
        ImportedEndpoint { name: format!("{} {}", self.method, self.route.text), shared, own, body }
    }
}

fn martian_value(value: &str) -> String {
    percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).to_string()
}
