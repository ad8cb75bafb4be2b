//! Bools, numbers, texts and expressions.

use std::any::Any;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::sync::Arc;

use serde_json::{Value, json};

use super::decode::Decode;
use super::definitions::Definitions;
use super::insert;
use super::node::{Located, Node, NodeKind};
use crate::problem::Problems;

impl Decode for bool {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_plain() {
            Some("true" | "True" | "TRUE") => Some(true),
            Some("false" | "False" | "FALSE") => Some(false),
            Some("yes" | "Yes" | "on" | "On") => node.wrong("`true` or `false`", "write `true`", problems),
            Some("no" | "No" | "off" | "Off") => node.wrong("`true` or `false`", "write `false`", problems),
            _ => node.wrong("`true` or `false`", unquote(node, |text| matches!(text, "true" | "false")), problems),
        }
    }

    fn schema(definitions: &mut Definitions) -> Value {
        definitions.or_variable(json!({"type": "boolean"}))
    }

    fn written(&self) -> Option<Value> {
        Some((*self).into())
    }
}

/// The remedy for a scalar that should not have quotes.
fn unquote(node: &Node, good: impl FnOnce(&str) -> bool) -> String {
    match &node.kind {
        NodeKind::Scalar { text, quoted: true, .. } if good(text) => format!("leave out the quotes: {text}"),
        _ => String::new(),
    }
}

/// Reads an integer within bounds.
fn whole(node: &Node, least: u64, most: u64, problems: &mut Problems) -> Option<u64> {
    const WANTED: &str = "a whole number";
    let Some(text) = node.as_plain() else {
        return node.wrong(WANTED, unquote(node, |text| text.parse::<u64>().is_ok()), problems);
    };
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let plain = text.replace(['_', ','], "");
        let remedy = match plain.parse::<u64>() {
            Ok(number) => format!("write `{number}`"),
            Err(_) => String::new(),
        };
        return node.wrong(WANTED, remedy, problems);
    }
    match digits.parse() {
        Ok(number) if (least..=most).contains(&number) => Some(number),
        _ => node.wrong(&format!("{WANTED} from {least} to {most}"), "", problems),
    }
}

macro_rules! whole {
    ($($ty:ty, $least:literal, $most:expr, $make:expr, $take:expr;)*) => { $(
        impl Decode for $ty {
            fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
                whole(node, $least, u64::try_from($most).unwrap_or(u64::MAX), problems).and_then($make)
            }

            fn schema(definitions: &mut Definitions) -> Value {
                definitions.or_variable(json!({"type": "integer", "minimum": $least}))
            }

            fn written(&self) -> Option<Value> {
                Some($take(*self).into())
            }
        }
    )* };
}

whole! {
    u16, 0, u16::MAX, |number| u16::try_from(number).ok(), u16::from;
    u32, 0, u32::MAX, |number| u32::try_from(number).ok(), u32::from;
    u64, 0, u64::MAX, Some, u64::from;
    usize, 0, usize::MAX, |number| usize::try_from(number).ok(), usize::from;
    NonZeroU32, 1, u32::MAX, |number| u32::try_from(number).ok().and_then(Self::new), NonZeroU32::get;
    NonZeroU64, 1, u64::MAX, Self::new, NonZeroU64::get;
    NonZeroUsize, 1, usize::MAX, |number| usize::try_from(number).ok().and_then(Self::new), NonZeroUsize::get;
}

impl Decode for f64 {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let finite = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
        match node.as_plain().and_then(finite) {
            Some(number) => Some(number),
            None => node.wrong("a number", unquote(node, |text| finite(text).is_some()), problems),
        }
    }

    fn schema(definitions: &mut Definitions) -> Value {
        definitions.or_variable(json!({"type": "number"}))
    }

    fn written(&self) -> Option<Value> {
        Some((*self).into())
    }
}

impl Decode for String {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        node.expect_text("a text", problems).map(|text| text.value)
    }

    fn schema(_: &mut Definitions) -> Value {
        json!({"type": "string"})
    }

    fn written(&self) -> Option<Value> {
        Some(self.as_str().into())
    }
}

/// The remedy for an expression that YAML parsed as a map or a list.
const UNQUOTED: &str = "put the whole expression in quotes: without them, YAML reads `{` and `[` itself";

/// A jq expression, or the closure that a Rust program uses instead.
#[derive(Clone, Debug)]
pub struct ExpressionSpec(
    /// The text.
    pub Located<String>,
    /// From a Rust program: a compiled expression, or a closure.
    pub Option<OpaqueExpression>,
);

/// An opaque value; only the code that runs expressions knows its type.
pub type OpaqueExpression = Arc<dyn Any + Send + Sync>;

impl ExpressionSpec {
    /// A text as an expression, unchanged.
    pub fn plain(text: Located<String>) -> Self {
        Self(text, None)
    }

    /// A text as an expression; the values of variables in it stay values.
    pub fn of(text: Located<String>, problems: &mut Problems) -> Option<Self> {
        insert::guard(text, problems).map(Self::plain)
    }
}

impl Decode for ExpressionSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        const WANTED: &str = "a jq expression";
        match &node.kind {
            NodeKind::Map(_) | NodeKind::List(_) => node.wrong(WANTED, UNQUOTED, problems),
            NodeKind::Null => node.wrong(WANTED, "write `.` for the item as it is, `'null'` for null", problems),
            NodeKind::Scalar { .. } => Self::of(node.as_text()?, problems),
        }
    }

    fn schema(_: &mut Definitions) -> Value {
        json!({"type": "string", "contentMediaType": "application/jq"})
    }

    fn written(&self) -> Option<Value> {
        Some(self.0.as_str().into())
    }
}
