//! Turns a term into code: resolves names, and rejects everything without a bound.

use std::collections::HashMap;

use super::library;
use crate::jq::eval::code::{Bind, Code, Entry, Fold, Form, Format, Function, Node, Patterns, Shape};
use crate::jq::syntax::ast::{self, Definition, Key, Missing, Operator, Part, Pattern, Piece, Term};
use crate::jq::value::budget::{self, Budget};
use crate::jq::value::operators;
use crate::json::value::{self, Value};

/// A fault of an expression, at a part of its source.
pub enum Wrong<'s> {
    Variable(&'s str),
    Label(&'s str),
    Function(&'s str, usize),
    Format(&'s str),
    Recursive(&'s str),
    Reserved(&'s str),
}

/// The author of the definitions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Author {
    /// We: our definitions may call themselves, and are trusted to end.
    Library,
    Operator,
}

/// The names bound at the current position, outermost first.
enum Bound<'s> {
    Variable(&'s str),
    Parameter(&'s str),
    Label(&'s str),
}

/// A definition in scope.
struct Known<'s> {
    name: &'s str,
    arity: usize,
    id: usize,
    /// The number of bound names at its position.
    level: usize,
    /// Whether its body is being resolved. A call then would be a recursion.
    open: bool,
}

pub struct Resolver<'s> {
    author: Author,
    bound: Vec<Bound<'s>>,
    /// Each with the number of names bound when it came into scope: inner names hide outer ones.
    known: Vec<Known<'s>>,
    outside: &'s [&'s str],
    library: HashMap<(&'static str, usize), usize>,
    functions: Vec<Option<Function>>,
    /// Outside variables that are used, in order.
    pub uses: Vec<String>,
    pub wrong: Vec<Wrong<'s>>,
}

fn node(code: Code, single: bool) -> Node {
    Node { code, single }
}

fn boxed(node: Node) -> Box<Node> {
    Box::new(node)
}

/// A step that always gives this value.
fn constant(value: Value) -> Node {
    node(Code::Constant(value), true)
}

impl<'s> Resolver<'s> {
    /// A resolver with only the library and these variables in scope.
    pub fn new(outside: &'s [&'s str]) -> Self {
        Resolver {
            author: Author::Operator,
            bound: Vec::new(),
            known: Vec::new(),
            outside,
            library: HashMap::new(),
            functions: Vec::new(),
            uses: Vec::new(),
            wrong: Vec::new(),
        }
    }

    /// The definitions that the code calls.
    pub fn functions(&mut self) -> Vec<Function> {
        std::mem::take(&mut self.functions).into_iter().flatten().collect()
    }

    pub fn term(&mut self, term: &Term<'s>) -> Node {
        match term {
            Term::Id => node(Code::Id, true),
            Term::Recurse => node(Code::Recurse, false),
            Term::Number(digits) => constant(ast::number(digits)),
            Term::Location(line) => {
                constant(value::object([("file", value::string("<top-level>")), ("line", Value::from(*line))]))
            }
            Term::Text(format, pieces) => self.text(*format, pieces),
            Term::Format(name) => {
                let format = self.format(name);
                node(Code::Format(format, boxed(node(Code::Id, true))), true)
            }
            Term::List(None) => constant(value::list(Vec::new())),
            Term::List(Some(inner)) => {
                let inner = self.term(inner);
                node(Code::List(boxed(inner)), true)
            }
            Term::Object(entries) => self.object(entries),
            Term::Negate(inner) => self.negate(inner),
            Term::Pipe(left, right) => {
                let (left, right) = (self.term(left), self.term(right));
                let single = left.single && right.single;
                node(Code::Pipe(boxed(left), boxed(right)), single)
            }
            Term::Comma(left, right) => {
                let (left, right) = (self.term(left), self.term(right));
                node(Code::Comma(boxed(left), boxed(right)), false)
            }
            Term::Binary(left, operator, right) => self.binary(left, *operator, right),
            Term::Bind(source, patterns, body) => self.bind(source, patterns, body),
            Term::Fold(fold) => self.fold(fold),
            Term::If(branches, otherwise) => self.condition(branches, otherwise.as_deref()),
            Term::Try(body, catch) => {
                let body = self.term(body);
                let catch = catch.as_ref().map(|catch| boxed(self.term(catch)));
                node(Code::Try(boxed(body), catch), false)
            }
            Term::Label(name, body) => {
                self.bound.push(Bound::Label(name));
                let body = self.term(body);
                self.bound.pop();
                node(Code::Label(boxed(body)), false)
            }
            Term::Break(name) => {
                let found = self.up(|bound| matches!(bound, Bound::Label(label) if label == name));
                if found.is_none() {
                    self.wrong.push(Wrong::Label(name));
                }
                node(Code::Break(found.unwrap_or(0)), false)
            }
            Term::Define(definition, body) => {
                self.define(definition);
                let body = self.term(body);
                self.known.pop();
                body
            }
            Term::Call(name, arguments) => self.call(name, arguments),
            Term::Variable(name) => self.variable(name),
            Term::Path(head, parts) => self.path(head, parts),
        }
    }

    /// How many scopes further out a name is bound.
    fn up(&self, wanted: impl Fn(&Bound<'s>) -> bool) -> Option<usize> {
        self.bound.iter().rev().position(wanted)
    }

    fn format(&mut self, name: &'s str) -> Format {
        match library::format::by_name(name) {
            Some(format) => format,
            None => {
                self.wrong.push(Wrong::Format(name));
                Format::Text
            }
        }
    }

    fn text(&mut self, format: Option<&'s str>, pieces: &[Piece<'s>]) -> Node {
        let format = format.map_or(Format::Text, |name| self.format(name));
        let mut steps: Vec<Node> = Vec::new();
        let mut plain = String::new();
        for piece in pieces {
            match piece {
                Piece::Plain(text) => plain.push_str(text),
                Piece::Escaped(character) => plain.push(*character),
                Piece::Term(inner) => {
                    if !plain.is_empty() {
                        steps.push(constant(value::string(&std::mem::take(&mut plain))));
                    }
                    let inner = self.term(inner);
                    let single = inner.single;
                    steps.push(node(Code::Format(format, boxed(inner)), single));
                }
            }
        }
        if steps.is_empty() {
            return constant(value::string(&plain));
        }
        if !plain.is_empty() {
            steps.push(constant(value::string(&plain)));
        }
        let single = steps.iter().all(|step| step.single);
        node(Code::Text(steps.into()), single)
    }

    fn object(&mut self, entries: &[(Term<'s>, Option<Term<'s>>)]) -> Node {
        if entries.is_empty() {
            return constant(value::fields_of(value::Fields::default()));
        }
        let mut made = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            made.push(match (key, value) {
                (Term::Variable(name), None) => (constant(value::string(&name[1..])), self.term(key)),
                (Term::Location(_), None) => (constant(value::string("__loc__")), self.term(key)),
                (key, Some(value)) => (self.term(key), self.term(value)),
                (key, None) => {
                    let field = Term::Path(Box::new(Term::Id), vec![(Part::Index(key.clone()), Missing::Fails)]);
                    (self.term(key), self.term(&field))
                }
            });
        }
        let single = made.iter().all(|(key, value)| key.single && value.single);
        node(Code::Object(made.into()), single)
    }

    fn negate(&mut self, inner: &Term<'s>) -> Node {
        let inner = self.term(inner);
        if let Code::Constant(value) = &inner.code {
            let value = crate::jq::value::bounded::Item::incoming(value.clone());
            let negated = budget::within(Budget::WHOLE, || Ok(operators::negate(value).ok()));
            if let Ok(Some(negated)) = negated {
                return constant(negated.value);
            }
        }
        let single = inner.single;
        node(Code::Negate(boxed(inner)), single)
    }

    fn binary(&mut self, left: &Term<'s>, operator: Operator, right: &Term<'s>) -> Node {
        let (left, right) = (self.term(left), self.term(right));
        let both = left.single && right.single;
        let one = right.single;
        let (left, right) = (boxed(left), boxed(right));
        match operator {
            Operator::Alternative => node(Code::Alternative(left, right), both),
            Operator::Or => node(Code::Or(left, right), both),
            Operator::And => node(Code::And(left, right), both),
            Operator::Math(math) => node(Code::Math(left, math, right), both),
            Operator::Compare(compare) => node(Code::Compare(left, compare, right), both),
            Operator::Assign => node(Code::Assign(left, right), one),
            Operator::Update => node(Code::Update(left, right), true),
            Operator::UpdateMath(math) => node(Code::UpdateMath(left, math, right), one),
            Operator::UpdateAlternative => node(Code::UpdateAlternative(left, right), one),
        }
    }

    fn bind(&mut self, source: &Term<'s>, patterns: &[Pattern<'s>], body: &Term<'s>) -> Node {
        let source = self.term(source);
        let level = self.bound.len();
        let patterns = self.patterns(patterns);
        let body = self.term(body);
        self.bound.truncate(level);
        let single =
            source.single && body.single && matches!(patterns.first, Shape::Variable) && patterns.others.is_empty();
        node(Code::Bind(Box::new(Bind { source, patterns, body })), single)
    }

    fn fold(&mut self, fold: &ast::Fold<'s>) -> Node {
        let source = self.term(&fold.source);
        let start = self.term(&fold.start);
        let level = self.bound.len();
        let patterns = self.patterns(&fold.patterns);
        let update = self.term(&fold.update);
        let extract = fold.extract.as_ref().map(|extract| self.term(extract));
        self.bound.truncate(level);
        let single = !fold.each && start.single;
        node(Code::Fold(Box::new(Fold { each: fold.each, source, patterns, start, update, extract })), single)
    }

    /// Resolves patterns, and leaves their variables bound.
    fn patterns(&mut self, patterns: &[Pattern<'s>]) -> Patterns {
        let level = self.bound.len();
        let mut shapes: Vec<Shape> = Vec::new();
        let mut names: Vec<Vec<&'s str>> = Vec::new();
        for pattern in patterns {
            self.bound.truncate(level);
            shapes.push(self.shape(pattern));
            let mut own = Vec::new();
            pattern.variables(&mut own);
            names.push(own);
        }
        let first = if shapes.is_empty() { Shape::Variable } else { shapes.remove(0) };
        if shapes.is_empty() {
            return Patterns { first, others: shapes, places: Vec::new() };
        }
        let mut all: Vec<&'s str> = Vec::new();
        names.iter().flatten().for_each(|name| {
            if !all.contains(name) {
                all.push(name);
            }
        });
        let places = names.iter().map(|own| {
            let place = |name: &&'s str| own.iter().rposition(|known| known == name);
            all.iter().map(place).collect()
        });
        let places = places.collect();
        self.bound.truncate(level);
        self.bound.extend(all.into_iter().map(Bound::Variable));
        Patterns { first, others: shapes, places }
    }

    fn shape(&mut self, pattern: &Pattern<'s>) -> Shape {
        match pattern {
            Pattern::Variable(name) => {
                self.bound.push(Bound::Variable(name));
                Shape::Variable
            }
            Pattern::List(inner) => Shape::List(inner.iter().map(|inner| self.shape(inner)).collect()),
            Pattern::Object(entries) => {
                let entry = |(key, inner): &(Key<'s>, Option<Pattern<'s>>)| {
                    let (key, bound) = match key {
                        Key::Variable(name) => {
                            self.bound.push(Bound::Variable(name));
                            (constant(value::string(&name[1..])), true)
                        }
                        Key::Term(key) => (self.term(key), false),
                    };
                    let inner = inner.as_ref().map(|inner| self.shape(inner));
                    Entry { key, bound, inner }
                };
                Shape::Object(entries.iter().map(entry).collect())
            }
        }
    }

    fn condition(&mut self, branches: &[(Term<'s>, Term<'s>)], otherwise: Option<&Term<'s>>) -> Node {
        let otherwise = otherwise.map_or_else(|| node(Code::Id, true), |otherwise| self.term(otherwise));
        branches.iter().rev().fold(otherwise, |otherwise, (condition, then)| {
            let (condition, then) = (self.term(condition), self.term(then));
            let single = condition.single && then.single && otherwise.single;
            node(Code::If(boxed(condition), boxed(then), boxed(otherwise)), single)
        })
    }

    fn path(&mut self, head: &Term<'s>, parts: &[(Part<'s>, Missing)]) -> Node {
        let mut found = self.term(head);
        for (part, missing) in parts {
            let fails = *missing == Missing::Fails;
            found = match part {
                Part::Each => node(Code::Each(boxed(found), *missing), false),
                Part::Index(key) => {
                    let key = self.term(key);
                    let single = found.single && key.single && fails;
                    node(Code::Index(boxed(found), boxed(key), *missing), single)
                }
                Part::Slice(from, to) => {
                    let mut bound = |term: &Option<Term<'s>>| {
                        term.as_ref().map_or_else(|| constant(value::null()), |it| self.term(it))
                    };
                    let (from, to) = (bound(from), bound(to));
                    let single = found.single && from.single && to.single && fails;
                    node(Code::Slice(boxed(found), boxed(from), boxed(to), *missing), single)
                }
            };
        }
        found
    }

    fn variable(&mut self, name: &'s str) -> Node {
        if let Some(up) = self.up(|bound| matches!(bound, Bound::Variable(known) if *known == name)) {
            return node(Code::Variable(up), true);
        }
        let plain = name.trim_start_matches('$');
        if self.author == Author::Library || !self.outside.contains(&plain) {
            self.wrong.push(Wrong::Variable(name));
            return constant(value::null());
        }
        let known = self.uses.iter().position(|used| used == plain);
        let number = known.unwrap_or_else(|| {
            self.uses.push(plain.to_owned());
            self.uses.len() - 1
        });
        node(Code::Global(number), true)
    }

    /// Resolves a definition and leaves it in scope.
    fn define(&mut self, definition: &Definition<'s>) {
        let id = self.functions.len();
        self.functions.push(None);
        let level = self.bound.len();
        let (name, arity) = (definition.name, definition.parameters.len());
        self.known.push(Known { name, arity, id, level, open: true });
        let body = self.body(definition);
        self.bound.truncate(level);
        self.functions[id] = Some(Function { body });
        if let Some(known) = self.known.last_mut() {
            known.open = false;
        }
    }

    fn body(&mut self, definition: &Definition<'s>) -> Node {
        let first = self.bound.len();
        for parameter in &definition.parameters {
            self.bound.push(Bound::Parameter(parameter.trim_start_matches('$')));
        }
        let values: Vec<(usize, &'s str)> =
            definition.parameters.iter().copied().enumerate().filter(|it| it.1.starts_with('$')).collect();
        let mut sources = Vec::new();
        for (at, name) in values {
            sources.push(node(Code::Parameter(self.bound.len() - 1 - (first + at)), false));
            self.bound.push(Bound::Variable(name));
        }
        let body = self.term(&definition.body);
        let patterns = || Patterns { first: Shape::Variable, others: Vec::new(), places: Vec::new() };
        sources
            .into_iter()
            .rev()
            .fold(body, |body, source| node(Code::Bind(Box::new(Bind { source, patterns: patterns(), body })), false))
    }

    fn call(&mut self, name: &'s str, arguments: &[Term<'s>]) -> Node {
        let arity = arguments.len();
        if self.author == Author::Operator && name.starts_with('_') && library::is_ours(name) {
            self.wrong.push(Wrong::Reserved(name));
        }
        let parameter =
            self.up(|bound| matches!(bound, Bound::Parameter(known) if *known == name)).filter(|_| arity == 0);
        let known = self.known.iter().rev().find(|known| known.name == name && known.arity == arity);
        // Names that were bound later are further in.
        let nearer = |up: usize, known: &Known<'s>| self.bound.len() - up > known.level;
        match (parameter, known) {
            (Some(up), known) if known.is_none_or(|known| nearer(up, known)) => node(Code::Parameter(up), false),
            (_, Some(known)) => {
                let (id, up) = (known.id, self.bound.len() - known.level);
                if known.open && self.author == Author::Operator {
                    self.wrong.push(Wrong::Recursive(name));
                }
                let arguments = self.arguments(arguments);
                self.called(id, Some(up), arguments)
            }
            _ => self.builtin(name, arguments),
        }
    }

    fn arguments(&mut self, arguments: &[Term<'s>]) -> Box<[Node]> {
        arguments.iter().map(|argument| self.term(argument)).collect()
    }

    fn called(&self, id: usize, up: Option<usize>, arguments: Box<[Node]>) -> Node {
        let single = self.functions[id].as_ref().is_some_and(|function| function.body.single);
        node(Code::Call(id, up, arguments), single)
    }

    fn builtin(&mut self, name: &'s str, arguments: &[Term<'s>]) -> Node {
        let arity = arguments.len();
        match (name, arguments) {
            ("null", []) => return constant(value::null()),
            ("true", []) => return constant(true.into()),
            ("false", []) => return constant(false.into()),
            ("select", [condition]) => {
                let condition = self.term(condition);
                let empty = node(Code::Form(Form::Empty, Box::new([])), false);
                return node(Code::If(boxed(condition), boxed(node(Code::Id, true)), boxed(empty)), false);
            }
            ("recurse", []) => return node(Code::Recurse, false),
            _ => {}
        }
        let arguments = self.arguments(arguments);
        if let Some(form) = library::form(name, arity) {
            let single = matches!(
                form,
                Form::SortBy | Form::GroupBy | Form::UniqueBy | Form::MinBy | Form::MaxBy | Form::Builtins
            );
            return node(Code::Form(form, arguments), single);
        }
        if let Some(native) = library::native(name, arity) {
            let single = arguments.iter().all(|argument| argument.single);
            return node(Code::Native(native, arguments), single);
        }
        match self.library(name, arity) {
            Some(id) => self.called(id, None, arguments),
            None => {
                self.wrong.push(Wrong::Function(name, arity));
                constant(value::null())
            }
        }
    }

    /// The number of a library definition. It is resolved at its first call.
    fn library(&mut self, name: &str, arity: usize) -> Option<usize> {
        let definition = library::definition(name, arity)?;
        let known = (definition.name, arity);
        if let Some(id) = self.library.get(&known) {
            return Some(*id);
        }
        let id = self.functions.len();
        self.functions.push(None);
        self.library.insert(known, id);
        let mut inner = Resolver {
            author: Author::Library,
            bound: Vec::new(),
            known: Vec::new(),
            outside: &[],
            library: std::mem::take(&mut self.library),
            functions: std::mem::take(&mut self.functions),
            uses: Vec::new(),
            wrong: Vec::new(),
        };
        let body = inner.body(definition);
        debug_assert!(inner.wrong.is_empty(), "the library resolves: {name}");
        self.library = inner.library;
        self.functions = inner.functions;
        self.functions[id] = Some(Function { body });
        Some(id)
    }
}
