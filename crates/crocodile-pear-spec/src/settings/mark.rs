//! A mark of a part of the configuration: two parts with the same mark say the same, wherever they are written.

use std::hash::{Hash, Hasher};

use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use super::decode::{Decode, Field};
use super::definitions::Definitions;
use super::node::{Node, NodeKind};
use crate::problem::Problems;

/// A digest of what is written, without its places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark([u8; 32]);

impl Mark {
    /// The mark of a value.
    pub fn of(value: impl Hash) -> Self {
        let mut digest = Digest(Sha256::new());
        value.hash(&mut digest);
        Mark(digest.0.finalize().into())
    }

    /// The mark of this and something else.
    #[must_use]
    pub fn and(self, more: impl Hash) -> Self {
        Mark::of((self, more))
    }
}

/// Hashes with SHA-256, so that no two parts have the same mark by chance.
struct Digest(Sha256);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

impl Hash for Node {
    /// Hashes the written value, with the values of variables, and without places.
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(&self.kind).hash(state);
        match &self.kind {
            NodeKind::Null => {}
            NodeKind::Scalar { text, quoted, .. } => (text, quoted).hash(state),
            NodeKind::List(items) => items.hash(state),
            NodeKind::Map(entries) => {
                entries.len().hash(state);
                entries.iter().for_each(|(key, value)| (&key.value, value).hash(state));
            }
        }
    }
}

/// A spec, with the mark of what is written.
#[derive(Clone, Debug)]
pub struct Marked<T> {
    /// The spec.
    pub spec: T,
    /// The mark of its node.
    pub mark: Mark,
}

impl<T: Decode> Decode for Marked<T> {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        T::decode(node, problems).map(|spec| Marked { spec, mark: Mark::of(node) })
    }

    fn schema(definitions: &mut Definitions) -> Json {
        T::schema(definitions)
    }

    fn absent() -> Option<Self> {
        T::absent().map(|spec| Marked { spec, mark: Mark::default() })
    }

    fn takes_null() -> bool {
        T::takes_null()
    }

    fn fields() -> Vec<Field> {
        T::fields()
    }

    fn written(&self) -> Option<Json> {
        self.spec.written()
    }
}

impl<T> std::ops::Deref for Marked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.spec
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::mark::*;
    use crate::problem::Span;

    #[test]
    fn the_mark_is_of_what_is_written_and_not_of_where() {
        let node = |value| Node::from_json(&value);
        let mark = |value| Mark::of(node(value));
        let mut moved = node(json!({"a": ["b", 1]}));
        moved.span = Span { line: 7, column: 3, ..Span::default() };
        assert_eq!(Mark::of(&moved), mark(json!({"a": ["b", 1]})));
        let all = [
            json!({"a": ["b", 1]}),
            json!({"a": ["b", "1"]}),
            json!({"a": ["b1"]}),
            json!({"a": ["b"], "c": [1]}),
            json!([["a", "b"], 1]),
            json!(["a", ["b", 1]]),
            json!(null),
            json!(""),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| mark(one.clone()) != mark(other.clone())), "{one}");
        }
        assert_ne!(Mark::of("a").and("b"), Mark::of("ab"));
    }
}
