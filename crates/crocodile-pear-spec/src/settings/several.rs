//! Types made of other types: optional values, lists, maps, raw values.

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::decode::{Decode, Field};
use super::definitions::Definitions;
use super::node::{Located, Node, NodeKind};
use super::record::beside;
use crate::problem::{Problems, Span};

/// A map whose keys the operator chooses, in the order written. Each entry has the position of its key.
pub type Entries<T> = IndexMap<String, (Span, T)>;

impl<T: Decode> Decode for Entries<T> {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let entries = node.expect_map("a map of names", problems)?;
        let mut sound = true;
        let mut read = Self::with_capacity(entries.len());
        let mut rest = entries.iter();
        while let Some((key, node)) = rest.next() {
            let inner = misplaced::<T>(node, rest.as_slice());
            if !inner.is_empty() {
                beside(key, &inner, problems);
                rest.by_ref().take(inner.len()).for_each(drop);
                sound = false;
                continue;
            }
            match T::decode(node, problems) {
                Some(value) => drop(read.insert(key.value.clone(), (key.span, value))),
                None => sound = false,
            }
        }
        sound.then_some(read)
    }

    fn schema(definitions: &mut Definitions) -> Value {
        map_of(T::schema(definitions))
    }

    fn written(&self) -> Option<Value> {
        self.is_empty().then(|| json!({}))
    }
}

fn map_of(schema: Value) -> Value {
    json!({"type": "object", "additionalProperties": schema})
}

fn list_of(schema: Value) -> Value {
    json!({"type": "array", "items": schema})
}

/// The keys after an entry without a value that belong under it, because they are its fields.
pub fn misplaced<'a, T: Decode>(node: &Node, rest: &'a [(Located<String>, Node)]) -> Vec<&'a Located<String>> {
    if !matches!(node.kind, NodeKind::Null) {
        return Vec::new();
    }
    let fields = T::fields();
    let known = |key: &&Located<String>| fields.iter().any(|field| field.name == key.value);
    rest.iter().map(|(key, _)| key).take_while(known).collect()
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let items = node.expect_list("a list", problems)?;
        // Collect first: an early return at the first failure would hide the other problems.
        let read: Vec<_> = items.iter().map(|item| T::decode(item, problems)).collect();
        read.into_iter().collect()
    }

    fn schema(definitions: &mut Definitions) -> Value {
        list_of(T::schema(definitions))
    }

    fn written(&self) -> Option<Value> {
        self.iter().map(T::written).collect::<Option<Vec<_>>>().map(Value::from)
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.kind {
            NodeKind::Null if !T::takes_null() => Some(None),
            _ => T::decode(node, problems).map(Some),
        }
    }

    fn fields() -> Vec<Field> {
        T::fields()
    }

    fn schema(definitions: &mut Definitions) -> Value {
        T::schema(definitions)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn takes_null() -> bool {
        true
    }

    fn written(&self) -> Option<Value> {
        self.as_ref().and_then(T::written)
    }
}

impl<T: Decode> Decode for Located<T> {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let runs = match &node.kind {
            NodeKind::Scalar { runs, .. } => runs.clone(),
            _ => None,
        };
        T::decode(node, problems).map(|value| Self { value, span: node.span, runs })
    }

    fn fields() -> Vec<Field> {
        T::fields()
    }

    fn schema(definitions: &mut Definitions) -> Value {
        T::schema(definitions)
    }

    fn takes_null() -> bool {
        T::takes_null()
    }

    fn written(&self) -> Option<Value> {
        self.value.written()
    }
}

impl<T: Decode> Decode for Box<T> {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        T::decode(node, problems).map(Self::new)
    }

    fn fields() -> Vec<Field> {
        T::fields()
    }

    fn schema(definitions: &mut Definitions) -> Value {
        T::schema(definitions)
    }

    fn absent() -> Option<Self> {
        T::absent().map(Self::new)
    }

    fn takes_null() -> bool {
        T::takes_null()
    }

    fn written(&self) -> Option<Value> {
        (**self).written()
    }
}

/// A text, or several in a list.
#[derive(Clone, Debug)]
pub struct Texts(pub Vec<Located<String>>);

impl Decode for Texts {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.kind {
            NodeKind::List(_) => Vec::decode(node, problems).map(Texts),
            _ => Located::decode(node, problems).map(|text| Texts(vec![text])),
        }
    }

    fn schema(_: &mut Definitions) -> Value {
        json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
    }
}

/// Any value, kept so that another type can read it later.
impl Decode for Node {
    fn decode(node: &Node, _: &mut Problems) -> Option<Self> {
        Some(node.clone())
    }

    fn schema(_: &mut Definitions) -> Value {
        json!({})
    }

    fn takes_null() -> bool {
        true
    }
}

/// Any JSON value, written as YAML. Unquoted numbers, bools and null are what they look like, and numbers keep their
/// digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal(String);

impl Literal {
    /// The value as JSON.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Decode for Literal {
    fn decode(node: &Node, _: &mut Problems) -> Option<Self> {
        let mut text = String::new();
        write(node, &mut text);
        Some(Self(text))
    }

    fn schema(_: &mut Definitions) -> Value {
        json!({})
    }

    fn takes_null() -> bool {
        true
    }
}

/// Like [`Literal`], with machine numbers.
impl Decode for Value {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let literal = Literal::decode(node, problems)?;
        serde_json::from_str(literal.as_str()).ok().or_else(|| node.wrong("a JSON value", "", problems))
    }

    fn schema(definitions: &mut Definitions) -> Value {
        Literal::schema(definitions)
    }

    fn takes_null() -> bool {
        true
    }

    fn written(&self) -> Option<Value> {
        Some(self.clone())
    }
}

fn write(node: &Node, out: &mut String) {
    match &node.kind {
        NodeKind::Null => out.push_str("null"),
        NodeKind::Scalar { text, quoted: false, .. } if is_literal(text) => out.push_str(text.trim()),
        NodeKind::Scalar { text, .. } => quote(text, out),
        NodeKind::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write(item, out);
            }
            out.push(']');
        }
        NodeKind::Map(entries) => {
            out.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                quote(key.as_str(), out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}

/// Whether a scalar without quotes is not text: a number or a bool in JSON.
fn is_literal(text: &str) -> bool {
    matches!(serde_json::from_str(text), Ok(Value::Number(_) | Value::Bool(_)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::problem::{Problems, Span};
    use crate::settings::{Decode, Entries, Literal, Located, Node, NodeKind};

    fn read<T: Decode>(value: &Value) -> Option<T> {
        T::decode(&Node::from_json(value), &mut Problems::default())
    }

    #[test]
    fn null_is_left_out_unless_it_means_something() {
        assert_eq!(read::<Option<u64>>(&json!(null)), Some(None));
        assert_eq!(read::<Option<u64>>(&json!(5)), Some(Some(5)));
        assert_eq!(read::<Option<u64>>(&json!("x")), None);
        assert_eq!(read::<Option<Value>>(&json!(null)), Some(Some(Value::Null)));
    }

    #[test]
    fn any_value_is_kept_as_it_is() {
        let value = json!({"b": [1, 2.50, "3", true, "true", "a\"\n", null, {}], "a": -1e300});
        assert_eq!(read::<Value>(&value), Some(value));
    }

    #[test]
    fn a_number_keeps_its_digits() {
        let scalar = |text: &str| {
            let kind = NodeKind::Scalar { text: text.to_owned(), quoted: false, runs: None };
            Node { span: Span::default(), kind }
        };
        for (text, wanted) in [
            ("1.50", "1.50"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("-0.0", "-0.0"),
            ("1E+2", "1E+2"),
            ("01", "\"01\""),
            ("1.5.0", "\"1.5.0\""),
        ] {
            let map = NodeKind::Map(vec![(Located::new("a".to_owned(), Span::default()), scalar(text))]);
            let literal = Literal::decode(&Node { span: Span::default(), kind: map }, &mut Problems::default());
            assert_eq!(literal.expect("sound").as_str(), format!("{{\"a\":{wanted}}}"));
        }
    }

    #[test]
    fn names_keep_their_order() {
        let names = read::<Entries<bool>>(&json!({"z": true, "a": false})).expect("sound");
        assert_eq!(names.keys().collect::<Vec<_>>(), ["z", "a"]);
    }
}
