//! Suggests the word that was probably meant.

/// Longer words are not typing errors, and the time to compare them grows with the square of their length.
const LONGEST: usize = 64;

/// Words of this configuration, each with the names that other products and formats have for it.
const SAME: &[(&str, &[&str])] = &[
    ("basic", &["basic_auth"]),
    ("breaker", &["circuit_breaker"]),
    ("compress", &["gzip"]),
    ("concatenate", &["collect", "concat"]),
    ("day", &["1d", "daily"]),
    ("dedupe", &["deduplicate", "distinct", "unique"]),
    ("each", &["foreach", "loop"]),
    ("endpoints", &["locations", "paths", "routes"]),
    ("for_each", &["foreach"]),
    ("forward", &["input_headers"]),
    ("groups", &["sites", "vhosts", "virtual_hosts"]),
    ("hash", &["ip_hash"]),
    ("headers", &["allow_headers", "allowed_headers"]),
    ("health", &["health_check", "health_checks", "healthcheck", "healthchecks"]),
    ("hosts", &["domains", "host", "server_name", "virtual_host"]),
    ("hour", &["1h", "hourly"]),
    ("json", &["array"]),
    ("least_loaded", &["least_conn", "least_connections", "leastconn"]),
    ("listen", &["bind", "port"]),
    ("max_body", &["client_max_body_size"]),
    ("merge", &["aggregate", "combine"]),
    ("method", &["verb"]),
    ("methods", &["allow_methods", "allowed_methods"]),
    ("month", &["monthly"]),
    ("ndjson", &["jsonl", "jsonlines"]),
    ("origins", &["allow_origin", "allow_origins", "allowed_origins"]),
    ("otherwise", &["default", "fallback"]),
    ("pipeline", &["steps"]),
    ("request", &["call", "fetch"]),
    ("requests", &["parallel"]),
    ("servers", &["hosts", "targets"]),
    ("sse", &["event-stream", "eventsource"]),
    ("timeout", &["proxy_read_timeout"]),
    ("to", &["backend", "service", "upstream"]),
    ("transform", &["map"]),
    ("trust", &["trusted_proxies"]),
    ("upstreams", &["backends", "clusters", "services"]),
    ("url", &["uri"]),
    ("warn", &["warning"]),
    ("week", &["1w", "weekly"]),
];

/// Fields of other products, a field that is known where they stand for something here, and what to write instead. `@` is
/// the value that is written there.
const ELSEWHERE: &[(&[&str], &str, &str)] = &[
    (&["read_timeout", "proxy_read_timeout"], "balance", "write `timeout: { idle: @ }`"),
    (&["connect_timeout", "proxy_connect_timeout", "dial_timeout"], "balance", "write `timeout: { connect: @ }`"),
    (&["preserve_host", "pass_host_header", "passHostHeader"], "balance", "write `host: keep`"),
    (&["sticky", "sticky_sessions"], "balance", "write `balance: { by: cookie, cookie: server }`"),
    (&["lb_policy", "load_balancing", "algorithm"], "balance", "write `balance: @`"),
    (&["weight"], "share", "write `share: @%`"),
    (&["weight"], "balance", "write `servers: [ { url: …, weight: @ } ]`"),
    (&["basic_auth", "basicauth", "basic-auth"], "pipeline", "write `authenticate: [ { basic: { users: FILE } } ]`"),
    (
        &["key_auth", "keyauth", "key-auth"],
        "pipeline",
        "write `authenticate: [ { api_key: { header: NAME, keys: FILE } } ]`",
    ),
    (&["jwt"], "pipeline", "write `authenticate: [ { jwt: { … } } ]`"),
    (&["methods", "method"], "pipeline", "write the method before the path: `GET /path:`"),
    (&["second"], "burst", "write `rate: @/1s`"),
    (&["minute"], "burst", "write `rate: @/1m`"),
    (&["hour"], "burst", "write `rate: @/1h`"),
    (&["limit_by"], "burst", "write `by:` with an expression, as `by: $client.address`"),
    (&["forward_auth", "auth_request"], "pipeline", "write `authenticate: [ { forward: { to: NAME, path: /… } } ]`"),
    (&["root", "try_files", "file_server", "static"], "pipeline", "write `files: @`"),
    (&["websocket", "websockets", "ws"], "pipeline", "write `upgrade: [websocket]`"),
    (&["strip_prefix", "strip_path"], "pipeline", "leave it out: the upstream gets the path that the call has"),
    (&["return"], "pipeline", "write `pipeline: [ respond: { status: @ } ]`"),
    (&["redirect", "redir"], "pipeline", "write `pipeline: [ respond: { status: 302, headers: { location: @ } } ]`"),
    (&["encode", "gzip_types"], "listen", "write `compress: on`"),
    (&["tls", "ssl", "https"], "listen", "write it at the listener: `listen: { address: …, tls: @ }`"),
    (&["access_log"], "listen", "write `log: { access: @ }`"),
    (&["add_header", "add_headers", "response_headers"], "cors", "write `headers: { set: { NAME: … } }`"),
    (&["key"], "burst", "write `by: @`"),
    (&["code", "status_code"], "detail", "write `status: @`"),
    (&["message", "reason"], "detail", "write `detail: @`"),
    (&["async", "background"], "on_status", "write `detach: on`"),
    (&["retry", "retries"], "on_status", "write `retry: { attempts: @ }` at the upstream"),
    (
        &["insecure", "verify", "insecure_skip_verify", "skip_verify", "ssl_verify"],
        "server_name",
        "write the CA of the server, or its own certificate: `ca: FILE`",
    ),
    (&["ttl", "expires", "max_age"], "stale_if_error", "write `for: @`"),
];

/// Fields of other products that do not exist here, and what to write instead.
const HABITS: &[(&str, &str)] = &[
    ("backend", "name the API under `upstreams`, and write the endpoint as `METHOD /path: NAME /path`"),
    ("host", GROUP),
    ("hosts", GROUP),
    ("proxy_pass", "name the API under `upstreams`, and write the endpoint as `METHOD /path: NAME /path`"),
    ("server_name", GROUP),
    ("version", VERSIONS),
    ("versions", VERSIONS),
    ("url_pattern", "write the path of the call behind the upstream's name: `NAME /path`"),
];

const GROUP: &str =
    "write `groups: { NAME: { hosts: […], endpoints: {…} } }`: endpoints of one group have hosts in common";

const VERSIONS: &str =
    "write `groups: { NAME: { versions: {…}, endpoints: {…} } }`: endpoints of one group have versions in common";

/// The text to write instead of a field of another product.
pub fn habit(word: &str) -> Option<&'static str> {
    HABITS.iter().find(|(other, _)| *other == word).map(|(_, remedy)| *remedy)
}

/// The steps of a pipeline, which are not fields of an endpoint.
pub const STEPS: [&str; 14] = [
    "request",
    "requests",
    "each",
    "follow",
    "transform",
    "merge",
    "concatenate",
    "respond",
    "select",
    "sql",
    "convert",
    "dedupe",
    "timer",
    "reject",
];

/// Names that other products have for the upstream of an endpoint.
const PROXIES: [&str; 7] = ["upstream", "proxy", "proxy_pass", "reverse_proxy", "to", "backend", "service"];

/// Names that other products have for the number of retries.
const RETRIES: [&str; 4] = ["retries", "max_retries", "num_retries", "attempts"];

/// The text to write instead of a field that belongs into another one of these fields. `value` is what is written there, if it
/// is short.
pub fn inside(word: &str, value: Option<&str>, fields: &[&str]) -> Option<String> {
    let shown = value.unwrap_or("…");
    if fields.contains(&"pipeline") && word == "respond" && value.is_some_and(|value| !value.starts_with('{')) {
        return Some(format!("write `pipeline: [ respond: {} ]`", respond(shown)));
    }
    if fields.contains(&"pipeline") && STEPS.contains(&word) {
        return Some(format!("write `pipeline: [ {word}: {shown} ]`"));
    }
    if fields.contains(&"pipeline") && PROXIES.contains(&word) {
        if shown.contains("://") {
            let remedy = "name the API under `upstreams`, and write the endpoint as `METHOD /path: NAME /path`";
            return Some(remedy.to_owned());
        }
        let path = if shown.contains(" /") { "" } else { " /…" };
        return Some(format!("write `pipeline: [ request: {shown}{path} ]`"));
    }
    if fields.contains(&"retry") && RETRIES.contains(&word) {
        return Some(format!("write `retry: {{ attempts: {shown} }}`"));
    }
    if fields == ["set", "remove", "preset"] && ["add", "append"].contains(&word) {
        return Some(format!("write `set: {shown}`"));
    }
    if fields == ["set", "remove", "preset"] && word.contains('-') {
        return Some(format!("write `set: {{ {word}: {shown} }}`"));
    }
    let found = ELSEWHERE.iter().find(|(words, beside, _)| words.contains(&word) && fields.contains(beside));
    found.map(|(.., remedy)| remedy.replace('@', shown))
}

/// The answer that was meant by its status or its text alone.
fn respond(text: &str) -> String {
    match text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("{{ status: {text} }}"),
        false => format!("{{ body: '{}' }}", serde_json::Value::from(text).to_string().replace('\'', "''")),
    }
}

/// The map to write instead of a text in the place of a map with these fields.
pub fn map_of(text: &str, fields: &[&str]) -> Option<String> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if fields.contains(&"attempts") && digits(text) {
        return Some(format!("write `{{ attempts: {text} }}`"));
    }
    if fields.contains(&"burst") && text.contains('/') {
        return Some(format!("write `{{ rate: {text} }}`"));
    }
    if fields.contains(&"amount")
        && let Some((amount, per)) = text.split_once('/')
        && digits(amount.trim())
    {
        let per = suggest(per.trim(), ["hour", "day", "week", "month"])?;
        return Some(format!("write `{{ amount: {}, per: {per} }}`", amount.trim()));
    }
    if fields.contains(&"keep")
        && fields.contains(&"claims")
        && let Some((to, path)) = text.split_once(' ')
    {
        return Some(format!("write `{{ to: {to}, path: {} }}`", path.trim()));
    }
    if fields == ["status", "headers", "body", "max_body"] {
        return Some(format!("write `{}`", respond(text)));
    }
    if fields.starts_with(&["when", "status", "detail"]) {
        return Some(format!("write `{{ when: '{}', status: 400 }}`", text.replace('\'', "''")));
    }
    (fields.contains(&"probes") && ["true", "on", "yes"].contains(&text)).then(|| "write `{ failures: 5 }`".to_owned())
}

/// The field that takes a list, where this one takes a text.
pub fn several(field: &str, fields: &[&'static str]) -> Option<&'static str> {
    (field == "url").then(|| fields.iter().copied().find(|other| *other == "servers")).flatten()
}

/// The candidate that another product calls by this word, or else the nearest candidate, if it is near enough to be
/// meant.
pub fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let lower = word.to_lowercase();
    let mut same = SAME.iter().filter(|(_, others)| others.contains(&lower.as_str())).map(|(own, _)| *own);
    let same = same.find_map(|own| candidates.iter().copied().find(|candidate| *candidate == own));
    same.or_else(|| nearest(word, &candidates))
}

fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let letters = |word: &str| -> Vec<char> { word.chars().take(LONGEST + 1).flat_map(char::to_lowercase).collect() };
    let word = letters(word);
    let allowed = (word.len() / 3).max(1);
    candidates
        .iter()
        .map(|candidate| (letters(candidate), *candidate))
        // The distance is at least the difference of the lengths.
        .filter(|(letters, _)| letters.len().abs_diff(word.len()) <= allowed)
        .map(|(letters, candidate)| (distance(&word, &letters), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be inserted, removed, changed or swapped with their neighbour (optimal string alignment).
fn distance(from: &[char], to: &[char]) -> usize {
    if from.len() > LONGEST || to.len() > LONGEST {
        return usize::MAX;
    }
    let mut before = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, &letter) in from.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, &other) in to.iter().enumerate() {
            let changed = above[column] + usize::from(letter != other);
            let mut least = changed.min(above[column + 1] + 1).min(line[column] + 1);
            if row > 0 && column > 0 && letter == to[column - 1] && from[row - 1] == other {
                least = least.min(before[column - 1] + 1);
            }
            line.push(least);
        }
        before = std::mem::replace(&mut above, line);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::suggest;

    #[test]
    fn a_slip_of_the_pen_is_understood() {
        let known = ["timeout", "url", "forward", "in_flight", "as"];
        assert_eq!(suggest("tiemout", known), Some("timeout"));
        assert_eq!(suggest("Timeout", known), Some("timeout"));
        assert_eq!(suggest("inflight", known), Some("in_flight"));
        assert_eq!(suggest("ulr", known), Some("url"));
        assert_eq!(suggest("forwards", known), Some("forward"));
    }

    #[test]
    fn words_of_other_products_are_understood() {
        assert_eq!(suggest("jsonl", ["json", "ndjson", "sse"]), Some("ndjson"));
        assert_eq!(suggest("Routes", ["listen", "endpoints"]), Some("endpoints"));
        assert_eq!(suggest("foreach", ["request", "each"]), Some("each"));
        assert_eq!(suggest("jsonl", ["json", "xml"]), Some("json"));
    }

    #[test]
    fn another_word_is_not_taken_for_a_slip() {
        assert_eq!(suggest("balance", ["timeout", "url"]), None);
        assert_eq!(suggest("x", ["y"]), None);
        assert_eq!(suggest("", ["a"]), None);
        assert_eq!(suggest(&"a".repeat(10_000), ["a"]), None);
    }
}
