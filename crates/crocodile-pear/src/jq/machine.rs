//! What an evaluation holds: the values on their way, what is bound, and the stack that is left.

use std::cell::Cell;
use std::rc::Rc;

use jaq_json::Val;

use super::budget::{self, charge, grow};
use super::code::{Function, Node};
use super::fault::{Stop, fail};
use super::item::{self, Item};

/// Bytes of the thread's stack that steps within steps may take: threads have 2 MiB, unless somebody says otherwise.
const STACK: usize = 3 << 19;

/// Parts of a path.
pub const PARTS: u32 = 1_000;

/// What a step ends with.
pub type Flow = Result<(), Stop>;

/// Takes the outputs of a step.
pub type Out<'o> = &'o mut dyn FnMut(Current) -> Flow;

/// A value on its way, and where it stands if that is followed.
#[derive(Clone, Debug)]
pub struct Current {
    pub item: Item,
    pub place: Option<Rc<Place>>,
}

/// Where in a value another one stands.
#[derive(Debug)]
pub struct Place {
    /// What stands there: a value that is not this one has no path.
    pub value: Val,
    pub up: Option<(Rc<Place>, Val)>,
    parts: u32,
}

impl Current {
    /// A value whose place nobody follows.
    pub fn of(item: Item) -> Self {
        Current { item, place: None }
    }

    /// A value whose parts are followed.
    pub fn root(item: Item) -> Self {
        let value = item.value.clone();
        Current { item, place: Some(Rc::new(Place { value, up: None, parts: 0 })) }
    }

    /// Another value, at the same place as far as paths go.
    pub fn with(self, item: Item) -> Self {
        Current { item, place: self.place }
    }

    /// Whether the value is what stands at its place.
    pub fn stands(&self) -> bool {
        self.place.as_ref().is_none_or(|place| item::identical(&place.value, &self.item.value))
    }
}

impl Place {
    /// A part of what stands at a place.
    pub fn part(self: Rc<Self>, key: Val, value: Val) -> Result<Rc<Place>, Stop> {
        charge(1);
        grow(64);
        let parts = self.parts + 1;
        if parts > PARTS {
            return fail("Path too deep").map_err(Stop::from);
        }
        Ok(Rc::new(Place { value, up: Some((self, key)), parts }))
    }

    /// The keys that lead here.
    pub fn keys(&self) -> Vec<Val> {
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

/// What is bound, innermost first: it lives as long as the step that bound it.
pub struct Scope<'c, 'e> {
    pub(super) outer: Sees<'c, 'e>,
    pub(super) bound: Bound<'c, 'e>,
}

/// What a name stands for.
pub(super) enum Bound<'c, 'e> {
    Value(Item),
    Label(usize),
    /// A step and what it sees.
    Step(&'c Node, Sees<'c, 'e>),
}

/// What a step sees.
pub type Sees<'c, 'e> = Option<&'e Scope<'c, 'e>>;

/// Where the thread's stack stands.
#[inline(always)]
fn here() -> usize {
    let marker = 0u8;
    std::ptr::addr_of!(marker) as usize
}

/// What was seen so many names before.
pub(super) fn up<'c, 'e>(mut scope: Sees<'c, 'e>, by: usize) -> Sees<'c, 'e> {
    for _ in 0..by {
        scope = scope.and_then(|scope| scope.outer);
    }
    scope
}

/// A program with the values of the variables from outside.
pub struct Machine<'c> {
    pub functions: &'c [Function],
    pub outside: &'c [Item],
    pub(super) labels: Cell<usize>,
    /// Where the stack stood when it began.
    base: usize,
}

impl<'c> Machine<'c> {
    /// Ready to run.
    pub fn new(functions: &'c [Function], outside: &'c [Item]) -> Self {
        Machine { functions, outside, labels: Cell::new(0), base: here() }
    }

    /// Counts a step, and looks how much of the stack is left.
    #[inline]
    pub(super) fn enter(&self) {
        charge(1);
        if self.base.abs_diff(here()) > STACK {
            budget::exhaust("the expression nests too deep");
        }
    }
}
