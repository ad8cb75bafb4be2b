//! Expressions: jq, as jq 1.8 has it.
//!
//! Every expression ends: recursive definitions are refused when it is compiled, and what it does is counted against a
//! budget of work and of memory when it is run (`jq/budget.rs`).
//!
//! Source becomes tokens (`lex`), a term (`parse`), code with its names resolved (`resolve`), and that is run (`run`).

mod budget;
mod closure;
mod code;
mod compile;
mod data;
mod fault;
mod form;
mod habit;
mod item;
mod lex;
mod library;
mod native;
mod parse;
mod paths;
mod resolve;
mod run;
mod taken;
mod term;
pub mod value;

use std::sync::Arc;

use crate::error::{Error, Kind};
use code::{Code, Function, Node};
use fault::Stop;
use item::Item;
use native::Native;
use run::{Current, Machine};

pub use closure::Closure;
pub use data::Data;
pub(crate) use habit::assignment;
pub use value::{Value, as_str, kind, list, null, object, string};

/// Outputs of one evaluation.
const OUTPUTS: usize = 1_000_000;

/// What an error quotes of the expression's own message.
const QUOTE: usize = 300;

/// An expression, compiled once. Cheap to clone.
#[derive(Clone)]
pub struct Filter {
    program: Arc<Program>,
    native: Option<Arc<Native>>,
    uses: Vec<String>,
    reads_item: bool,
    /// The keys of the item that it takes, if these are all.
    takes: Option<Box<[String]>>,
    /// Units of work for one evaluation.
    work: u64,
    /// What runs in its place.
    closure: Option<Closure>,
}

/// What runs: a step, and the definitions that it calls.
struct Program {
    main: Node,
    functions: Vec<Function>,
}

/// What of jq is refused, and why.
pub fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    library::REFUSED.iter().copied()
}

/// Why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Byte offset into the expression.
    pub offset: usize,
    /// Bytes meant.
    pub length: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub remedy: String,
}

impl Filter {
    /// Compiles `source`; `known` are the variables it may use, without `$`.
    ///
    /// # Errors
    /// Every fault of the expression.
    pub fn compile(source: &str, known: &[&str]) -> Result<Self, Vec<Fault>> {
        let filter = compile::compile(source, known).map_err(|faults| habit::explain(source, faults))?;
        habit::hidden(source).map_or(Ok(filter), |fault| Err(vec![fault]))
    }

    /// A closure of a Rust program in the place of an expression.
    pub fn of_closure(closure: Closure) -> Self {
        let main = Node { code: Code::Id, single: true };
        Filter {
            program: Arc::new(Program { main, functions: Vec::new() }),
            native: None,
            uses: Vec::new(),
            reads_item: true,
            takes: None,
            work: budget::WORK,
            closure: Some(closure),
        }
    }

    /// The same over named results, for a closure that is given one object of them instead of the item.
    #[must_use]
    pub fn over(self, names: &[String]) -> Self {
        if self.closure.as_ref().is_none_or(|closure| !closure.takes_names()) || names.is_empty() {
            return self;
        }
        Filter { uses: names.to_vec(), reads_item: false, ..self }
    }

    /// The variables that the expression uses, without `$`.
    pub fn uses(&self) -> &[String] {
        &self.uses
    }

    /// Whether it may read `.`, the item.
    pub fn reads_item(&self) -> bool {
        self.reads_item
    }

    /// Whether it may look at this field of the item.
    pub fn may_take(&self, key: &str) -> bool {
        self.takes.as_ref().is_none_or(|takes| takes.iter().any(|taken| taken == key))
    }

    /// Whether it only takes parts and puts them together: that needs no parsed values.
    pub fn is_native(&self) -> bool {
        self.native.is_some()
    }

    /// Every output for `input`; JSON stays bytes where the expression only takes its parts.
    ///
    /// # Errors
    /// As `run`.
    pub fn apply(&self, input: Data, lookup: &mut dyn FnMut(&str) -> Data) -> Result<Vec<Data>, Error> {
        if let Some(closure) = &self.closure {
            return closure.run(input, &self.uses, lookup);
        }
        if let Some(made) = self.pick(&input, lookup) {
            return Ok(vec![made]);
        }
        let outputs = self.run(input.into_value(), &mut |name| lookup(name).into_value())?;
        outputs.into_iter().map(Data::made).collect()
    }

    /// The output for `input`, where the expression only takes parts of it and puts them together; nothing where the engine
    /// has to run.
    pub fn pick(&self, input: &Data, lookup: &mut dyn FnMut(&str) -> Data) -> Option<Data> {
        self.native.as_ref()?.run(input, lookup)
    }

    /// Every output for `input`; `lookup` gives the value of each variable in `uses`.
    ///
    /// # Errors
    /// `Kind::Expression` when the expression fails or exceeds its budget.
    pub fn run(&self, input: Value, lookup: &mut dyn FnMut(&str) -> Value) -> Result<Vec<Value>, Error> {
        if let Some(closure) = &self.closure {
            let outputs = closure.run(input.into(), &self.uses, &mut |name| lookup(name).into())?;
            return Ok(outputs.into_iter().map(Data::into_value).collect());
        }
        self.evaluate(input, lookup, self.work)
    }

    fn evaluate(&self, input: Value, lookup: &mut dyn FnMut(&str) -> Value, work: u64) -> Result<Vec<Value>, Error> {
        let variables: Vec<Item> = self.uses.iter().map(|name| Item::incoming(lookup(name))).collect();
        budget::within(work, || {
            let machine = Machine::new(&self.program.functions, &variables);
            let mut outputs = Vec::new();
            let mut refused = None;
            let flow = machine.each(&self.program.main, None, Current::of(Item::incoming(input)), &mut |current| {
                budget::charge(1);
                budget::grow(16);
                let reason = match current.item.outgoing() {
                    _ if outputs.len() == OUTPUTS => "the expression has more than a million outputs",
                    Some(output) => {
                        outputs.push(output);
                        return Ok(());
                    }
                    None => "the expression's result nests deeper than 128 levels",
                };
                refused = Some(refuse(reason));
                Err(Stop::Break(usize::MAX))
            });
            match flow {
                Ok(()) => Ok(outputs),
                Err(stop) => Err(refused.unwrap_or_else(|| explain(stop))),
            }
        })
    }

    /// The output for `input`, if there is one.
    ///
    /// # Errors
    /// As `run`, and when there are several outputs.
    pub fn run_one(&self, input: Value, lookup: &mut dyn FnMut(&str) -> Value) -> Result<Option<Value>, Error> {
        let mut outputs = self.run(input, lookup)?;
        let output = outputs.pop();
        if outputs.is_empty() { Ok(output) } else { Err(refuse("the expression has more than one output")) }
    }
}

fn refuse(reason: &'static str) -> Error {
    Error::new(Kind::Expression, reason)
}

/// An error in words: without data, or what the expression gave to `error`.
fn explain(stop: Stop) -> Error {
    let Stop::Fault(fault) = stop else { return refuse("the expression broke off") };
    let given = fault.shown.unwrap_or_else(|| match &fault.value.value {
        value if as_str(value).is_some() => as_str(value).unwrap_or_default().to_owned(),
        value => as_str(&item::written(value).value).unwrap_or_default().to_owned(),
    });
    let mut message: String = given.chars().take(QUOTE).collect();
    if message.len() < given.len() {
        message.push('…');
    }
    Error::new(Kind::Expression, message)
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod tests;
