//! The differences that are intended, each with its reason. The page for those who come from KrakenD has the same list.

use serde_json::Value;

use super::Served;
use super::shapes::Shape;
use super::upstream::Call;

/// Why the two may differ here.
pub fn reason(shape: &Shape, theirs: &Served, ours: &Served) -> Option<&'static str> {
    let backend_query = shape.has("query of a backend") && unasked(theirs) == unasked(ours);
    let same = theirs.calls == ours.calls || backend_query;
    let undecodable = ["broken", "empty", "object of a list", "list of an object"].iter().any(|name| shape.has(name));
    let named = shape.name.split(" + ").any(|part| part.starts_with("query"));
    if named && ours.calls.len() < theirs.calls.len() && theirs.calls.iter().any(|call| repeats(&call.query)) {
        return Some("a call fails whose named query parameter a client repeats; KrakenD passes all its values");
    }
    if same && theirs.status >= 400 && ours.status >= 400 {
        return Some("an error keeps the upstream's status and body, or is a problem document; KrakenD's has no body");
    }
    if same && shape.has("created") && (theirs.status, ours.status) == (200, 201) && theirs.body == ours.body {
        return Some("the status of a single call is the upstream's; KrakenD makes 200 of 201");
    }
    let dropped = theirs.status == 500 || ["static", "details"].iter().any(|name| shape.name.contains(name));
    if same && undecodable && (dropped || ours.status >= 500 || extends(&ours.body, &theirs.body)) {
        return Some("an answer that is not of the type that the file says passes, or fails; KrakenD drops it");
    }
    let pattern = |call: &Call| call.target.contains("Resp0_") || call.query.iter().any(|part| part.contains("Resp0_"));
    if theirs.calls.iter().any(pattern) && !ours.calls.iter().any(pattern) {
        if ours.calls.iter().eq(theirs.calls.iter().filter(|call| !pattern(call))) {
            return Some(
                "where an earlier answer has no such field, KrakenD sends the text of the pattern; here no call is made",
            );
        }
        let filtered = ["allow", "deny"].iter().any(|name| shape.name.contains(name));
        if filtered && ours.calls.len() == theirs.calls.len() && theirs.status == ours.status {
            return Some(
                "a later call has fields of an earlier answer that `allow` or `deny` keeps from the client; KrakenD sends the text of the pattern",
            );
        }
    }
    if backend_query && theirs.status == ours.status {
        return Some("Lura's own reader of JSON does not know `input_query_strings` of a backend; KrakenD's does");
    }
    if (shape.has("headers") || shape.has("headers of a backend")) && typed(theirs) == typed(ours) {
        return Some("a body keeps its content-type, also where `input_headers` does not name it");
    }
    if same && shape.has("flatmap in a list") && nulls(&theirs.body) == nulls(&ours.body) {
        return Some("an object of a list that loses its last field is `{}`; KrakenD makes null of it");
    }
    let colliding = shape.has("second at the root") || (shape.has("mapping") && shape.has("mapping over another"));
    if same && colliding && theirs.status == ours.status && keys(&theirs.body) == keys(&ours.body) {
        return Some("keys that collide: KrakenD takes them in any order, here the written one decides");
    }
    None
}

/// Whether a parameter is there twice.
fn repeats(query: &[String]) -> bool {
    let name = |part: &String| part.split('=').next().unwrap_or_default().to_owned();
    query.windows(2).any(|two| name(&two[0]) == name(&two[1]))
}

/// Whether the first has all fields of the second, with the same values.
fn extends(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => theirs.iter().all(|(key, value)| ours.get(key) == Some(value)),
        _ => theirs.is_null() || ours == theirs,
    }
}

/// The names of the fields of an object.
fn keys(value: &Value) -> Option<Vec<&String>> {
    value.as_object().map(|fields| {
        let mut keys: Vec<&String> = fields.keys().collect();
        keys.sort();
        keys
    })
}

/// The calls, without their queries: the upstream's answer repeats them.
fn unasked(served: &Served) -> Vec<Call> {
    served.calls.iter().map(|call| Call { query: Vec::new(), ..call.clone() }).collect()
}

/// The answer, without content types.
fn typed(served: &Served) -> Served {
    let mut served = served.clone();
    for call in &mut served.calls {
        call.fields.retain(|field| !field.starts_with("content-type"));
    }
    served
}

/// With null for each empty object.
fn nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) if map.is_empty() => Value::Null,
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), nulls(value))).collect(),
        Value::Array(items) => items.iter().map(nulls).collect(),
        other => other.clone(),
    }
}
