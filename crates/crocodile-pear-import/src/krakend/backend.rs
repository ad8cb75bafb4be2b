//! A backend of an endpoint: a call, and what is made of its answer.

use std::time::Duration;

use super::flatmap::Operation;
use super::keys::{Item, ObjectKeys};
use super::martian::{self, Changes};
use super::shape::{Decoder, Shape};
use super::{elsewhere, limit, old, tls};
use crate::jq;
use crate::yaml::{Map, Yaml};

pub struct Backend {
    pub path: Option<String>,
    pub method: Option<String>,
    pub urls: Vec<String>,
    /// Settings of its upstream, without those that its endpoint adds.
    pub settings: Map,
    pub shape: Shape,
    pub is_noop: bool,
    /// The names of header fields and query parameters that pass, of those that the endpoint passes.
    pub headers: Option<Vec<String>>,
    pub query: Option<Vec<String>>,
    pub changes: Changes,
    pub limit: Option<Yaml>,
    pub details: Option<String>,
    pub is_shadow: bool,
    pub conditions: Vec<String>,
    pub flatmap_is_set: bool,
}

/// Where a backend's servers are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discovery {
    /// The hosts are written.
    Static,
    /// The hosts are names of SRV records.
    Dns,
}

/// The settings that a backend takes from its endpoint and from the service.
pub struct InheritedSettings<'a> {
    pub hosts: Option<&'a Item<'a>>,
    pub is_noop: bool,
    pub headers: &'a [String],
    pub parameters: &'a [(String, String)],
    pub settings: &'a Map,
}

/// Reads a backend; none if it cannot be called, which is reported.
pub fn read(item: &Item<'_>, around: &InheritedSettings<'_>) -> Option<Backend> {
    let keys = item.map()?;
    let urls = servers(item, &keys, around);
    let mut backend = Backend {
        path: keys.text("url_pattern"),
        method: keys.text("method").map(|method| method.to_ascii_uppercase()),
        urls: urls.clone().unwrap_or_default(),
        settings: around.settings.clone(),
        shape: Shape::default(),
        is_noop: around.is_noop,
        headers: keys.take("input_headers").map(|item| lower(item.texts())).filter(|names| !names.is_empty()),
        query: keys.take("input_query_strings").map(|item| item.texts()).filter(|names| !names.is_empty()),
        changes: Changes::default(),
        limit: None,
        details: None,
        is_shadow: false,
        conditions: Vec::new(),
        flatmap_is_set: false,
    };
    backend.method = backend.method.filter(|method| !method.is_empty());
    let passes = |name: &str| around.headers.iter().any(|known| known == name || known == "*");
    if let Some(extra) = keys.map("extra_config") {
        for (name, item) in extra.all() {
            backend.extra(old::namespace(name), &item, &passes, around);
        }
    }
    backend.shape(&keys);
    keys.end();
    urls.map(|_| backend)
}

fn lower(names: Vec<String>) -> Vec<String> {
    names.into_iter().map(|name| name.to_ascii_lowercase()).collect()
}

/// The URLs of the servers.
fn servers(item: &Item<'_>, keys: &ObjectKeys<'_>, around: &InheritedSettings<'_>) -> Option<Vec<String>> {
    let sd = keys.take("sd");
    let scheme = keys.text("sd_scheme").unwrap_or_else(|| "http".to_owned());
    let discovery = match sd.as_ref().and_then(super::keys::Item::text).as_deref() {
        None | Some("" | "static") => Some(Discovery::Static),
        Some("dns") => Some(Discovery::Dns),
        Some(_) => None,
    };
    keys.accept_flag("disable_host_sanitize");
    let own = keys.take("host").filter(|item| item.node.as_list().is_none_or(|hosts| !hosts.is_empty()));
    let Some(discovery) = discovery else {
        sd?.report(
            "this service discovery is not supported, so its endpoint is not imported",
            "use `dns` (SRV records), or name the hosts",
        );
        return None;
    };
    match own.as_ref().or(around.hosts) {
        Some(hosts) => urls(hosts, discovery, &scheme),
        None => {
            item.report("the backend has no `host`, and the service has none either", "name its hosts");
            None
        }
    }
}

/// The URLs of the hosts. If a host cannot be used, that is reported, and there are none.
fn urls(item: &Item<'_>, discovery: Discovery, scheme: &str) -> Option<Vec<String>> {
    let mut urls = Vec::new();
    for host in item.texts() {
        match url(&host, discovery, scheme) {
            Ok(url) => urls.push(url),
            Err(why) => {
                item.report(format!("the host {host:?} {why}"), "write `http://HOST:PORT` or `https://HOST`");
                return None;
            }
        }
    }
    (!urls.is_empty()).then_some(urls)
}

fn url(host: &str, discovery: Discovery, scheme: &str) -> Result<String, &'static str> {
    let (given, rest) = match host.split_once("://") {
        Some((given, rest)) => (given, rest),
        None => (if discovery == Discovery::Dns { scheme } else { "http" }, host),
    };
    if given != "http" && given != "https" {
        return Err("is not called over HTTP");
    }
    let rest = rest.trim_end_matches('/');
    let (name, path) = rest.split_once('/').map_or((rest, ""), |(name, path)| (name, path));
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-:[]".contains(letter);
    if name.is_empty() || !name.chars().all(fits) {
        return Err("is not a host name");
    }
    if path.contains([' ', '?', '#', '{', '}']) {
        return Err("has a path that is none");
    }
    let given = if discovery == Discovery::Dns { format!("{given}+srv") } else { given.to_owned() };
    Ok(format!("{given}://{rest}"))
}

impl Backend {
    /// Reads how the answer is shaped. With `no-op`, and with `flatmap_filter`, KrakenD does not look at some of it.
    fn shape(&mut self, keys: &ObjectKeys<'_>) {
        let encoding = keys.take("encoding");
        let name = encoding.as_ref().and_then(super::keys::Item::text).unwrap_or_default().to_ascii_lowercase();
        let collection = keys.take("is_collection").filter(super::keys::Item::is_true);
        let target = keys.take("target");
        let allow = keys.take_old("allow", "whitelist");
        let deny = keys.take_old("deny", "blacklist");
        let mapping = keys.take("mapping");
        let group = keys.take("group");
        if self.is_noop {
            for item in [encoding.filter(|_| name != "no-op"), collection, target, allow, deny, mapping, group]
                .into_iter()
                .flatten()
            {
                item.ignore("with `no-op` KrakenD does not look at answers");
            }
            return;
        }
        self.shape.decoder = decoder(&name, encoding.as_ref(), collection.is_some());
        let parts = |text: String| -> Vec<String> { text.split('.').map(str::to_owned).collect() };
        self.shape.target =
            target.and_then(|item| item.text()).filter(|text| !text.is_empty()).map(parts).unwrap_or_default();
        self.shape.group = group.and_then(|item| item.text()).unwrap_or_default();
        if self.flatmap_is_set {
            for item in [allow, deny, mapping].into_iter().flatten() {
                item.ignore("KrakenD does not look at it beside `flatmap_filter`");
            }
            return;
        }
        self.shape.allow = allow.map(|item| item.texts()).unwrap_or_default();
        match deny {
            Some(item) if !self.shape.allow.is_empty() => item.ignore("KrakenD does not look at it beside `allow`"),
            Some(item) => self.shape.deny = item.texts(),
            None => {}
        }
        if let Some(names) = mapping.and_then(|item| item.map()) {
            for (from, item) in names.all() {
                if let Some(to) = item.text() {
                    let to = to.split('.').next().unwrap_or_default().to_owned();
                    self.shape.mapping.push((from.to_owned(), to));
                }
            }
            self.shape.mapping.sort();
        }
    }

    fn extra(&mut self, name: &str, item: &Item<'_>, passes: &dyn Fn(&str) -> bool, around: &InheritedSettings<'_>) {
        match name {
            "qos/circuit-breaker" => self.breaker(item),
            "qos/ratelimit/proxy" => self.limit = limit::backend(item),
            "qos/http-cache" => self.cache(item),
            "proxy" => self.proxy(item),
            "modifier/martian" => self.changes = martian::read(item, passes, self.is_noop),
            "validation/cel" => self.conditions = super::cel::read(item, around.parameters),
            "backend/http" => self.http(item),
            "backend/http/client" => self.client(item),
            "auth/client-credentials" => self.credentials(item),
            name => elsewhere::report(name, item),
        }
    }

    fn breaker(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        let errors = keys.take_old("max_errors", "maxErrors").and_then(|item| item.whole()).unwrap_or(1);
        let open = keys.whole("timeout").unwrap_or(60).max(1);
        keys.ignore(
            &["name", "log_status_change"],
            "a name for log lines: the gateway names the server, and always logs it",
        );
        if let Some(item) = keys.take("interval") {
            item.remark("failures in a row are counted, also if more than `interval` is between them", "");
        }
        keys.end();
        let mut breaker = Map::default();
        // KrakenD opens after more than `max_errors`, and tests with one call.
        breaker.set("failures", Yaml::plain(errors + 1)).set("rate", Yaml::text("100%"));
        breaker.set("open", Yaml::duration(Duration::from_secs(open))).set("probes", Yaml::plain(1));
        self.settings.set("breaker", breaker);
    }

    fn cache(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        keys.ignore(&["shared", "max_items", "max_size"], "all caches share `store.memory`");
        keys.end();
        self.settings.set("cache", Yaml::plain("on"));
    }

    fn proxy(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        if let Some(item) = keys.take("flatmap_filter") {
            self.shape.flatmap = Operation::read(&item);
            self.flatmap_is_set = item.node.as_list().is_some_and(|items| !items.is_empty());
        }
        self.is_shadow = keys.is_true("shadow");
        keys.ignore(&["shadow_timeout"], "copies have a timeout of their own");
        keys.end();
    }

    fn http(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        self.details = keys.filled("return_error_details");
        keys.accept_flag("return_error_code");
        keys.end();
        if self.is_noop && self.details.take().is_some() {
            item.ignore("with `no-op` KrakenD does not look at answers");
        }
    }

    fn client(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        if let Some(item) = keys.take("client_tls") {
            let tls = tls::backend(&item);
            self.settings.set_filled("tls", tls);
        }
        keys.accept_flag("no_redirect");
        keys.ignore(&["send_body_on_redirect"], "redirects of backends are not followed: clients get them");
        if let Some(item) = keys.take("proxy_address") {
            item.report(
                "calls do not go through a forward proxy",
                "call the backend directly, or name the proxy as its server",
            );
        }
        keys.end();
    }

    fn credentials(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        if let Some(item) = keys.take("is_disabled")
            && item.is_true()
        {
            keys.end();
            return;
        }
        let mut oauth = Map::default();
        for name in ["token_url", "client_id", "client_secret"] {
            match keys.filled(name) {
                Some(value) => drop(oauth.set(name, Yaml::text(value))),
                None => item.report(format!("`{name}` is missing, so calls have no token"), ""),
            }
        }
        oauth.set_some("scope", keys.filled("scopes").map(|scopes| Yaml::text(scopes.replace(',', " "))));
        if let Some(parameters) = keys.map("endpoint_params") {
            let mut map = Map::default();
            for (name, item) in parameters.all() {
                match item.texts().as_slice() {
                    [value] => drop(map.set(name, Yaml::text(value))),
                    _ => item.report("a parameter has one value here", ""),
                }
            }
            oauth.set("parameters", map);
        }
        keys.end();
        if oauth.get("token_url").is_some() && oauth.get("client_id").is_some() && oauth.get("client_secret").is_some()
        {
            self.settings.set("credentials", Map::of("oauth2", oauth));
        }
    }

    /// A name for its call among several.
    pub fn name(&self) -> String {
        let path = self.path.clone().unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default().to_owned();
        let literal =
            path.split('/').rfind(|part| !part.is_empty() && !part.contains('{')).unwrap_or_default().to_owned();
        let word = if self.shape.group.is_empty() { literal } else { self.shape.group.clone() };
        let word: String = word
            .to_ascii_lowercase()
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
            .collect();
        let word = word.trim_matches('_');
        const TAKEN: [&str; 17] = [
            "path", "query", "headers", "cookies", "body", "method", "host", "client", "claims", "version", "route",
            "id", "answer", "answers", "status", "name", "x",
        ];
        match jq::is_name(word) && !TAKEN.contains(&word) {
            true => word.to_owned(),
            false if word.is_empty() => "call".to_owned(),
            false => format!("call_{word}"),
        }
    }
}

fn decoder(name: &str, item: Option<&Item<'_>>, is_collection: bool) -> Decoder {
    match name {
        "safejson" => Decoder::Any,
        "string" => Decoder::Text,
        "xml" | "rss" | "yaml" => {
            if let Some(item) = item {
                item.remark(
                    format!("the answer is read by its content type; attributes and texts of `{name}` have other names than in KrakenD"),
                    "see the page on formats",
                );
            }
            Decoder::Object
        }
        // KrakenD takes JSON for what it does not know, and so for `no-op` here: its endpoint is not `no-op`.
        "no-op" => {
            if let Some(item) = item {
                item.report(
                    "`no-op` at a backend needs `output_encoding: no-op` at its endpoint: KrakenD answers `{}`",
                    "",
                );
            }
            Decoder::Object
        }
        _ if is_collection => Decoder::Collection,
        _ => Decoder::Object,
    }
}

#[cfg(test)]
mod tests {
    use super::{Discovery, url};

    #[test]
    fn hosts_are_urls_of_servers() {
        assert_eq!(url("api:80", Discovery::Static, "http").as_deref(), Ok("http://api:80"));
        assert_eq!(url("https://a.example/", Discovery::Static, "http").as_deref(), Ok("https://a.example"));
        assert_eq!(url("a.local", Discovery::Dns, "https").as_deref(), Ok("https+srv://a.local"));
        assert!(url("my host", Discovery::Static, "http").is_err());
        assert!(url("amqp://a", Discovery::Static, "http").is_err());
        assert!(url("", Discovery::Static, "http").is_err());
    }
}
