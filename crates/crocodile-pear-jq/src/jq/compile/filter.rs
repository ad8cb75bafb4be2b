//! A compiled expression, and its results for an item.

use std::sync::Arc;

use http::StatusCode;

use super::byte_paths::Native;
use crate::error::{Error, Kind};
use crate::jq::eval::code::{Code, Function, Node};
use crate::jq::eval::machine::{Current, Machine};
use crate::jq::part::Read;
use crate::jq::value::bounded::Item;
use crate::jq::value::budget::{self, Budget};
use crate::jq::value::closure::Closure;
use crate::jq::value::operators;
use crate::jq::value::runtime_error::Stop;
use crate::json::Data;
use crate::json::value::{self, Shape, Value, as_str};

/// Largest number of outputs of one evaluation.
const OUTPUTS: usize = 1_000_000;

/// Characters of the `detail` that an expression chose for its error.
const DETAIL: usize = 1000;

/// Bytes that an error quotes of the expression's own message.
const QUOTE: usize = 300;

/// An expression, compiled once. Cheap to clone.
#[derive(Clone)]
pub struct Filter {
    pub(crate) program: Arc<Program>,
    pub(crate) native: Option<Arc<Native>>,
    pub(crate) uses: Vec<String>,
    /// The parts of these variables that the expression may read.
    pub(crate) reads: Arc<[Read]>,
    pub(crate) reads_item: bool,
    /// The keys of the item that the expression reads; `None` if it may read others.
    pub(crate) takes: Option<Box<[String]>>,
    /// A closure to run instead.
    pub(crate) closure: Option<Closure>,
}

/// The code to run: a step, and the definitions that it calls.
pub(crate) struct Program {
    pub(crate) main: Node,
    pub(crate) functions: Vec<Function>,
}

impl Filter {
    /// A closure of a Rust program in the place of an expression.
    pub fn of_closure(closure: Closure) -> Self {
        let main = Node { code: Code::Id, single: true };
        Filter {
            program: Arc::new(Program { main, functions: Vec::new() }),
            native: None,
            uses: Vec::new(),
            reads: Arc::new([]),
            reads_item: true,
            takes: None,
            closure: Some(closure),
        }
    }

    /// The same filter over these named results, if its closure takes one object of them instead of the item.
    #[must_use]
    pub fn over(self, names: &[String]) -> Self {
        if self.closure.as_ref().is_none_or(|closure| !closure.takes_names()) || names.is_empty() {
            return self;
        }
        let reads = names.iter().map(|name| Read { variable: name.clone(), field: None }).collect();
        Filter { uses: names.to_vec(), reads, reads_item: false, ..self }
    }

    /// The variables that the expression uses, without `$`.
    #[inline]
    pub fn uses(&self) -> &[String] {
        &self.uses
    }

    /// The parts of these variables that it may read.
    #[inline]
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// Whether it may read `.`, the item.
    #[inline]
    pub fn reads_item(&self) -> bool {
        self.reads_item
    }

    /// Whether it may read this field of the item.
    pub fn may_take(&self, key: &str) -> bool {
        self.takes.as_ref().is_none_or(|takes| takes.iter().any(|taken| taken == key))
    }

    /// Whether it only takes parts and joins them, so that no values need to be parsed.
    #[inline]
    pub fn is_native(&self) -> bool {
        self.native.is_some()
    }

    /// All outputs for `input`. JSON stays bytes if the expression only takes parts of it.
    ///
    /// # Errors
    /// Same as `run`.
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

    /// The output for `input`, if the expression only takes parts of it and joins them; `None` if the engine has to
    /// run.
    #[inline]
    pub fn pick(&self, input: &Data, lookup: &mut dyn FnMut(&str) -> Data) -> Option<Data> {
        self.native.as_ref()?.run(input, lookup)
    }

    /// All outputs for `input`; `lookup` returns the value of each variable in `uses`.
    ///
    /// # Errors
    /// `Kind::Expression` if the expression fails or exceeds its budget.
    pub fn run(&self, input: Value, lookup: &mut dyn FnMut(&str) -> Value) -> Result<Vec<Value>, Error> {
        if let Some(closure) = &self.closure {
            let outputs = closure.run(input.into(), &self.uses, &mut |name| lookup(name).into())?;
            return Ok(outputs.into_iter().map(Data::into_value).collect());
        }
        self.evaluate(input, lookup, Budget::WHOLE)
    }

    pub(crate) fn evaluate(
        &self,
        input: Value,
        lookup: &mut dyn FnMut(&str) -> Value,
        budget: Budget,
    ) -> Result<Vec<Value>, Error> {
        let variables: Vec<Item> = self.uses.iter().map(|name| Item::incoming(lookup(name))).collect();
        budget::within(budget, || {
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
    /// Same as `run`; also if there are several outputs.
    pub fn run_one(&self, input: Value, lookup: &mut dyn FnMut(&str) -> Value) -> Result<Option<Value>, Error> {
        let mut outputs = self.run(input, lookup)?;
        let output = outputs.pop();
        if outputs.is_empty() { Ok(output) } else { Err(refuse("the expression has more than one output")) }
    }
}

fn refuse(reason: &'static str) -> Error {
    Error::new(Kind::Expression, reason)
}

/// The error of `error({status: 404, detail: "no such order"})`, with the status and the text that the expression chose.
fn rejected(value: &Value) -> Option<Error> {
    let fields = value::as_object(value)?;
    let field = |name: &str| fields.iter().find(|(key, _)| as_str(key) == Some(name)).map(|(_, value)| value);
    let status = match value::shape(field("status")?) {
        Shape::Integer(number) => u16::try_from(number).ok().filter(|number| (400..600).contains(number))?,
        _ => return None,
    };
    let status = StatusCode::from_u16(status).ok()?;
    let usual = || status.canonical_reason().unwrap_or("rejected").to_owned();
    let detail = field("detail").and_then(as_str).map_or_else(usual, |text| text.chars().take(DETAIL).collect());
    Some(Error::new(Kind::Rejected(status), detail))
}

/// The error with its message: without data, or the value that the expression passed to `error`.
pub(crate) fn explain(stop: Stop) -> Error {
    let Stop::Fault(fault) = stop else { return refuse("the expression broke off") };
    if let (None, Some(error)) = (&fault.shown, rejected(&fault.value.value)) {
        return error;
    }
    let given = fault.shown.unwrap_or_else(|| match &fault.value.value {
        value if as_str(value).is_some() => as_str(value).unwrap_or_default().to_owned(),
        value => as_str(&operators::written(value).value).unwrap_or_default().to_owned(),
    });
    let mut message: String = given.chars().take(QUOTE).collect();
    if message.len() < given.len() {
        message.push('…');
    }
    Error::new(Kind::Expression, message)
}
