//! `defaults`: fields that upstreams and endpoints have unless they write their own.

use crate::problem::Problems;
use crate::settings::{Located, Node, NodeKind, suggest};

/// The key at the top of a configuration.
const DEFAULTS: &str = "defaults";

const UPSTREAMS: &str = "upstreams";
const ENDPOINTS: &str = "endpoints";

/// The fields that say which API an upstream is; they cannot be the same for several.
const OWN_OF_UPSTREAMS: [&str; 6] = ["url", "urls", "servers", "socket", "choose", "mirror"];

/// The fields that say what an endpoint does.
const OWN_OF_ENDPOINTS: [&str; 2] = ["pipeline", "files"];

type MapEntries = Vec<(Located<String>, Node)>;

/// Adds the defaults where nothing else is written, and takes them out.
pub fn apply(node: &mut Node, problems: &mut Problems) {
    let NodeKind::Map(entries) = &mut node.kind else { return };
    let Some(at) = entries.iter().position(|(key, _)| key.value == DEFAULTS) else { return };
    let (_, defaults) = entries.remove(at);
    let wanted = "a map with `upstreams`, `endpoints`";
    let Some(kinds) = defaults.expect_map(wanted, problems) else { return };
    for (kind, fields) in kinds {
        let own: &[&str] = match kind.as_str() {
            UPSTREAMS => &OWN_OF_UPSTREAMS,
            ENDPOINTS => &OWN_OF_ENDPOINTS,
            _ => {
                let remedy = match suggest(kind.as_str(), [UPSTREAMS, ENDPOINTS]) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => match fields.as_plain() {
                        Some(shown) => {
                            format!(
                                "write `{UPSTREAMS}: {{ {kind}: {shown} }}` or `{ENDPOINTS}: {{ {kind}: {shown} }}`"
                            )
                        }
                        None => format!("known here: `{UPSTREAMS}`, `{ENDPOINTS}`"),
                    },
                };
                problems.error::<()>(kind.span, format!("unknown field `{kind}`"), remedy);
                continue;
            }
        };
        let Some(fields) = fields.expect_map("a map of fields", problems) else { continue };
        for (key, _) in fields.iter().filter(|(key, _)| own.contains(&key.as_str())) {
            let message = format!("`{key}` cannot be the same for all");
            problems.error::<()>(key.span, message, "write it at each of them");
        }
        let fields: MapEntries = fields.iter().filter(|(key, _)| !own.contains(&key.as_str())).cloned().collect();
        match kind.as_str() {
            UPSTREAMS => each(entries, UPSTREAMS, &mut |_, upstream| add_to_upstream(upstream, &fields)),
            _ => {
                each(entries, ENDPOINTS, &mut |name, endpoint| add_to_endpoint(name, endpoint, &fields));
                each(entries, "groups", &mut |_, group| {
                    if let NodeKind::Map(entries) = &mut group.kind {
                        each(entries, ENDPOINTS, &mut |name, endpoint| add_to_endpoint(name, endpoint, &fields));
                    }
                });
            }
        }
    }
}

/// Visits the entries of a map under a key.
fn each(entries: &mut MapEntries, key: &str, visit: &mut dyn FnMut(&str, &mut Node)) {
    let maps = entries.iter_mut().filter(|(name, _)| name.value == key);
    for (_, node) in maps {
        if let NodeKind::Map(inner) = &mut node.kind {
            inner.iter_mut().for_each(|(name, node)| visit(&name.value, node));
        }
    }
}

fn add_to_upstream(upstream: &mut Node, fields: &[(Located<String>, Node)]) {
    lengthen(upstream, |url| vec![named("url", url)]);
    if upstream.field("choose").is_none() {
        add(upstream, fields.iter());
    }
}

fn add_to_endpoint(name: &str, endpoint: &mut Node, fields: &[(Located<String>, Node)]) {
    lengthen(endpoint, |call| {
        let span = call.span;
        let step = Node { span, kind: NodeKind::Map(vec![named("request", call)]) };
        vec![named("pipeline", Node { span, kind: NodeKind::List(vec![step]) })]
    });
    // Only answers to these are cached where nothing else is written.
    let caches = name.starts_with('/') || name.starts_with("GET ") || name.starts_with("HEAD ");
    add(endpoint, fields.iter().filter(|(key, _)| caches || key.value != "cache"));
}

/// Writes the short form, a text, as a map.
fn lengthen(node: &mut Node, long: impl FnOnce(Node) -> MapEntries) {
    if matches!(node.kind, NodeKind::Scalar { .. }) {
        node.kind = NodeKind::Map(long(node.clone()));
    }
}

fn named(name: &str, node: Node) -> (Located<String>, Node) {
    (Located::new(name.to_owned(), node.span), node)
}

fn add<'a>(node: &mut Node, fields: impl Iterator<Item = &'a (Located<String>, Node)>) {
    let NodeKind::Map(entries) = &mut node.kind else { return };
    for (key, value) in fields {
        if !entries.iter().any(|(own, _)| own.value == key.value) {
            entries.push((key.clone(), value.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(written: serde_json::Value) -> (Node, Vec<String>) {
        let (mut node, mut problems) = (Node::from_json(&written), Problems::default());
        apply(&mut node, &mut problems);
        (node, problems.into_sorted().into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn what_is_written_stands_and_the_rest_is_added() {
        let (node, problems) = applied(json!({
            "defaults": { "upstreams": { "timeout": "2s", "forward": "all" }, "endpoints": { "cache": "30s", "allow": "x" } },
            "upstreams": { "a": "http://a", "b": { "url": "http://b", "timeout": "1s" }, "c": { "choose": [] } },
            "endpoints": { "GET /a": "a /a", "POST /b": { "pipeline": [], "allow": "y" } },
            "groups": { "g": { "endpoints": { "/c": "a /c" } } },
        }));
        let wanted = json!({
            "upstreams": {
                "a": { "url": "http://a", "timeout": "2s", "forward": "all" },
                "b": { "url": "http://b", "timeout": "1s", "forward": "all" },
                "c": { "choose": [] },
            },
            "endpoints": {
                "GET /a": { "pipeline": [{ "request": "a /a" }], "cache": "30s", "allow": "x" },
                "POST /b": { "pipeline": [], "allow": "y" },
            },
            "groups": { "g": { "endpoints": {
                "/c": { "pipeline": [{ "request": "a /c" }], "cache": "30s", "allow": "x" },
            } } },
        });
        assert_eq!(problems, [""; 0]);
        assert_eq!(format!("{node:?}"), format!("{:?}", Node::from_json(&wanted)));
    }

    #[test]
    fn what_is_each_ones_own_is_no_default() {
        let (_, problems) = applied(json!({ "defaults": { "upstream": {}, "upstreams": { "url": "x" } } }));
        assert_eq!(problems, ["unknown field `upstream`", "`url` cannot be the same for all"]);
    }
}
