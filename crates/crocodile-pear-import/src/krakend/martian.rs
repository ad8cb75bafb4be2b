//! `modifier/martian`: the modifiers of header fields and query parameters, also within groups.

use super::keys::{Item, ObjectKeys};

/// The changes of a call and of its answer, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Header fields of the call: name in lower case and value as a template; null is left out.
    pub call: Vec<(String, String)>,
    /// Query parameters of the call.
    pub query: Vec<(String, String)>,
    /// Header fields of the answer.
    pub answer: Vec<(String, String)>,
}

/// Imports a tree of modifiers. `passes`: whether a header field of the client reaches the backend; `is_proxy`: whether the
/// answer's fields reach the client.
pub fn read(item: &Item<'_>, passes: &dyn Fn(&str) -> bool, is_proxy: bool) -> Changes {
    let mut changes = Changes::default();
    if let Some(keys) = item.map() {
        for (name, modifier) in keys.all() {
            one(name, &modifier, passes, is_proxy, &mut changes);
        }
    }
    changes
}

/// A literal text in a template.
pub fn literal(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            '{' => "{\"{\"}".to_owned(),
            '}' => "{\"}\"}".to_owned(),
            letter => letter.to_string(),
        })
        .collect()
}

fn one(name: &str, item: &Item<'_>, passes: &dyn Fn(&str) -> bool, is_proxy: bool, changes: &mut Changes) {
    let Some(keys) = item.map() else { return };
    let (on_call, on_answer) = scope(&keys);
    let mut set = |field: String, value: String| {
        if on_call {
            changes.call.push((field.to_ascii_lowercase(), value.clone()));
        }
        if on_answer && is_proxy {
            changes.answer.push((field.to_ascii_lowercase(), value));
        }
    };
    match name {
        "header.Modifier" => {
            if let (Some(field), Some(value)) = (keys.text("name"), keys.text("value")) {
                set(field, literal(&value));
            }
        }
        "header.Append" => {
            if let (Some(field), Some(value)) = (keys.text("name"), keys.text("value")) {
                if on_call && passes(&field.to_ascii_lowercase()) {
                    item.remark(format!("`{field}` is set, in the place of the client's own"), "");
                }
                set(field, literal(&value));
            }
        }
        "header.Copy" => {
            if let (Some(from), Some(to)) = (keys.text("from"), keys.text("to")) {
                let from = from.to_ascii_lowercase();
                if on_answer {
                    item.report("fields of answers are not copied", "write a `respond` step with `$answer.headers`");
                } else if passes(&from) {
                    set(to, format!("{{$headers{}}}", crate::jq::field(&from)));
                } else {
                    item.ignore(format!("`{from}` is not among `input_headers`, so there is nothing to copy"));
                }
            }
        }
        "header.Blacklist" => {
            for field in keys.texts("names") {
                set(field, "{null}".to_owned());
            }
        }
        "querystring.Modifier" => {
            if let (Some(parameter), Some(value)) = (keys.text("name"), keys.text("value")) {
                changes.query.push((parameter, value));
            }
        }
        "fifo.Group" => {
            keys.ignore(&["aggregateErrors"], "the modifiers that are imported cannot fail");
            for modifier in keys.list("modifiers") {
                if let Some(inner) = modifier.map() {
                    for (name, modifier) in inner.all() {
                        one(name, &modifier, passes, is_proxy, changes);
                    }
                }
            }
        }
        _ => {
            item.report(
                format!("the modifier `{name}` is not imported"),
                "use `headers`, `path` and `body` of the call, with jq",
            );
            return;
        }
    }
    if on_answer && !is_proxy {
        item.ignore("KrakenD passes the fields of an answer on with `no-op` only");
    }
    keys.end();
}

fn scope(keys: &ObjectKeys<'_>) -> (bool, bool) {
    let scope = keys.texts("scope");
    (scope.iter().any(|part| part == "request"), scope.iter().any(|part| part == "response"))
}
