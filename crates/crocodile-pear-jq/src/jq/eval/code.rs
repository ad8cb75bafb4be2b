//! An expression with its names resolved, ready to run.

use crate::jq::syntax::ast::{Compare, Math, Missing};
use crate::jq::value::bounded::Item;
use crate::jq::value::operators::ItemR;
use crate::json::value::Value;

#[derive(Debug)]
pub struct Node {
    pub code: Code,
    /// Whether it has exactly one output, or fails.
    pub single: bool,
}

/// The action of a step. Variables are numbered from the innermost.
#[derive(Debug)]
pub enum Code {
    Id,
    Recurse,
    Constant(Value),
    /// A variable from outside, by its number.
    Global(usize),
    Variable(usize),
    Parameter(usize),
    /// Strings to join.
    Text(Box<[Node]>),
    /// Formats the output of a step.
    Format(Format, Box<Node>),
    List(Box<Node>),
    Object(Box<[(Node, Node)]>),
    Negate(Box<Node>),
    Pipe(Box<Node>, Box<Node>),
    Comma(Box<Node>, Box<Node>),
    Alternative(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Math(Box<Node>, Math, Box<Node>),
    Compare(Box<Node>, Compare, Box<Node>),
    Bind(Box<Bind>),
    Fold(Box<Fold>),
    If(Box<Node>, Box<Node>, Box<Node>),
    Try(Box<Node>, Option<Box<Node>>),
    Label(Box<Node>),
    Break(usize),
    Index(Box<Node>, Box<Node>, Missing),
    Slice(Box<Node>, Box<Node>, Box<Node>, Missing),
    Each(Box<Node>, Missing),
    /// `=`
    Assign(Box<Node>, Box<Node>),
    /// `|=`
    Update(Box<Node>, Box<Node>),
    /// `+=` and similar: the right side is evaluated first.
    UpdateMath(Box<Node>, Math, Box<Node>),
    UpdateAlternative(Box<Node>, Box<Node>),
    /// A call of a definition, by number. Its outer scope begins this many variables up, or is empty.
    Call(usize, Option<usize>, Box<[Node]>),
    /// A function of its input and the values of its arguments.
    Native(Native, Box<[Node]>),
    /// A function that runs its arguments itself.
    Form(Form, Box<[Node]>),
}

/// A function of its input and the values of its arguments.
pub type Native = fn(Item, &[Item]) -> ItemR;

/// `source as patterns | body`
#[derive(Debug)]
pub struct Bind {
    pub source: Node,
    pub patterns: Patterns,
    pub body: Node,
}

/// `reduce` and `foreach`.
#[derive(Debug)]
pub struct Fold {
    pub each: bool,
    pub source: Node,
    pub patterns: Patterns,
    pub start: Node,
    pub update: Node,
    pub extract: Option<Node>,
}

/// Alternative patterns. The next one is tried if a pattern, or the code after it, fails.
#[derive(Debug)]
pub struct Patterns {
    pub first: Shape,
    /// For each pattern, including the first: where each variable of any pattern is bound, counted from the first
    /// variable of this pattern.
    pub others: Vec<Shape>,
    pub places: Vec<Vec<Option<usize>>>,
}

#[derive(Debug)]
pub enum Shape {
    Variable,
    List(Vec<Shape>),
    Object(Vec<Entry>),
}

#[derive(Debug)]
pub struct Entry {
    pub key: Node,
    /// Whether the field itself is bound.
    pub bound: bool,
    pub inner: Option<Shape>,
}

#[derive(Debug)]
pub struct Function {
    pub body: Node,
}

/// How a value becomes text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    Csv,
    Tsv,
    Html,
    Uri,
    UriDecoded,
    Sh,
    Base64,
    Base64Decoded,
    Base32,
    Base32Decoded,
}

/// Functions that run their arguments themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Empty,
    Error,
    Path,
    GetPath,
    First,
    Last,
    Limit,
    Skip,
    Until,
    While,
    Repeat,
    Recurse,
    Range,
    SortBy,
    GroupBy,
    UniqueBy,
    MinBy,
    MaxBy,
    Walk,
    ToStream,
    Builtins,
}

/// Name, number of arguments, and the function.
pub type Named = ((&'static str, usize), Native);
