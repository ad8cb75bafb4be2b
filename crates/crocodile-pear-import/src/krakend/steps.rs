//! The pipeline of an endpoint: calls, what is made of their answers, and the answer to the client.

use super::backend::Backend;
use crate::jq;
use crate::yaml::{Map, Yaml};

/// When the static data of an endpoint is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Always,
    Success,
    Complete,
    Errored,
}

/// A call that is ready to be written.
pub struct BackendCall<'a> {
    pub name: String,
    pub upstream: String,
    pub path: String,
    pub method: Option<String>,
    pub timeout: Option<String>,
    pub body: bool,
    pub headers: Map,
    pub backend: &'a Backend,
}

/// The form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The answer as it is (`no-op`).
    Proxy,
    Json,
    Collection,
    Text,
}

/// The settings by which an endpoint makes an answer of its calls.
pub struct Made {
    pub output: Output,
    pub fixed: Option<(serde_json::Value, Strategy)>,
    /// Expressions of the endpoint's own `flatmap_filter`.
    pub flatmap: Vec<String>,
    pub is_sequential: bool,
}

impl BackendCall<'_> {
    /// Whether the short form says all of it.
    fn is_short(&self) -> bool {
        self.method.is_none() && self.timeout.is_none() && self.headers.is_empty() && !self.body
    }

    fn map(&self) -> Map {
        let mut map = Map::default();
        map.set("to", Yaml::text(&self.upstream)).set("path", Yaml::text(&self.path));
        map.set_some("method", self.method.as_ref().map(Yaml::plain));
        if self.body {
            map.set("body", Yaml::plain("client"));
        }
        map.set_filled("headers", self.headers.clone());
        map.set_some("timeout", self.timeout.as_ref().map(Yaml::plain));
        map
    }

    fn yaml(&self) -> Yaml {
        match self.is_short() {
            true => Yaml::text(format!("{} {}", self.upstream, self.path)),
            false => self.map().into(),
        }
    }
}

/// The failed answer as KrakenD describes it.
fn described(name: &str, answer: &str) -> String {
    format!(
        "{{{}: {{http_status_code: {answer}.status, http_body: (if type == \"string\" then . else tojson end), \
         http_body_encoding: {answer}.headers[\"content-type\"]}}}}",
        jq::key(&format!("error_{name}"))
    )
}

/// The statuses of answers that are described, not failures.
fn passed() -> Map {
    let mut map = Map::default();
    map.set("3xx", Yaml::plain("pass")).set("4xx", Yaml::plain("pass")).set("5xx", Yaml::plain("pass"));
    map
}

/// The endpoint of one call: its text, if the short form says all, or its pipeline.
pub fn single(call: &BackendCall<'_>, made: &Made) -> Yaml {
    let steps = after(call, made);
    if steps.is_empty() && call.is_short() {
        return call.yaml();
    }
    let mut request = call.map();
    let mut is_long = !call.is_short();
    if let Some((_, strategy)) = &made.fixed
        && matches!(strategy, Strategy::Always | Strategy::Errored)
    {
        let otherwise = if *strategy == Strategy::Always { Map::default().into() } else { Yaml::plain("null") };
        request.set("otherwise", otherwise);
        is_long = true;
    }
    if call.backend.details.is_some() {
        request.set("on_status", passed());
        is_long = true;
    }
    let first = if is_long { Yaml::from(request) } else { call.yaml() };
    let mut pipeline = vec![Map::of("request", first).into()];
    pipeline.extend(steps);
    Yaml::List(pipeline)
}

/// The steps behind the only call.
fn after(call: &BackendCall<'_>, made: &Made) -> Vec<Yaml> {
    let mut steps = Vec::new();
    if made.output != Output::Proxy
        && let Some(expression) = expression(call, made)
    {
        steps.push(Map::of("transform", Yaml::text(expression)).into());
    }
    let mut answer = Map::default();
    if call.backend.details.is_some() {
        answer.set("status", Yaml::plain(200));
    }
    if made.output == Output::Text && !is_text(call) {
        answer.set("headers", Map::of("content-type", Yaml::text("text/plain; charset=utf-8")));
        answer.set("body", Yaml::text(".content // \"\" | strings"));
    }
    if !call.backend.changes.answer.is_empty() {
        let mut headers = Map::default();
        for (name, value) in &call.backend.changes.answer {
            headers.set(name, Yaml::text(value));
        }
        answer.set("headers", headers);
    }
    if !answer.is_empty() {
        steps.push(Map::of("respond", answer).into());
    }
    steps
}

/// Whether a text passes as it is.
fn is_text(call: &BackendCall<'_>) -> bool {
    let shape = &call.backend.shape;
    shape.decoder == super::shape::Decoder::Text
        && shape.target.is_empty()
        && shape.allow.is_empty()
        && shape.deny.is_empty()
        && shape.mapping.is_empty()
        && shape.group.is_empty()
        && shape.flatmap.is_empty()
}

fn expression(call: &BackendCall<'_>, made: &Made) -> Option<String> {
    let shape = &call.backend.shape;
    if made.output == Output::Text && is_text(call) {
        return None;
    }
    let mut steps: Vec<String> = Vec::new();
    let is_list = made.output == Output::Collection
        && shape.keys() == Some(vec!["collection".to_owned()])
        && made.fixed.is_none();
    if is_list
        && shape.group.is_empty()
        && shape.mapping.is_empty()
        && shape.allow.is_empty()
        && call.backend.details.is_none()
    {
        return None;
    }
    steps.extend(shape.alone());
    if let Some((value, strategy)) = &made.fixed {
        match strategy {
            // The call gives null if it failed.
            Strategy::Errored => {
                let good = if steps.is_empty() { ".".to_owned() } else { steps.join(" | ") };
                steps = vec![format!("if . == null then {} else {good} end", compact(value))];
            }
            _ => steps.push(format!(". + {}", compact(value))),
        }
    }
    if let Some(name) = &call.backend.details {
        let good = if steps.is_empty() { ".".to_owned() } else { steps.join(" | ") };
        let good = if good.contains('|') { format!("({good})") } else { good };
        steps = vec![format!("if $answer.status < 300 then {good} else {} end", described(name, "$answer"))];
    }
    if made.output == Output::Collection {
        steps.push(".collection // []".to_owned());
    }
    (!steps.is_empty()).then(|| steps.join(" | "))
}

/// JSON as jq.
fn compact(value: &serde_json::Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The pipeline of several calls.
pub fn several(calls: &[BackendCall<'_>], made: &Made) -> Yaml {
    let mut requests = Map::default();
    for (at, call) in calls.iter().enumerate() {
        let mut map = call.map();
        match call.backend.details.is_some() {
            true => drop(map.set("on_status", passed())),
            false => drop(map.set("otherwise", Yaml::plain("null"))),
        }
        // KrakenD stops at the first call that fails.
        if let (true, Some(before)) = (made.is_sequential, at.checked_sub(1).and_then(|before| calls.get(before))) {
            map.set("when", Yaml::text(format!("${} != null", before.name)));
        }
        requests.set(&call.name, map);
    }
    let mut pipeline =
        vec![Yaml::from(Map::of("requests", requests)), Map::of("merge", Yaml::text(merged(calls, made))).into()];
    if made.output == Output::Text {
        let mut answer = Map::of("headers", Map::of("content-type", Yaml::text("text/plain; charset=utf-8")));
        answer.set("body", Yaml::text(".content // \"\" | strings"));
        pipeline.push(Map::of("respond", answer).into());
    }
    Yaml::List(pipeline)
}

const FAILED: &str = "error({status: 502, detail: \"no upstream answered\"})";

fn merged(calls: &[BackendCall<'_>], made: &Made) -> String {
    let part = |call: &BackendCall<'_>| match &call.backend.details {
        None if call.backend.shape.is_identity() => format!("(${} | objects)", call.name),
        None => call.backend.shape.among(&call.name),
        Some(name) => {
            let answer = format!("$answers.{}", call.name);
            let good = call.backend.shape.among(&call.name);
            format!("(${} | if {answer}.status < 300 then {good} else {} end)", call.name, described(name, &answer))
        }
    };
    let plain = calls.iter().all(|call| call.backend.details.is_none() && call.backend.shape.is_identity());
    let parts = match plain {
        true => format!(
            "[{}] | map(objects)",
            calls.iter().map(|call| format!("${}", call.name)).collect::<Vec<_>>().join(", ")
        ),
        false => format!("[{}]", calls.iter().map(part).collect::<Vec<_>>().join(", ")),
    };
    let mut text = match &made.fixed {
        None => format!("{parts} | add // {FAILED}"),
        Some((value, strategy)) => {
            let (value, count) = (compact(value), calls.len());
            match strategy {
                Strategy::Always => format!("{parts} | (add // {{}}) + {value}"),
                Strategy::Errored => {
                    format!("{parts} | (add // {{}}) + if length < {count} then {value} else {{}} end")
                }
                _ => format!("{parts} | (add // {FAILED}) + if length == {count} then {value} else {{}} end"),
            }
        }
    };
    for step in &made.flatmap {
        text = format!("{text} | {step}");
    }
    if made.output == Output::Collection {
        text.push_str(" | .collection // []");
    }
    text
}
