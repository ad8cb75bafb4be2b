//! The syntax tree of an expression.

use crate::json::value::{self, Value};

/// A filter. It turns one value into any number of values.
#[derive(Clone, Debug)]
pub enum Term<'s> {
    /// `.`
    Id,
    /// `..`
    Recurse,
    /// A number, as written.
    Number(&'s str),
    /// A string, with a format such as `@uri` for the values in it.
    Text(Option<&'s str>, Vec<Piece<'s>>),
    /// `@uri` alone.
    Format(&'s str),
    /// `[…]`
    List(Option<Box<Self>>),
    /// `{…}`: keys and values. A key without a value takes the field of that name.
    Object(Vec<(Self, Option<Self>)>),
    /// `-x`
    Negate(Box<Self>),
    /// `x | y`
    Pipe(Box<Self>, Box<Self>),
    /// `x, y`
    Comma(Box<Self>, Box<Self>),
    /// `x + y` and similar.
    Binary(Box<Self>, Operator, Box<Self>),
    /// `x as $y ?// [$y] | z`
    Bind(Box<Self>, Vec<Pattern<'s>>, Box<Self>),
    /// `reduce` and `foreach`.
    Fold(Box<Fold<'s>>),
    /// `if`, with each condition and its branch, and `else`.
    If(Vec<(Self, Self)>, Option<Box<Self>>),
    /// `try`, `catch`; also `x?`.
    Try(Box<Self>, Option<Box<Self>>),
    /// `label $x | y`
    Label(&'s str, Box<Self>),
    /// `break $x`
    Break(&'s str),
    /// `def f: x; y`
    Define(Box<Definition<'s>>, Box<Self>),
    /// `f(x; y)`
    Call(&'s str, Vec<Self>),
    /// `$x`, including the `$`.
    Variable(&'s str),
    /// `$__loc__`, with its line.
    Location(usize),
    /// `x.a[0][1:]?`
    Path(Box<Self>, Vec<(Part<'s>, Missing)>),
}

#[derive(Clone, Debug)]
pub enum Part<'s> {
    /// `.a`, `["a"]`, `[0]`
    Index(Term<'s>),
    /// `[x:y]`
    Slice(Option<Term<'s>>, Option<Term<'s>>),
    /// `[]`
    Each,
}

/// The behaviour if a part of a path does not fit the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// An error.
    Fails,
    /// No output: `?` follows the part.
    Skipped,
}

#[derive(Clone, Debug)]
pub enum Piece<'s> {
    /// A key as it is in the source.
    Plain(&'s str),
    /// An escaped character.
    Escaped(char),
    /// `\(x)`
    Term(Term<'s>),
}

/// `reduce source as patterns (start; update)`, `foreach source as patterns (start; update; extract)`.
#[derive(Clone, Debug)]
pub struct Fold<'s> {
    /// Whether every state is an output.
    pub each: bool,
    pub source: Term<'s>,
    pub patterns: Vec<Pattern<'s>>,
    pub start: Term<'s>,
    pub update: Term<'s>,
    pub extract: Option<Term<'s>>,
}

#[derive(Clone, Debug)]
pub enum Pattern<'s> {
    /// `$x`
    Variable(&'s str),
    /// `[$x, $y]`
    List(Vec<Self>),
    /// `{a: $x, $y, $z: [$a]}`
    Object(Vec<(Key<'s>, Option<Self>)>),
}

#[derive(Clone, Debug)]
pub enum Key<'s> {
    /// `$x`: the field of that name, and a variable.
    Variable(&'s str),
    /// A term whose output is the key.
    Term(Term<'s>),
}

/// `def name(parameters): body;`
#[derive(Clone, Debug)]
pub struct Definition<'s> {
    pub name: &'s str,
    /// With `$` if it is a value.
    pub parameters: Vec<&'s str>,
    pub body: Term<'s>,
}

/// The operator between two terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Alternative,
    Or,
    And,
    Math(Math),
    Compare(Compare),
    /// `=`
    Assign,
    /// `+=` and similar.
    Update,
    /// `+=` and the like.
    UpdateMath(Math),
    /// `//=`
    UpdateAlternative,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Math {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl<'s> Term<'s> {
    /// A string exactly as given.
    pub fn plain(text: &'s str) -> Self {
        Term::Text(None, vec![Piece::Plain(text)])
    }

    /// The text, if no part of it is computed.
    pub fn text(&self) -> Option<String> {
        let Term::Text(None, pieces) = self else { return None };
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Plain(piece) => text.push_str(piece),
                Piece::Escaped(character) => text.push(*character),
                Piece::Term(_) => return None,
            }
        }
        Some(text)
    }

    /// The number, if it is an integer that fits a machine word.
    pub fn integer(&self) -> Option<isize> {
        match self {
            Term::Number(digits) => digits.parse().ok(),
            Term::Negate(inner) => inner.integer().map(|number| -number),
            _ => None,
        }
    }
}

impl<'s> Pattern<'s> {
    /// The variables that it binds, in order.
    pub fn variables(&self, out: &mut Vec<&'s str>) {
        match self {
            Pattern::Variable(name) => out.push(name),
            Pattern::List(inner) => inner.iter().for_each(|inner| inner.variables(out)),
            Pattern::Object(entries) => entries.iter().for_each(|(key, inner)| {
                if let Key::Variable(name) = key {
                    out.push(name);
                }
                inner.iter().for_each(|inner| inner.variables(out));
            }),
        }
    }

    fn keys<'a>(&'a self, visit: &mut dyn FnMut(&'a Term<'s>)) {
        match self {
            Pattern::Variable(_) => {}
            Pattern::List(inner) => inner.iter().for_each(|inner| inner.keys(visit)),
            Pattern::Object(entries) => entries.iter().for_each(|(key, inner)| {
                if let Key::Term(key) = key {
                    visit(key);
                }
                inner.iter().for_each(|inner| inner.keys(visit));
            }),
        }
    }
}

/// A number from its literal. `.5` and `5.` are not JSON, but jq accepts them.
pub fn number(literal: &str) -> Value {
    let (digits, exponent) = literal.find(['e', 'E']).map_or((literal, ""), |at| literal.split_at(at));
    let zero = if digits.starts_with('.') { "0" } else { "" };
    let digits = digits.strip_suffix('.').unwrap_or(digits);
    let whole = digits.trim_start_matches('0');
    let digits = if whole.is_empty() || whole.starts_with('.') { digits } else { whole };
    match (zero, digits.strip_prefix("00")) {
        ("", None) => value::number(&format!("{digits}{exponent}")),
        _ => {
            let fraction = digits.trim_start_matches('0');
            value::number(&format!("0{fraction}{exponent}"))
        }
    }
}

/// Runs `visit` on the terms directly within a term.
pub fn within<'a, 's>(term: &'a Term<'s>, visit: &mut dyn FnMut(&'a Term<'s>)) {
    match term {
        Term::Id | Term::Recurse | Term::Number(_) | Term::Format(_) | Term::List(None) => {}
        Term::Break(_) | Term::Variable(_) | Term::Location(_) => {}
        Term::Text(_, pieces) => pieces.iter().for_each(|piece| {
            if let Piece::Term(inner) = piece {
                visit(inner);
            }
        }),
        Term::List(Some(inner)) | Term::Negate(inner) | Term::Label(_, inner) => visit(inner),
        Term::Object(entries) => entries.iter().for_each(|(key, value)| {
            visit(key);
            value.iter().for_each(&mut *visit);
        }),
        Term::Pipe(left, right) | Term::Comma(left, right) | Term::Binary(left, _, right) => {
            visit(left);
            visit(right);
        }
        Term::Bind(source, patterns, body) => {
            visit(source);
            patterns.iter().for_each(|pattern| pattern.keys(visit));
            visit(body);
        }
        Term::Fold(fold) => {
            visit(&fold.source);
            fold.patterns.iter().for_each(|pattern| pattern.keys(visit));
            visit(&fold.start);
            visit(&fold.update);
            fold.extract.iter().for_each(visit);
        }
        Term::Try(inner, catch) => {
            visit(inner);
            catch.iter().for_each(|catch| visit(catch));
        }
        Term::If(branches, otherwise) => {
            branches.iter().for_each(|(condition, then)| {
                visit(condition);
                visit(then);
            });
            otherwise.iter().for_each(|otherwise| visit(otherwise));
        }
        Term::Define(definition, inner) => {
            visit(&definition.body);
            visit(inner);
        }
        Term::Call(_, arguments) => arguments.iter().for_each(visit),
        Term::Path(head, parts) => {
            visit(head);
            parts.iter().for_each(|(part, _)| match part {
                Part::Index(index) => visit(index),
                Part::Slice(from, to) => from.iter().chain(to).for_each(&mut *visit),
                Part::Each => {}
            });
        }
    }
}

/// Visits the terms that are keys in the patterns of a `reduce`, `foreach` or `as`.
pub fn keys<'a, 's>(patterns: &'a [Pattern<'s>], visit: &mut dyn FnMut(&'a Term<'s>)) {
    patterns.iter().for_each(|pattern| pattern.keys(visit));
}

/// How deep the syntax of a term nests.
pub fn nesting(term: &Term<'_>) -> usize {
    let mut deepest = 0;
    within(term, &mut |inner| deepest = deepest.max(nesting(inner)));
    // Each part of a path adds a level, and so does each branch of an `if`.
    let more = match term {
        Term::Path(_, parts) => parts.len(),
        Term::If(branches, _) => branches.len(),
        _ => 1,
    };
    deepest + more
}

/// Whether a term may read the item, its input. The term after a pipe reads only the output of the term before it.
pub fn reads(term: &Term<'_>) -> bool {
    match term {
        Term::Id | Term::Recurse | Term::Format(_) => true,
        // A definition of the operator may read the input. Of the library's functions, these do not.
        Term::Call(name, arguments) => {
            !matches!(*name, "empty" | "true" | "false" | "null" | "range" | "nan" | "infinite" | "now")
                && (*name != "error" || arguments.is_empty())
                || arguments.iter().any(reads)
        }
        Term::Pipe(left, _) => reads(left),
        Term::Binary(
            _,
            Operator::Assign | Operator::Update | Operator::UpdateMath(_) | Operator::UpdateAlternative,
            _,
        ) => true,
        Term::Fold(fold) => {
            let mut looks = reads(&fold.source) || reads(&fold.start);
            keys(&fold.patterns, &mut |key| looks |= reads(key));
            // The other parts read outputs of earlier parts; only the source reads the input.
            looks
        }
        // The handler of an error reads only the error.
        Term::Try(inner, _) => reads(inner),
        // A key without a value reads the field of that name; `{$name}` does not.
        Term::Object(entries) => entries.iter().any(|(key, value)| match value {
            Some(value) => reads(key) || reads(value),
            None => !matches!(key, Term::Variable(_) | Term::Location(_)),
        }),
        Term::Define(_, inner) => reads(inner),
        Term::If(_, None) => true,
        _ => {
            let mut looks = false;
            within(term, &mut |inner| looks |= reads(inner));
            looks
        }
    }
}
