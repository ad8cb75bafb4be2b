//! A map with one key, its name. This form keeps the positions of everything in it.

use serde_json::Value as Json;

use super::node::{Located, Node, NodeKind};
use super::record::beside;
use super::suggest::suggest;
use crate::problem::Problems;

/// A value that is written as a map with one key, its name.
pub struct OneKey {
    /// The word for it in messages: `step`.
    pub what: &'static str,
    /// The valid names.
    pub names: &'static [&'static str],
}

impl OneKey {
    /// The name, which must be valid, and the node under it.
    pub fn read<'n>(&self, node: &'n Node, problems: &mut Problems) -> Option<(&'n str, &'n Node)> {
        let OneKey { what, names } = self;
        if node.lacks_space(&|name| names.contains(&name), problems) {
            return None;
        }
        let entries = match &node.kind {
            NodeKind::Map(entries) if !entries.is_empty() => entries,
            _ => {
                let remedy = match node.as_plain() {
                    Some(call) if names.contains(&"request") && call.contains(" /") => {
                        format!("write `request: {call}`")
                    }
                    _ => format!("write `- NAME: …` with one of {}", names.join(", ")),
                };
                return problems.error(node.span, self.wanted(), remedy);
            }
        };
        let [(name, inner)] = entries.as_slice() else { return self.several(node, entries, problems) };
        if !names.contains(&name.as_str()) {
            let remedy = match suggest(name.as_str(), names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the {what}s are {}", names.join(", ")),
            };
            return problems.error(name.span, format!("no {what} is named `{name}`"), remedy);
        }
        Some((name.as_str(), inner))
    }

    fn wanted(&self) -> String {
        format!("a {} is a map with one key, its name", self.what)
    }

    /// Explains why there is more than one key.
    fn several<T>(&self, node: &Node, entries: &[(Located<String>, Node)], problems: &mut Problems) -> Option<T> {
        let [(first, inner), (second, _), ..] = entries else { return None };
        let is_known = |key: &Located<String>| self.names.contains(&key.as_str());
        match (is_known(first), is_known(second), &inner.kind) {
            (true, true, _) => {
                let message = format!("`{second}` is a {} of its own", self.what);
                problems.error(second.span, message, format!("begin it with a `-`: write `- {second}:`"))
            }
            (true, false, NodeKind::Null) => {
                let inner: Vec<&Located<String>> = entries[1..].iter().map(|(key, _)| key).collect();
                beside(first, &inner, problems);
                None
            }
            (true, false, NodeKind::Scalar { .. }) => {
                let message = format!("`{second}` is beside `{first}`, not inside it");
                let remedy = format!("give `{first}` a map that has both: `{first}: {{ …, {second}: … }}`");
                problems.error(second.span, message, remedy)
            }
            (true, false, _) => {
                let message = format!("`{second}` is beside `{first}`, not inside it");
                problems.error(second.span, message, format!("indent `{second}` further than `{first}`"))
            }
            _ => problems.error(node.span, self.wanted(), format!("begin each {} with its own `- `", self.what)),
        }
    }
}

/// The schema of a map with one key, its name.
pub fn one_key(schemas: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
    let each = schemas.into_iter().map(|(name, schema)| {
        serde_json::json!({
            "type": "object",
            "properties": { name: schema },
            "required": [name],
            "additionalProperties": false,
        })
    });
    serde_json::json!({ "oneOf": each.collect::<Vec<_>>() })
}
