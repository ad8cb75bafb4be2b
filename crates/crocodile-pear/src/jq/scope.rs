//! Walks an expression before it is compiled: resolves its names, refuses what has no bound, sets the meters.

use std::collections::{HashMap, HashSet};

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::path::Part;

use super::library::{FOLD, NODE, TICK};

/// Levels that an evaluation may nest, definitions expanded: each costs up to 2 KiB of stack.
pub const NESTING: usize = 400;

/// What is wrong with an expression, at a part of its source.
pub enum Wrong<'s> {
    Variable(&'s str),
    Label(&'s str),
    Function(&'s str, usize),
    Recursive(&'s str),
    Reserved(&'s str),
}

/// How deep a term nests, given how deep its parameters do.
#[derive(Clone, Default)]
struct Depth {
    own: usize,
    /// At what depth each parameter is run.
    parameters: HashMap<usize, usize>,
}

impl Depth {
    fn deeper(mut self, levels: usize) -> Self {
        self.own = self.own.saturating_add(levels);
        self.parameters.values_mut().for_each(|at| *at = at.saturating_add(levels));
        self
    }

    fn and(mut self, other: Depth) -> Self {
        self.own = self.own.max(other.own);
        for (parameter, at) in other.parameters {
            let known = self.parameters.entry(parameter).or_default();
            *known = (*known).max(at);
        }
        self
    }
}

#[derive(Clone)]
enum Callee {
    Parameter(usize),
    /// A definition whose body is being read: to call it is to recurse.
    Open,
    Known(Vec<usize>, Depth),
}

/// Whose definitions are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// Ours and the engine's: they may loop, and are trusted to end otherwise.
    Library,
    /// The operator's.
    Operator,
}

/// The names in sight.
pub struct Scope<'s> {
    author: Author,
    functions: Vec<(&'s str, usize, Callee)>,
    natives: HashSet<(&'static str, usize)>,
    variables: Vec<&'s str>,
    labels: Vec<&'s str>,
    known: &'s [&'s str],
    parameters: usize,
    /// Variables from outside that are used, in order.
    pub uses: Vec<String>,
    /// Everything that is wrong.
    pub wrong: Vec<Wrong<'s>>,
}

impl<'s> Scope<'s> {
    /// Nothing but natives in sight, and the variables that are given.
    pub fn new(natives: HashSet<(&'static str, usize)>, known: &'s [&'s str]) -> Self {
        Scope {
            author: Author::Library,
            functions: Vec::new(),
            natives,
            variables: Vec::new(),
            labels: Vec::new(),
            known,
            parameters: 0,
            uses: Vec::new(),
            wrong: Vec::new(),
        }
    }

    /// Takes in the definitions of the library.
    pub fn library(&mut self, definitions: &mut [Def<&'s str>]) {
        definitions.iter_mut().for_each(|def| self.define(def));
    }

    /// Reads the operator's expression; gives how deep it nests.
    pub fn expression(&mut self, term: &mut Term<&'s str>) -> usize {
        self.author = Author::Operator;
        self.term(term).own
    }

    /// The functions in sight, for the remedy of a fault.
    pub fn functions(&self) -> impl Iterator<Item = (&str, usize)> {
        let defined = self.functions.iter().map(|(name, arity, _)| (*name, *arity));
        defined.chain(self.natives.iter().copied()).filter(|(name, _)| !name.starts_with("__"))
    }

    fn term(&mut self, term: &mut Term<&'s str>) -> Depth {
        let depth = match term {
            Term::Id | Term::Recurse | Term::Num(_) | Term::Arr(None) => Depth::default(),
            Term::Str(format, parts) => self.string(*format, parts),
            Term::Arr(Some(inner)) | Term::Neg(inner) => self.term(inner),
            Term::Obj(entries) => self.object(entries),
            Term::BinOp(left, op, right) => self.operation(left, op, right),
            Term::Label(name, inner) => {
                self.labels.push(name);
                let depth = self.term(inner);
                self.labels.pop();
                depth
            }
            Term::Break(name) => {
                if !self.labels.contains(name) {
                    self.wrong.push(Wrong::Label(name));
                }
                Depth::default()
            }
            Term::Fold(_, items, pattern, arguments) => self.fold(items, pattern, arguments),
            Term::TryCatch(inner, catch) => {
                let depth = self.term(inner);
                catch.iter_mut().fold(depth, |depth, catch| depth.and(self.term(catch)))
            }
            Term::IfThenElse(branches, otherwise) => {
                // Each branch stands within the one before.
                let depth = Depth { own: branches.len(), ..Depth::default() };
                let depth = branches
                    .iter_mut()
                    .fold(depth, |depth, (condition, then)| depth.and(self.term(condition)).and(self.term(then)));
                let count = branches.len();
                otherwise.iter_mut().fold(depth, |depth, otherwise| depth.and(self.term(otherwise))).deeper(count)
            }
            Term::Def(definitions, inner) => {
                let before = self.functions.len();
                definitions.iter_mut().for_each(|def| self.define(def));
                let depth = self.term(inner);
                self.functions.truncate(before);
                depth
            }
            Term::Call(name, arguments) => self.call(name, arguments),
            Term::Var(name) => {
                self.variable(name);
                Depth::default()
            }
            Term::Path(head, path) => {
                let depth = self.term(head).deeper(path.0.len());
                path.0.iter_mut().fold(depth, |depth, (part, _)| match part {
                    Part::Index(index) => depth.and(self.term(index)),
                    Part::Range(start, end) => {
                        start.iter_mut().chain(end).fold(depth, |depth, bound| depth.and(self.term(bound)))
                    }
                })
            }
        };
        if let Term::Recurse = term {
            let node = Term::Call(NODE, Vec::new());
            *term = Term::BinOp(Box::new(Term::Recurse), BinaryOp::Pipe(None), Box::new(node));
        }
        // Branches multiply without doing anything else: (.,.) | (.,.) | …
        if self.author == Author::Operator && matches!(term, Term::BinOp(_, BinaryOp::Comma, _)) {
            meter(TICK, term);
        }
        depth.deeper(1)
    }

    fn operation(&mut self, left: &mut Term<&'s str>, op: &mut BinaryOp<&'s str>, right: &mut Term<&'s str>) -> Depth {
        let depth = self.term(left);
        let BinaryOp::Pipe(Some(pattern)) = op else { return depth.and(self.term(right)) };
        let depth = depth.and(self.pattern(pattern));
        depth.and(self.bound(pattern, |scope| scope.term(right)))
    }

    fn string(&mut self, format: Option<&'s str>, parts: &mut [StrPart<&'s str, Term<&'s str>>]) -> Depth {
        let mut depth = format.map_or_else(Depth::default, |format| self.call(format, &mut []));
        for part in parts.iter_mut() {
            if let StrPart::Term(inner) = part {
                depth = depth.and(self.term(inner));
            }
        }
        // The parts become a chain of additions.
        depth.deeper(parts.len())
    }

    fn object(&mut self, entries: &mut [(Term<&'s str>, Option<Term<&'s str>>)]) -> Depth {
        let depth = entries.iter_mut().fold(Depth::default(), |depth, (key, value)| {
            let depth = depth.and(self.term(key));
            value.iter_mut().fold(depth, |depth, value| depth.and(self.term(value)))
        });
        depth.deeper(entries.len())
    }

    fn fold(
        &mut self,
        items: &mut Term<&'s str>,
        pattern: &mut Pattern<&'s str>,
        arguments: &mut [Term<&'s str>],
    ) -> Depth {
        let mut depth = self.term(items).and(self.pattern(pattern));
        let Some((start, steps)) = arguments.split_first_mut() else { return depth };
        depth = depth.and(self.term(start));
        depth = depth.and(self.bound(pattern, |scope| {
            steps.iter_mut().fold(Depth::default(), |depth, inner| depth.and(scope.term(inner)))
        }));
        if let Some(update) = steps.first_mut() {
            meter(FOLD, update);
        }
        depth
    }

    fn pattern(&mut self, pattern: &mut Pattern<&'s str>) -> Depth {
        match pattern {
            Pattern::Var(_) => Depth::default(),
            Pattern::Arr(inner) => {
                inner.iter_mut().fold(Depth::default(), |depth, inner| depth.and(self.pattern(inner)))
            }
            Pattern::Obj(entries) => entries
                .iter_mut()
                .fold(Depth::default(), |depth, (key, inner)| depth.and(self.term(key)).and(self.pattern(inner))),
        }
        .deeper(1)
    }

    fn bound<T>(&mut self, pattern: &Pattern<&'s str>, inner: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.variables.len();
        names(pattern, &mut self.variables);
        let result = inner(self);
        self.variables.truncate(before);
        result
    }

    fn variable(&mut self, name: &'s str) {
        let plain = name.trim_start_matches('$');
        if self.variables.contains(&name) {
            return;
        }
        if !self.known.contains(&plain) {
            return self.wrong.push(Wrong::Variable(name));
        }
        if !self.uses.iter().any(|used| used == plain) {
            self.uses.push(plain.to_owned());
        }
    }

    fn define(&mut self, def: &mut Def<&'s str>) {
        let (functions, variables) = (self.functions.len(), self.variables.len());
        let mut parameters = Vec::new();
        for argument in &def.args {
            parameters.push(self.parameters);
            if argument.starts_with('$') {
                self.variables.push(argument);
            } else {
                self.functions.push((argument, 0, Callee::Parameter(self.parameters)));
            }
            self.parameters += 1;
        }
        self.functions.push((def.name, def.args.len(), Callee::Open));
        let depth = self.term(&mut def.body);
        self.functions.truncate(functions);
        self.variables.truncate(variables);
        // Definitions that call each other twice double the work at each step.
        if self.author == Author::Operator {
            meter(TICK, &mut def.body);
        }
        self.functions.push((def.name, def.args.len(), Callee::Known(parameters, depth)));
    }

    fn call(&mut self, name: &'s str, arguments: &mut [Term<&'s str>]) -> Depth {
        if self.author == Author::Operator && name.starts_with("__") {
            self.wrong.push(Wrong::Reserved(name));
        }
        let given: Vec<Depth> = arguments.iter_mut().map(|argument| self.term(argument)).collect();
        let arity = given.len();
        let found = self.functions.iter().rev().find(|(known, n, _)| *known == name && *n == arity);
        match found.map(|(_, _, callee)| callee.clone()) {
            Some(Callee::Parameter(id)) => Depth { own: 0, parameters: HashMap::from([(id, 0)]) },
            Some(Callee::Known(parameters, mut depth)) => {
                let mut total = Depth::default();
                for (id, argument) in parameters.iter().zip(given) {
                    let at = depth.parameters.remove(id).unwrap_or(0);
                    total = total.and(argument.deeper(at));
                }
                total.and(depth).deeper(1)
            }
            Some(Callee::Open) => {
                if self.author == Author::Operator {
                    self.wrong.push(Wrong::Recursive(name));
                }
                Depth::default()
            }
            None => {
                if !self.natives.iter().any(|known| *known == (name, arity)) {
                    self.wrong.push(Wrong::Function(name, arity));
                }
                given.into_iter().fold(Depth::default(), Depth::and).deeper(2)
            }
        }
    }
}

/// Puts a meter before a term.
fn meter(name: &'static str, term: &mut Term<&str>) {
    let inner = std::mem::take(term);
    *term = Term::BinOp(Box::new(Term::Call(name, Vec::new())), BinaryOp::Pipe(None), Box::new(inner));
}

fn names<'s>(pattern: &Pattern<&'s str>, out: &mut Vec<&'s str>) {
    match pattern {
        Pattern::Var(name) => out.push(name),
        Pattern::Arr(inner) => inner.iter().for_each(|inner| names(inner, out)),
        Pattern::Obj(entries) => entries.iter().for_each(|(_, inner)| names(inner, out)),
    }
}

/// Runs `visit` on the terms directly within a term.
fn within<'a, 's>(term: &'a Term<&'s str>, visit: &mut dyn FnMut(&'a Term<&'s str>)) {
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Arr(None) | Term::Break(_) | Term::Var(_) => {}
        Term::Str(_, parts) => parts.iter().for_each(|part| {
            if let StrPart::Term(inner) = part {
                visit(inner);
            }
        }),
        Term::Arr(Some(inner)) | Term::Neg(inner) | Term::Label(_, inner) => visit(inner),
        Term::Obj(entries) => entries.iter().for_each(|(key, value)| {
            visit(key);
            value.iter().for_each(&mut *visit);
        }),
        Term::BinOp(left, op, right) => {
            visit(left);
            if let BinaryOp::Pipe(Some(pattern)) = op {
                keys(pattern, visit);
            }
            visit(right);
        }
        Term::Fold(_, items, pattern, arguments) => {
            visit(items);
            keys(pattern, visit);
            arguments.iter().for_each(visit);
        }
        Term::TryCatch(inner, catch) => {
            visit(inner);
            catch.iter().for_each(|catch| visit(catch));
        }
        Term::IfThenElse(branches, otherwise) => {
            branches.iter().for_each(|(condition, then)| {
                visit(condition);
                visit(then);
            });
            otherwise.iter().for_each(|otherwise| visit(otherwise));
        }
        Term::Def(definitions, inner) => {
            definitions.iter().for_each(|def| visit(&def.body));
            visit(inner);
        }
        Term::Call(_, arguments) => arguments.iter().for_each(visit),
        Term::Path(head, path) => {
            visit(head);
            path.0.iter().for_each(|(part, _)| match part {
                Part::Index(index) => visit(index),
                Part::Range(start, end) => start.iter().chain(end).for_each(&mut *visit),
            });
        }
    }
}

fn keys<'a, 's>(pattern: &'a Pattern<&'s str>, visit: &mut dyn FnMut(&'a Term<&'s str>)) {
    match pattern {
        Pattern::Var(_) => {}
        Pattern::Arr(inner) => inner.iter().for_each(|inner| keys(inner, visit)),
        Pattern::Obj(entries) => entries.iter().for_each(|(key, inner)| {
            visit(key);
            keys(inner, visit);
        }),
    }
}

/// The names that a term calls.
pub fn calls<'s>(term: &Term<&'s str>, out: &mut HashSet<&'s str>) {
    if let Term::Call(name, _) | Term::Str(Some(name), _) = term {
        out.insert(name);
    }
    within(term, &mut |inner| calls(inner, out));
}

/// How deep a term nests as it is written.
pub fn nesting(term: &Term<&str>) -> usize {
    let mut deepest = 0;
    within(term, &mut |inner| deepest = deepest.max(nesting(inner)));
    deepest + 1
}

/// Whether a term may look at the item, its input. What follows a pipe looks at what the pipe gives it.
pub fn reads(term: &Term<&str>) -> bool {
    match term {
        Term::Id | Term::Recurse => true,
        // A definition of the operator's may look at the input; of the library's we know these.
        Term::Call(name, arguments) => {
            !matches!(*name, "empty" | "true" | "false" | "null" | "range" | "nan" | "infinite")
                || arguments.iter().any(reads)
        }
        Term::BinOp(left, BinaryOp::Pipe(None), _) => reads(left),
        Term::BinOp(_, BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt, _) => true,
        Term::Fold(_, items, pattern, arguments) => {
            let mut looks = reads(items);
            keys(pattern, &mut |key| looks |= reads(key));
            looks || arguments.first().is_none_or(reads)
        }
        Term::TryCatch(inner, _) => reads(inner),
        // The key alone is the item's field of that name, but for `{$name}`.
        Term::Obj(entries) => entries.iter().any(|(key, value)| match value {
            Some(value) => reads(key) || reads(value),
            None => !matches!(key, Term::Var(_)),
        }),
        Term::Def(_, inner) => reads(inner),
        _ => {
            let mut looks = false;
            within(term, &mut |inner| looks |= reads(inner));
            looks
        }
    }
}
