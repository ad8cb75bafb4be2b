//! From what is written to typed specs: nodes with places, decoders that gather every problem, and the schema.

use indexmap::IndexMap;

use crate::problem::{Problems, Span};

/// A piece of the written configuration, with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub kind: NodeKind,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Nothing, `null` or `~`.
    Null,
    /// A scalar, as text, and whether it was quoted (then it is never a number or a bool).
    Scalar {
        /** its text */
        text: String,
        /** quoted */
        quoted: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A map, in order; keys carry their own place.
    Map(Vec<(Located<String>, Node)>),
}

/// A value with the place where it is written.
#[derive(Clone, Debug)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub span: Span,
}

/// What can be written in a configuration.
pub trait Decode: Sized {
    /// Reads it from a node; notes every problem and answers `None` if there was an error.
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self>;

    /// Its JSON Schema (draft 2020-12).
    fn schema() -> serde_json::Value;
}

/// A map whose keys the operator chooses.
pub type Entries<T> = IndexMap<String, (Span, T)>;
