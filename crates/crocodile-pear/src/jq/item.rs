//! A value under evaluation: the engine's own, with every operation charged to the budget.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};
use std::sync::Arc;

use bytes::Bytes;
use jaq_core::Exn;
use jaq_core::box_iter::{BoxIter, box_once};
use jaq_core::path::Opt;
use jaq_core::val::Range;
use jaq_json::{Num, Val};

use super::budget::{self, Level, charge, grow};
use super::value::{self, Fields, kind};
use crate::format::json::DEPTH;

/// Levels that a value may nest during evaluation: what came in, wrapped as often again. Dropping, comparing and
/// writing a value recurse, so this bounds the stack.
const LIMIT: u32 = 2 * DEPTH as u32;

/// Bits of an integer: multiplying is quadratic.
const BITS: u64 = 4096;

/// What a small object costs in memory.
const OBJECT: usize = 200;

pub type Fault = jaq_core::Error<Item>;
type ItemR = Result<Item, Fault>;
type ItemX<'a> = Result<Item, Exn<'a, Item>>;

/// A value and a bound of its depth.
#[derive(Clone, Debug)]
pub struct Item {
    pub value: Val,
    depth: u32,
}

impl Item {
    /// A value that came from outside, no deeper than `DEPTH`.
    pub fn incoming(value: Val) -> Self {
        Item::bounded(value, DEPTH as u32)
    }

    /// A value with a bound of its depth.
    pub fn bounded(value: Val, depth: u32) -> Self {
        let depth = if matches!(value, Val::Arr(_) | Val::Obj(_)) { depth } else { 0 };
        Item { value, depth }
    }

    /// A list or object just made of parts with a bound of their depth.
    pub fn made(value: Val, parts: u32) -> Self {
        let mut item = Item::bounded(value, parts + 1);
        if item.depth > LIMIT {
            // The bound drifts upwards when parts are replaced by shallower ones.
            item.depth = depth(&item.value);
        }
        if item.depth > LIMIT {
            budget::exhaust("the expression nests its result too deep");
        }
        item
    }

    /// The value, if it may leave: no deeper than what may come in.
    pub fn outgoing(self) -> Option<Val> {
        let shallow = self.depth <= DEPTH as u32 || depth(&self.value) <= DEPTH as u32;
        shallow.then_some(self.value)
    }

    fn part(&self, value: Val) -> Self {
        Item::bounded(value, self.depth.saturating_sub(1))
    }
}

/// How deep a value nests.
fn depth(value: &Val) -> u32 {
    charge(1);
    match value {
        Val::Arr(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Val::Obj(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// An error in words.
pub fn fail<T>(message: impl Into<String>) -> Result<T, Fault> {
    Err(jaq_core::Error::new(Item::from(message.into())))
}

/// What errors show of a value: scalars, else only what kind it is. Clients read it.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Val::Null | Val::Bool(_) | Val::Num(Num::Int(_) | Num::Float(_)) => self.value.fmt(f),
            other => f.write_str(kind(other)),
        }
    }
}

/// Whether two values are equal.
pub fn same(left: &Val, right: &Val) -> bool {
    charge(1);
    match (left, right) {
        (Val::Arr(left), Val::Arr(right)) => {
            left.len() == right.len() && left.iter().zip(right.iter()).all(|(left, right)| same(left, right))
        }
        (Val::Obj(left), Val::Obj(right)) => {
            let found = |(key, left)| right.get(key).is_some_and(|right| same(left, right));
            left.len() == right.len() && left.iter().all(found)
        }
        _ => scalars(left, right) == Ordering::Equal,
    }
}

/// jq's order.
pub fn compare(left: &Val, right: &Val) -> Ordering {
    charge(1);
    match (left, right) {
        (Val::Arr(left), Val::Arr(right)) => {
            let unequal = left.iter().zip(right.iter()).map(|(left, right)| compare(left, right)).find(|it| it.is_ne());
            unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Val::Obj(left), Val::Obj(right)) => objects(left, right),
        _ => scalars(left, right),
    }
}

/// Keys first, then what they hold.
fn objects(left: &Fields, right: &Fields) -> Ordering {
    charge(8 * (left.len() + right.len()));
    let sorted = |fields: &Fields| {
        let mut keys: Vec<Val> = fields.keys().cloned().collect();
        keys.sort();
        keys
    };
    let (keys, others) = (sorted(left), sorted(right));
    let values = || keys.iter().map(|key| compare(&left[key], &right[key])).find(|it| it.is_ne());
    keys.cmp(&others).then_with(|| values().unwrap_or(Ordering::Equal))
}

fn scalars(left: &Val, right: &Val) -> Ordering {
    charge(length(left).min(length(right)) / 64);
    match (left, right) {
        (Val::Arr(_) | Val::Obj(_), _) | (_, Val::Arr(_) | Val::Obj(_)) => rank(left).cmp(&rank(right)),
        _ => left.cmp(right),
    }
}

fn rank(value: &Val) -> u8 {
    match value {
        Val::Null => 0,
        Val::Bool(_) => 1,
        Val::Num(_) => 2,
        Val::BStr(_) | Val::TStr(_) => 3,
        Val::Arr(_) => 4,
        Val::Obj(_) => 5,
    }
}

/// Bytes of a string or, weighed for what parsing costs, of a literal; items of a list or object.
pub fn length(value: &Val) -> usize {
    match value {
        Val::BStr(text) | Val::TStr(text) => text.len(),
        Val::Num(Num::Dec(literal)) => 8 * literal.len(),
        Val::Num(Num::BigInt(number)) => number.bits() as usize,
        Val::Arr(items) => items.len(),
        Val::Obj(fields) => fields.len(),
        _ => 0,
    }
}

/// Takes what changing a shared list or object costs: it is copied first.
fn unshare(value: &Val) {
    match value {
        Val::Arr(items) if Arc::strong_count(items) > 1 => {
            charge(1 + items.len() / 4);
            grow(16 * items.len());
        }
        Val::Obj(fields) if Arc::strong_count(fields) > 1 => {
            charge(1 + fields.len());
            grow(OBJECT + 48 * fields.len());
        }
        _ => charge(1),
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        same(&self.value, &other.value)
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.value, &other.value)
    }
}

impl From<bool> for Item {
    fn from(truth: bool) -> Self {
        Item::bounded(truth.into(), 0)
    }
}

impl From<isize> for Item {
    fn from(number: isize) -> Self {
        Item::bounded(number.into(), 0)
    }
}

impl From<usize> for Item {
    fn from(number: usize) -> Self {
        Item::bounded(number.into(), 0)
    }
}

impl From<f64> for Item {
    fn from(number: f64) -> Self {
        Item::bounded(number.into(), 0)
    }
}

impl From<String> for Item {
    fn from(text: String) -> Self {
        budget::text(text.len());
        Item::bounded(Val::utf8_str(text), 0)
    }
}

impl From<Range<Item>> for Item {
    fn from(range: Range<Item>) -> Self {
        grow(OBJECT);
        let plain = range.start.map(|start| start.value)..range.end.map(|end| end.value);
        Item::bounded(plain.into(), 1)
    }
}

impl FromIterator<Item> for Item {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        let mut depth = 0;
        grow(48);
        let plain = items.into_iter().map(|item| {
            charge(1);
            grow(24);
            depth = depth.max(item.depth);
            item.value
        });
        let list = value::list(plain.collect());
        Item::made(list, depth)
    }
}

impl Add for Item {
    type Output = ItemR;
    fn add(self, other: Item) -> ItemR {
        let depth = self.depth.max(other.depth);
        match (&self.value, &other.value) {
            (Val::TStr(left), Val::TStr(right)) | (Val::BStr(left), Val::BStr(right)) => {
                budget::text(left.len() + right.len());
            }
            (Val::Arr(_), Val::Arr(right)) => {
                unshare(&self.value);
                charge(right.len());
                grow(24 * right.len());
            }
            (Val::Obj(_), Val::Obj(right)) => {
                unshare(&self.value);
                charge(2 * right.len());
                grow(48 * right.len());
            }
            (left, right) => charge(1 + (length(left) + length(right)) / 64),
        }
        operate(self, other, "add", depth, |left, right| left + right)
    }
}

impl Sub for Item {
    type Output = ItemR;
    fn sub(self, other: Item) -> ItemR {
        if let (Val::Arr(left), Val::Arr(right)) = (&self.value, &other.value) {
            let mut sorted: Vec<&Val> = right.iter().collect();
            sorted.sort_by(|left, right| compare(left, right));
            let kept = |item: &&Val| sorted.binary_search_by(|other| compare(other, item)).is_err();
            return Ok(left.iter().filter(kept).map(|item| self.part(item.clone())).collect());
        }
        charge(1 + (length(&self.value) + length(&other.value)) / 64);
        operate(self, other, "subtract", 0, |left, right| left - right)
    }
}

impl Mul for Item {
    type Output = ItemR;
    fn mul(self, other: Item) -> ItemR {
        let depth = self.depth.max(other.depth);
        charge(1);
        match (&self.value, &other.value) {
            (Val::TStr(text) | Val::BStr(text), Val::Num(number))
            | (Val::Num(number), Val::TStr(text) | Val::BStr(text)) => {
                let times = number.as_isize().unwrap_or(isize::MAX).max(0);
                budget::text(text.len().saturating_mul(times as usize));
            }
            (Val::Num(left), Val::Num(right)) => {
                let bits = bits(left) + bits(right);
                if bits > BITS {
                    return fail("the number becomes too large");
                }
                charge(bits as usize / 64);
            }
            (Val::Obj(_), Val::Obj(right)) => {
                let mut merged = self.value.clone();
                drop(self.value);
                merge(&mut merged, right);
                return Ok(Item::bounded(merged, depth));
            }
            _ => {}
        }
        operate(self, other, "multiply", depth, |left, right| left * right)
    }
}

/// Merges the fields of an object into another, objects within them too.
fn merge(left: &mut Val, right: &Fields) {
    unshare(left);
    let Val::Obj(fields) = left else { return };
    let fields = Arc::make_mut(fields);
    for (key, value) in right {
        charge(2);
        grow(48);
        match (fields.get_mut(key), value) {
            (Some(inner @ Val::Obj(_)), Val::Obj(value)) => merge(inner, value),
            (Some(inner), value) => *inner = value.clone(),
            (None, value) => drop(fields.insert(key.clone(), value.clone())),
        }
    }
}

fn bits(number: &Num) -> u64 {
    match number {
        Num::Int(number) => u64::from(isize::BITS - number.unsigned_abs().leading_zeros()),
        Num::BigInt(number) => number.bits(),
        _ => 0,
    }
}

impl Div for Item {
    type Output = ItemR;
    fn div(self, other: Item) -> ItemR {
        charge(1 + (length(&self.value) + length(&other.value)) / 64);
        let (Val::TStr(text), Val::TStr(separator)) = (&self.value, &other.value) else {
            return operate(self, other, "divide", 0, |left, right| left / right);
        };
        Ok(pieces(text, separator).map(|piece| text_item(text.slice_ref(piece))).collect())
    }
}

/// The parts of a text; of one without separator its characters.
fn pieces<'a>(text: &'a [u8], separator: &'a [u8]) -> Box<dyn Iterator<Item = &'a [u8]> + 'a> {
    if text.is_empty() {
        return Box::new(std::iter::empty());
    }
    if separator.is_empty() {
        return Box::new(text.split_inclusive_characters());
    }
    let finder = memchr::memmem::find_iter(text, separator).map(Some).chain([None]);
    let length = separator.len();
    Box::new(finder.scan(0, move |start, found| {
        let piece = &text[*start..found.unwrap_or(text.len())];
        *start = found.map_or(text.len(), |at| at + length);
        Some(piece)
    }))
}

/// Splitting bytes where characters begin.
trait Characters {
    fn split_inclusive_characters(&self) -> impl Iterator<Item = &[u8]>;
}

impl Characters for [u8] {
    fn split_inclusive_characters(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let (_, tail) = rest.split_first()?;
            let length = 1 + tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            let (piece, after) = rest.split_at(length);
            rest = after;
            Some(piece)
        })
    }
}

/// A string that shares its bytes with another.
fn text_item(text: Bytes) -> Item {
    charge(1);
    grow(48);
    Item::bounded(Val::utf8_str(text), 0)
}

impl Rem for Item {
    type Output = ItemR;
    fn rem(self, other: Item) -> ItemR {
        charge(1 + (length(&self.value) + length(&other.value)) / 64);
        operate(self, other, "divide", 0, |left, right| left % right)
    }
}

impl Neg for Item {
    type Output = ItemR;
    fn neg(self) -> ItemR {
        charge(1 + length(&self.value) / 64);
        let kind = kind(&self.value);
        (-self.value).map(|value| Item::bounded(value, 0)).or_else(|_| fail(format!("cannot negate {kind}")))
    }
}

/// Leaves an operation to the engine's value; its errors would quote the values whole.
fn operate(left: Item, right: Item, verb: &str, depth: u32, run: fn(Val, Val) -> jaq_json::ValR) -> ItemR {
    let kinds = (kind(&left.value), kind(&right.value));
    match run(left.value, right.value) {
        Ok(value) => Ok(Item::bounded(value, depth)),
        Err(_) => fail(format!("cannot {verb} {} and {}", kinds.0, kinds.1)),
    }
}

/// A key of an object.
fn key(item: &Item) -> Result<&Val, Fault> {
    match &item.value {
        text @ Val::TStr(_) => {
            charge(1 + length(text) / 64);
            Ok(text)
        }
        other => fail(format!("an object's key is a string, not {}", kind(other))),
    }
}

/// The items of a list or object, those of a shared one cloned as they are asked for.
fn children(item: Item) -> Result<BoxIter<'static, (Item, Item)>, Fault> {
    let depth = item.depth.saturating_sub(1);
    let entry = move |(key, value)| {
        charge(1);
        (key, Item::bounded(value, depth))
    };
    match item.value {
        Val::Arr(items) => {
            let items = (0..items.len()).map(move |index| (Item::from(index), items[index].clone()));
            Ok(Box::new(items.map(entry)))
        }
        Val::Obj(fields) => Ok(Box::new((0..fields.len()).map_while(move |index| {
            let (key, value) = fields.get_index(index)?;
            Some(entry((Item::bounded(key.clone(), 0), value.clone())))
        }))),
        other => fail(format!("cannot iterate over {}", kind(&other))),
    }
}

/// A place in a list, counted from its end when negative.
fn place(index: &Val, length: usize) -> Option<usize> {
    let Val::Num(number) = index else { return None };
    let index = number.as_isize()?;
    usize::try_from(index).ok().or_else(|| length.checked_sub(index.unsigned_abs()))
}

fn bound(item: Option<&Item>, length: usize, default: usize) -> Result<usize, Fault> {
    match item.map(|item| &item.value) {
        None | Some(Val::Null) => Ok(default),
        Some(number @ Val::Num(_)) => Ok(place(number, length).unwrap_or(0).min(length)),
        Some(other) => fail(format!("a slice's bound is a number, not {}", kind(other))),
    }
}

impl jaq_core::ValT for Item {
    fn from_num(literal: &str) -> ItemR {
        charge(1 + literal.len() / 8);
        Val::from_num(literal).map(|value| Item::bounded(value, 0)).or_else(|_| fail("not a number"))
    }

    fn from_map<I: IntoIterator<Item = (Self, Self)>>(entries: I) -> ItemR {
        grow(OBJECT);
        charge(2);
        let mut fields = Fields::default();
        let mut depth = 0;
        for (name, item) in entries {
            key(&name)?;
            charge(1);
            grow(48);
            depth = depth.max(item.depth);
            fields.insert(name.value, item.value);
        }
        Ok(Item::made(value::fields_of(fields), depth))
    }

    fn key_values(self) -> BoxIter<'static, Result<(Self, Self), Fault>> {
        match children(self) {
            Ok(entries) => Box::new(entries.map(Ok)),
            Err(fault) => box_once(Err(fault)),
        }
    }

    fn values(self) -> Box<dyn Iterator<Item = ItemR>> {
        match children(self) {
            Ok(entries) => Box::new(entries.map(|(_, item)| Ok(item))),
            Err(fault) => box_once(Err(fault)),
        }
    }

    fn index(self, index: &Self) -> ItemR {
        charge(1);
        match (&self.value, &index.value) {
            (Val::Null, _) => Ok(self),
            (Val::Obj(fields), Val::TStr(_)) => {
                let found = fields.get(key(index)?).cloned();
                Ok(self.part(found.unwrap_or_default()))
            }
            (Val::Arr(items), number @ Val::Num(Num::Int(_))) => {
                let found = place(number, items.len()).and_then(|at| items.get(at)).cloned();
                Ok(self.part(found.unwrap_or_default()))
            }
            (Val::Arr(items), Val::Arr(wanted)) => Ok(windows(items, wanted).map(Item::from).collect()),
            (Val::Arr(_) | Val::TStr(_), Val::Obj(range)) => {
                let part = |name| range.get(&value::string(name)).cloned().map(|value| Item::bounded(value, 0));
                let (start, end) = (part("start"), part("end"));
                self.range(start.as_ref()..end.as_ref())
            }
            (value, index) => fail(describe(value, index)),
        }
    }

    fn range(self, range: Range<&Self>) -> ItemR {
        let depth = self.depth;
        charge(1 + length(&self.value) / 64);
        match &self.value {
            Val::Null => Ok(self),
            Val::Arr(items) => {
                let start = bound(range.start, items.len(), 0)?;
                let end = bound(range.end, items.len(), items.len())?.max(start);
                charge(end - start);
                grow(16 * (end - start));
                Ok(Item::bounded(value::list(items[start..end].to_vec()), depth))
            }
            Val::TStr(_) => {
                let plain = range.start.map(|it| &it.value)..range.end.map(|it| &it.value);
                let sliced = self.value.range(plain);
                sliced.map(|value| Item::bounded(value, 0)).or_else(|_| fail("a slice's bounds are numbers"))
            }
            other => fail(format!("cannot slice {}", kind(other))),
        }
    }

    fn map_values<'a, I: Iterator<Item = ItemX<'a>>>(self, opt: Opt, update: impl Fn(Self) -> I) -> ItemX<'a> {
        let _level = Level::enter();
        let depth = self.depth.saturating_sub(1);
        match self.value {
            Val::Arr(items) => {
                let items = (0..items.len()).map(move |at| Item::bounded(items[at].clone(), depth));
                items.flat_map(&update).collect()
            }
            Val::Obj(fields) => {
                let fields = Arc::try_unwrap(fields).unwrap_or_else(|shared| {
                    unshare(&Val::Obj(shared.clone()));
                    (*shared).clone()
                });
                let mut kept = Fields::default();
                let mut depth_after = 0;
                grow(OBJECT);
                for (key, value) in fields {
                    charge(2);
                    grow(48);
                    if let Some(item) = update(Item::bounded(value, depth)).next().transpose()? {
                        depth_after = depth_after.max(item.depth);
                        kept.insert(key, item.value);
                    }
                }
                Ok(Item::made(value::fields_of(kept), depth_after))
            }
            other => missing(opt, Item::bounded(other, 0), "iterate over"),
        }
    }

    fn map_index<'a, I: Iterator<Item = ItemX<'a>>>(
        mut self,
        index: &Self,
        opt: Opt,
        update: impl Fn(Self) -> I,
    ) -> ItemX<'a> {
        let _level = Level::enter();
        if let (Val::Arr(_) | Val::TStr(_), Val::Obj(range)) = (&self.value, &index.value) {
            let part = |name| range.get(&value::string(name)).cloned().map(|value| Item::bounded(value, 0));
            let (start, end) = (part("start"), part("end"));
            return self.map_range(start.as_ref()..end.as_ref(), opt, update);
        }
        // As in jq, what is set in null becomes an object or a list.
        if let Val::Null = self.value {
            self.value = match &index.value {
                Val::TStr(_) => value::fields_of(Fields::default()),
                Val::Num(_) => value::list(Vec::new()),
                _ => Val::Null,
            };
        }
        unshare(&self.value);
        let depth = self.depth;
        let inner = depth.saturating_sub(1);
        match (&mut self.value, &index.value) {
            (Val::Obj(fields), Val::TStr(_)) => {
                let name = key(index)?;
                let fields = Arc::make_mut(fields);
                let old = fields.get_mut(name).map(std::mem::take).unwrap_or_default();
                let new = update(Item::bounded(old, inner)).next().transpose()?;
                let after = new.as_ref().map_or(0, |item| item.depth);
                match new {
                    Some(item) => drop(fields.insert(name.clone(), item.value)),
                    None => {
                        charge(fields.len() / 8);
                        fields.shift_remove(name);
                    }
                }
                grow(48);
                Ok(Item::made(self.value, after.max(inner)))
            }
            (Val::Arr(items), number @ Val::Num(Num::Int(_))) => {
                let Some(at) = place(number, items.len()) else {
                    return missing(opt, self, "reach before the start of");
                };
                let items = Arc::make_mut(items);
                let old = items.get_mut(at).map(std::mem::take).unwrap_or_default();
                let new = update(Item::bounded(old, inner)).next().transpose()?;
                let after = new.as_ref().map_or(0, |item| item.depth);
                match new {
                    Some(item) => {
                        if at >= items.len() {
                            charge(at - items.len());
                            grow((at - items.len()).saturating_mul(16));
                            items.resize(at + 1, Val::Null);
                        }
                        items[at] = item.value;
                    }
                    None if at < items.len() => {
                        charge(items.len() / 8);
                        items.remove(at);
                    }
                    None => {}
                }
                Ok(Item::made(self.value, after.max(inner)))
            }
            (value, index) => match opt {
                Opt::Optional => Ok(self),
                Opt::Essential => fail(describe(value, index)).map_err(Exn::from),
            },
        }
    }

    fn map_range<'a, I: Iterator<Item = ItemX<'a>>>(
        mut self,
        range: Range<&Self>,
        opt: Opt,
        update: impl Fn(Self) -> I,
    ) -> ItemX<'a> {
        let _level = Level::enter();
        unshare(&self.value);
        let depth = self.depth;
        let Val::Arr(items) = &mut self.value else { return missing(opt, self, "update a slice of") };
        let start = bound(range.start, items.len(), 0)?;
        let end = bound(range.end, items.len(), items.len())?.max(start);
        let slice = Item::bounded(value::list(items[start..end].to_vec()), depth);
        let new = update(slice).next().transpose()?.unwrap_or_else(|| Item::bounded(value::list(Vec::new()), 1));
        let Val::Arr(inserted) = &new.value else {
            return fail(format!("a slice is replaced by an array, not {}", kind(&new.value))).map_err(Exn::from);
        };
        charge(items.len() / 4 + inserted.len());
        grow(16 * inserted.len());
        Arc::make_mut(items).splice(start..end, inserted.iter().cloned());
        Ok(Item::made(self.value, depth.max(new.depth).saturating_sub(1)))
    }

    fn as_bool(&self) -> bool {
        self.value.as_bool()
    }

    fn into_string(self) -> Self {
        match self.value {
            Val::BStr(_) | Val::TStr(_) => self,
            other => written(&other),
        }
    }
}

/// A value as the string of its JSON.
pub fn written(value: &Val) -> Item {
    let mut out = Vec::new();
    match crate::format::json::write_within(value, budget::room(), &mut out) {
        Ok(()) => {
            // Its writing cost far more than its copying.
            charge(out.len() / 8);
            budget::text(out.len());
            Item::bounded(Val::utf8_str(out), 0)
        }
        Err(_) => budget::exhaust("the expression makes more text than its budget"),
    }
}

fn missing<'a>(opt: Opt, item: Item, verb: &str) -> ItemX<'a> {
    match opt {
        Opt::Optional => Ok(item),
        Opt::Essential => fail(format!("cannot {verb} {}", kind(&item.value))).map_err(Exn::from),
    }
}

/// Why an index does not fit; names short keys, the author of the expression chose most of them.
fn describe(value: &Val, index: &Val) -> String {
    match index {
        Val::TStr(name) if name.len() <= 64 => {
            format!("cannot index {} with \"{}\"", kind(value), String::from_utf8_lossy(name))
        }
        other => format!("cannot index {} with {}", kind(value), kind(other)),
    }
}

/// Where a list stands within another.
pub fn windows<'a>(items: &'a [Val], wanted: &'a [Val]) -> impl Iterator<Item = usize> + 'a {
    let last = items.len().checked_sub(wanted.len()).filter(|_| !wanted.is_empty());
    let starts = last.map_or(0..0, |last| 0..last + 1);
    starts.filter(move |at| items[*at..].iter().zip(wanted).all(|(item, wanted)| same(item, wanted)))
}

impl jaq_std::ValT for Item {
    fn into_seq<S: FromIterator<Self>>(self) -> Result<S, Self> {
        let Val::Arr(items) = &self.value else { return Err(self) };
        charge(items.len());
        grow(24 * items.len());
        Ok(items.iter().map(|item| self.part(item.clone())).collect())
    }

    fn is_int(&self) -> bool {
        self.value.is_int()
    }

    fn as_isize(&self) -> Option<isize> {
        self.value.as_isize()
    }

    fn as_f64(&self) -> Option<f64> {
        charge(1 + length(&self.value) / 64);
        self.value.as_f64()
    }

    fn is_utf8_str(&self) -> bool {
        self.value.is_utf8_str()
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        charge(1 + length(&self.value) / 64);
        self.value.as_bytes()
    }

    fn as_sub_str(&self, sub: &[u8]) -> Self {
        charge(1);
        grow(48);
        Item::bounded(self.value.as_sub_str(sub), 0)
    }

    fn from_utf8_bytes(bytes: impl AsRef<[u8]> + Send + 'static) -> Self {
        budget::text(bytes.as_ref().len());
        Item::bounded(Val::from_utf8_bytes(bytes), 0)
    }
}

/// The message of an error: text as it is, other values as JSON.
pub fn text_of(fault: Fault) -> String {
    let value = fault.into_val().value;
    match value::as_str(&value) {
        Some(text) => text.to_owned(),
        None => value::as_str(&written(&value).value).unwrap_or_default().to_owned(),
    }
}
