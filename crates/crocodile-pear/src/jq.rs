//! Expressions: the only module that names the jq engine.
//!
//! Every expression ends: recursive definitions are refused when it is compiled, and what it does is counted against a
//! budget of work and of memory when it is run (`jq/budget.rs`).

mod budget;
mod compile;
mod data;
mod item;
mod library;
mod native;
mod scope;
mod taken;
pub mod value;

use jaq_core::{Ctx, Exn, Vars};

use crate::error::{Error, Kind};
use item::Item;
use library::Engine;
use native::Native;

pub use data::Data;
pub use value::{Value, as_str, kind, list, null, object, string};

/// Outputs of one evaluation.
const OUTPUTS: usize = 1_000_000;

/// What an error quotes of the expression's own message.
const QUOTE: usize = 300;

/// An expression, compiled once.
pub struct Filter {
    engine: jaq_core::Filter<Engine>,
    native: Option<Native>,
    uses: Vec<String>,
    reads_item: bool,
    /// The keys of the item that it takes, if these are all.
    takes: Option<Box<[String]>>,
    /// Units of work for one evaluation.
    work: u64,
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
        compile::compile(source, known)
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
        if let Some(made) = self.native.as_ref().and_then(|native| native.run(&input, lookup)) {
            return Ok(vec![made.into()]);
        }
        let outputs = self.run(input.into_value(), &mut |name| lookup(name).into_value())?;
        Ok(outputs.into_iter().map(Data::Value).collect())
    }

    /// Every output for `input`; `lookup` gives the value of each variable in `uses`.
    ///
    /// # Errors
    /// `Kind::Expression` when the expression fails or exceeds its budget.
    pub fn run(&self, input: Value, lookup: &mut dyn FnMut(&str) -> Value) -> Result<Vec<Value>, Error> {
        self.evaluate(input, lookup, self.work)
    }

    fn evaluate(&self, input: Value, lookup: &mut dyn FnMut(&str) -> Value, work: u64) -> Result<Vec<Value>, Error> {
        let variables: Vec<Item> = self.uses.iter().map(|name| Item::incoming(lookup(name))).collect();
        budget::within(work, || {
            let context = Ctx::<Engine>::new(&self.engine.lut, Vars::new(variables));
            let mut outputs = Vec::new();
            for output in self.engine.id.run((context, Item::incoming(input))) {
                if outputs.len() == OUTPUTS {
                    return Err(refuse("the expression has more than a million outputs"));
                }
                budget::charge(1);
                budget::grow(16);
                let output = output.map_err(explain)?.outgoing();
                outputs.push(output.ok_or_else(|| refuse("the expression's result nests deeper than 128 levels"))?);
            }
            Ok(outputs)
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

/// An error of the engine in words: its own message, or what the expression gave to `error`.
fn explain(exception: Exn<'_, Item>) -> Error {
    let Ok(fault) = exception.get_err() else { return refuse("the expression broke off") };
    let given = item::text_of(fault);
    let mut message: String = given.chars().take(QUOTE).collect();
    if message.len() < given.len() {
        message.push('…');
    }
    Error::new(Kind::Expression, message)
}

#[cfg(test)]
mod tests;
