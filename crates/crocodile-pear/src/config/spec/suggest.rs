//! Suggests the word that was probably meant.

/// Longer words are not typing errors, and the time to compare them grows with the square of their length.
const LONGEST: usize = 64;

/// Names that other products and formats use for words here.
const SAME: &[(&str, &str)] = &[
    ("aggregate", "merge"),
    ("array", "json"),
    ("backend", "to"),
    ("backends", "upstreams"),
    ("bind", "listen"),
    ("call", "request"),
    ("circuit_breaker", "breaker"),
    ("client_max_body_size", "max_body"),
    ("clusters", "upstreams"),
    ("collect", "concatenate"),
    ("combine", "merge"),
    ("concat", "concatenate"),
    ("default", "otherwise"),
    ("deduplicate", "dedupe"),
    ("distinct", "dedupe"),
    ("domains", "hosts"),
    ("event-stream", "sse"),
    ("eventsource", "sse"),
    ("fallback", "otherwise"),
    ("fetch", "request"),
    ("foreach", "each"),
    ("foreach", "for_each"),
    ("gzip", "compress"),
    ("health_check", "health"),
    ("healthcheck", "health"),
    ("host", "hosts"),
    ("hosts", "servers"),
    ("input_headers", "forward"),
    ("jsonl", "ndjson"),
    ("jsonlines", "ndjson"),
    ("least_conn", "least_loaded"),
    ("least_connections", "least_loaded"),
    ("leastconn", "least_loaded"),
    ("locations", "endpoints"),
    ("loop", "each"),
    ("map", "transform"),
    ("parallel", "requests"),
    ("paths", "endpoints"),
    ("port", "listen"),
    ("proxy_read_timeout", "timeout"),
    ("routes", "endpoints"),
    ("server_name", "hosts"),
    ("service", "to"),
    ("services", "upstreams"),
    ("sites", "groups"),
    ("steps", "pipeline"),
    ("targets", "servers"),
    ("unique", "dedupe"),
    ("upstream", "to"),
    ("uri", "url"),
    ("verb", "method"),
    ("vhosts", "groups"),
    ("virtual_host", "hosts"),
    ("virtual_hosts", "groups"),
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
const PROXIES: [&str; 6] = ["upstream", "proxy", "proxy_pass", "to", "backend", "service"];

/// Names that other products have for the number of retries.
const RETRIES: [&str; 4] = ["retries", "max_retries", "num_retries", "attempts"];

/// The text to write instead of a field that belongs into another one of these fields. `value` is what is written there, if it
/// is short.
pub fn inside(word: &str, value: Option<&str>, fields: &[&str]) -> Option<String> {
    let shown = value.unwrap_or("…");
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
    (fields.contains(&"retry") && RETRIES.contains(&word)).then(|| format!("write `retry: {{ attempts: {shown} }}`"))
}

/// The text to write instead of a number in the place of a map with these fields.
pub fn number(number: &str, fields: &[&str]) -> Option<String> {
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (digits && fields.contains(&"attempts")).then(|| format!("write `{{ attempts: {number} }}`"))
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
    let mut same = SAME.iter().filter(|(other, _)| *other == lower).map(|(_, own)| *own);
    let same = same.find_map(|own| candidates.iter().copied().find(|candidate| *candidate == own));
    same.or_else(|| nearest(word, &candidates))
}

fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(LONGEST + 1).flat_map(char::to_lowercase).collect();
    let allowed = (word.len() / 3).max(1);
    candidates
        .iter()
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), *candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be inserted, removed, changed or swapped with their neighbour (optimal string alignment).
fn distance(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
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
