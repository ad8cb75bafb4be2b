//! The state of an evaluation: current values, variables, and the stack that is left.

use std::cell::Cell;
use std::rc::Rc;

use super::code::{Function, Node};
use crate::jq::value::bounded::Item;
use crate::jq::value::budget::{self, charge, grow};
use crate::jq::value::operators;
use crate::jq::value::runtime_error::{Stop, fail};
use crate::json::value::Value;

/// Bytes of the thread's stack that nested steps may use. Threads have 2 MiB by default.
const STACK: usize = 3 << 19;

/// Largest number of parts in a path.
pub const PARTS: u32 = 1_000;

/// The result of a step.
pub type Flow = Result<(), Stop>;

/// Receives the outputs of a step.
pub type Out<'o> = &'o mut dyn FnMut(Current) -> Flow;

/// A current value, and its place if places are tracked.
#[derive(Clone, Debug)]
pub struct Current {
    pub item: Item,
    pub place: Option<Rc<Place>>,
}

/// The position of a value within another one.
#[derive(Debug)]
pub struct Place {
    /// The value at this place. Any other value has no path.
    pub value: Value,
    pub up: Option<(Rc<Place>, Value)>,
    parts: u32,
}

impl Current {
    /// A value whose place is not tracked.
    pub fn of(item: Item) -> Self {
        Current { item, place: None }
    }

    /// A value whose parts get a tracked place.
    pub fn root(item: Item) -> Self {
        let value = item.value.clone();
        Current { item, place: Some(Rc::new(Place { value, up: None, parts: 0 })) }
    }

    /// Another value with the same place.
    pub fn with(self, item: Item) -> Self {
        Current { item, place: self.place }
    }

    /// Whether the value is the one at its place.
    pub fn stands(&self) -> bool {
        self.place.as_ref().is_none_or(|place| operators::identical(&place.value, &self.item.value))
    }
}

impl Place {
    pub fn part(self: Rc<Self>, key: Value, value: Value) -> Result<Rc<Place>, Stop> {
        charge(1);
        grow(64);
        let parts = self.parts + 1;
        if parts > PARTS {
            return fail("Path too deep").map_err(Stop::from);
        }
        Ok(Rc::new(Place { value, up: Some((self, key)), parts }))
    }

    /// The keys that lead here.
    pub fn keys(&self) -> Vec<Value> {
        let mut keys = Vec::with_capacity(self.parts as usize);
        let mut at = self;
        while let Some((up, key)) = &at.up {
            keys.push(key.clone());
            at = up;
        }
        keys.reverse();
        keys
    }
}

/// A variable and its outer scopes, innermost first. It lives as long as the step that bound it.
pub struct Scope<'c, 'e> {
    pub(crate) outer: Sees<'c, 'e>,
    pub(crate) bound: Bound<'c, 'e>,
}

/// The meaning of a name.
pub(crate) enum Bound<'c, 'e> {
    Value(Item),
    Label(usize),
    Step(&'c Node, Sees<'c, 'e>),
}

pub type Sees<'c, 'e> = Option<&'e Scope<'c, 'e>>;

/// The current position in the thread's stack.
#[inline(always)]
fn here() -> usize {
    let marker = 0u8;
    std::ptr::addr_of!(marker) as usize
}

/// The scope this many names further out.
pub(crate) fn up<'c, 'e>(mut scope: Sees<'c, 'e>, by: usize) -> Sees<'c, 'e> {
    for _ in 0..by {
        scope = scope.and_then(|scope| scope.outer);
    }
    scope
}

/// A program with the values of its outside variables.
pub struct Machine<'c> {
    pub functions: &'c [Function],
    pub outside: &'c [Item],
    pub(crate) labels: Cell<usize>,
    /// Position in the stack at the start.
    base: usize,
}

impl<'c> Machine<'c> {
    pub fn new(functions: &'c [Function], outside: &'c [Item]) -> Self {
        Machine { functions, outside, labels: Cell::new(0), base: here() }
    }

    /// Counts a step, and checks how much stack is left.
    #[inline]
    pub(crate) fn enter(&self) {
        charge(1);
        if self.base.abs_diff(here()) > STACK {
            budget::exhaust("the expression nests too deep");
        }
    }
}
