//! A value written in the configuration itself.

use serde_json::{Number, Value, json};

use super::{Decode, Definitions, Node, NodeKind};
use crate::problem::Problems;

/// A value as it is written, by the core schema of YAML 1.2: text in quotes is a string.
#[derive(Clone, Debug, PartialEq)]
pub struct Literal(pub Value);

impl Decode for Literal {
    fn decode(node: &Node, _: &mut Problems) -> Option<Self> {
        Some(Self(value(node)))
    }

    fn schema(_: &mut Definitions) -> Value {
        json!({})
    }

    fn takes_null() -> bool {
        true
    }
}

fn value(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Null => Value::Null,
        NodeKind::Scalar { text, quoted: true, .. } => text.as_str().into(),
        NodeKind::Scalar { text, .. } => plain(text),
        NodeKind::List(items) => items.iter().map(value).collect(),
        NodeKind::Map(entries) => entries.iter().map(|(key, node)| (key.value.clone(), value(node))).collect(),
    }
}

fn plain(text: &str) -> Value {
    let number = || text.parse::<Number>().ok().filter(|_| text.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
    match text {
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        "null" | "Null" | "NULL" | "~" | "" => Value::Null,
        _ => number().map_or_else(|| text.into(), Value::Number),
    }
}
