//! A value during evaluation, and the operators on it. Every operation is charged to the budget.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

pub use super::bounded::{Item, OBJECT, field, weight};
use super::budget::{self, charge, grow};
use super::runtime_error::{Fault, fail, refuse};
use crate::json::value::{self, Fields, Number, Value, kind};

/// Largest integer, in bits: multiplication takes quadratic time.
const BITS: u64 = 4096;

/// The largest index that may be set in a list, as in jq.
const PLACES: f64 = 536_870_911.0;

pub type ItemR = Result<Item, Fault>;

/// Whether two values are the same: the same part of the same document, or equal scalars.
pub fn identical(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Number(Number::Float(left)), Value::Number(Number::Float(right))) => left.to_bits() == right.to_bits(),
        (Value::Number(left), Value::Number(right)) => left == right,
        (Value::Text(left), Value::Text(right)) => left.as_ptr() == right.as_ptr() && left.len() == right.len(),
        (Value::List(left), Value::List(right)) => Arc::ptr_eq(left, right),
        (Value::Object(left), Value::Object(right)) => Arc::ptr_eq(left, right),
        _ => false,
    }
}

pub fn same(left: &Value, right: &Value) -> bool {
    charge(1);
    match (left, right) {
        (Value::List(left), Value::List(right)) => {
            left.len() == right.len() && left.iter().zip(right.iter()).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let found = |(key, left)| right.get(key).is_some_and(|right| same(left, right));
            left.len() == right.len() && left.iter().all(found)
        }
        // nan equals nothing, not even itself.
        (Value::Number(one), Value::Number(other)) => {
            charge((length(left) + length(right)) / 64);
            !is_nan(one) && !is_nan(other) && one == other
        }
        _ => scalars(left, right) == Ordering::Equal,
    }
}

fn is_nan(number: &Number) -> bool {
    matches!(number, Number::Float(number) if number.is_nan())
}

/// Compares in jq's order.
pub fn compare(left: &Value, right: &Value) -> Ordering {
    charge(1);
    match (left, right) {
        (Value::List(left), Value::List(right)) => {
            let unequal = left.iter().zip(right.iter()).map(|(left, right)| compare(left, right)).find(|it| it.is_ne());
            unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => objects(left, right),
        _ => scalars(left, right),
    }
}

/// Compares the keys first, then the values.
fn objects(left: &Fields, right: &Fields) -> Ordering {
    charge(8 * (left.len() + right.len()));
    let (keys, others) = (sorted(left), sorted(right));
    let values = || keys.iter().map(|key| compare(&left[key], &right[key])).find(|it| it.is_ne());
    keys.cmp(&others).then_with(|| values().unwrap_or(Ordering::Equal))
}

/// The keys of an object, in order.
pub fn sorted(fields: &Fields) -> Vec<Value> {
    let mut keys: Vec<Value> = fields.keys().cloned().collect();
    charge(keys.iter().map(|key| 4 + length(key) / 16).sum());
    keys.sort();
    keys
}

fn scalars(left: &Value, right: &Value) -> Ordering {
    // To compare texts costs the length of the shorter one. To compare numbers costs both lengths, since both are parsed.
    charge(
        match (left, right) {
            (Value::Number(_), Value::Number(_)) => length(left) + length(right),
            _ => length(left).min(length(right)),
        } / 64,
    );
    match (left, right) {
        (Value::List(_) | Value::Object(_), _) | (_, Value::List(_) | Value::Object(_)) => {
            left.rank().cmp(&right.rank())
        }
        _ => left.cmp(right),
    }
}

/// Length in bytes of a string, or of a literal, weighted by the cost of parsing; the number of items of a list or
/// object.
pub fn length(value: &Value) -> usize {
    match value {
        Value::Bytes(text) | Value::Text(text) => text.len(),
        Value::Number(number) => length_of(number),
        Value::List(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

/// Charges the memory for a copy of each of these values.
pub fn grow_by(items: &[Value]) {
    grow(items.iter().map(weight).sum());
}

fn grow_by_fields(fields: &Fields) {
    grow(fields.values().map(field).sum());
}

/// Charges the copy that changing a shared list or object needs.
pub fn unshare(value: &Value) {
    match value {
        Value::List(items) if Arc::strong_count(items) > 1 => {
            charge(1 + items.len() / 4);
            grow_by(items);
        }
        Value::Object(fields) if Arc::strong_count(fields) > 1 => {
            charge(1 + fields.len());
            grow(OBJECT);
            grow_by_fields(fields);
        }
        _ => charge(1),
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
        // Keep integers as integers, so that their sums stay exact.
        if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
            return Item::bounded((number as isize).into(), 0);
        }
        Item::bounded(number.into(), 0)
    }
}

impl From<String> for Item {
    fn from(text: String) -> Self {
        budget::text(text.len());
        Item::bounded(value::text(text), 0)
    }
}

impl From<Vec<u8>> for Item {
    fn from(text: Vec<u8>) -> Self {
        budget::text(text.len());
        Item::bounded(value::text(text), 0)
    }
}

impl From<&'static str> for Item {
    fn from(text: &'static str) -> Self {
        charge(1);
        grow(48);
        Item::bounded(value::text(Bytes::from_static(text.as_bytes())), 0)
    }
}

impl FromIterator<Item> for Item {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        let mut depth = 0;
        grow(48);
        let plain = items.into_iter().map(|item| {
            charge(1);
            grow(8 + weight(&item.value));
            depth = depth.max(item.depth);
            item.value
        });
        let list = value::list(plain.collect());
        Item::made(list, depth)
    }
}

/// A number as a machine float.
pub fn float(number: &Number) -> f64 {
    charge(length_of(number) / 64);
    number.to_float()
}

fn length_of(number: &Number) -> usize {
    match number {
        Number::Literal(literal) => 8 * literal.len(),
        Number::BigInt(number) => number.bits() as usize,
        _ => 0,
    }
}

pub fn add(left: Item, right: Item) -> ItemR {
    let depth = left.depth.max(right.depth);
    match (left.value, right.value) {
        (Value::Null, other) | (other, Value::Null) => {
            charge(1);
            Ok(Item::bounded(other, depth))
        }
        (Value::Number(left), Value::Number(right)) => {
            charge(1 + (length_of(&left) + length_of(&right)) / 64);
            Ok(Item::bounded(number(left.plus(&right)), 0))
        }
        (Value::Text(left), Value::Text(right)) => {
            budget::text(left.len() + right.len());
            // Extends the left string in place if nobody else holds it.
            let mut bytes = bytes::BytesMut::from(*left);
            bytes.extend_from_slice(&right);
            Ok(Item::bounded(value::text(bytes), 0))
        }
        (Value::List(mut left), Value::List(right)) => {
            unshare_list(&left);
            charge(right.len());
            grow(8 * right.len());
            grow_by(&right);
            Arc::make_mut(&mut left).extend(right.iter().cloned());
            Ok(Item::bounded(Value::List(left), depth))
        }
        (Value::Object(left), Value::Object(right)) => {
            let mut left = Value::Object(left);
            unshare(&left);
            charge(2 * right.len());
            grow_by_fields(&right);
            if let Value::Object(fields) = &mut left {
                Arc::make_mut(fields).extend(right.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            Ok(Item::bounded(left, depth))
        }
        (left, right) => refuse("^ and ^ cannot be added", &[&left, &right]),
    }
}

fn unshare_list(items: &Arc<Vec<Value>>) {
    if Arc::strong_count(items) > 1 {
        charge(1 + items.len() / 4);
        grow_by(items);
    } else {
        charge(1);
    }
}

/// A sum or product; integers stay integers.
fn number(number: Number) -> Value {
    match number {
        Number::Float(number) => Item::from(number).value,
        number => Value::Number(number),
    }
}

pub fn subtract(left: Item, right: Item) -> ItemR {
    charge(1);
    match (&left.value, &right.value) {
        (Value::Number(one), Value::Number(other)) => {
            charge((length_of(one) + length_of(other)) / 64);
            Ok(Item::bounded(number(one.minus(other)), 0))
        }
        (Value::List(items), Value::List(others)) => {
            // nan equals nothing.
            let mut sorted: Vec<&Value> = others.iter().filter(|item| same(item, item)).collect();
            sorted.sort_by(|left, right| compare(left, right));
            let kept =
                |item: &&Value| sorted.binary_search_by(|other| compare(other, item)).is_err() || !same(item, item);
            Ok(items.iter().filter(kept).map(|item| left.part(item.clone())).collect())
        }
        (left, right) => refuse("^ and ^ cannot be subtracted", &[left, right]),
    }
}

pub fn multiply(left: Item, right: Item) -> ItemR {
    let depth = left.depth.max(right.depth);
    charge(1);
    match (&left.value, &right.value) {
        (Value::Text(text), Value::Number(times)) | (Value::Number(times), Value::Text(text)) => {
            repeat(text, float(times))
        }
        (Value::Number(left), Value::Number(right)) => {
            let bits = bits(left) + bits(right);
            if bits > BITS {
                return fail("the number becomes too large");
            }
            charge((bits as usize + length_of(left) + length_of(right)) / 64);
            Ok(Item::bounded(number(left.times(right)), 0))
        }
        (Value::Object(_), Value::Object(other)) => {
            let mut merged = left.value.clone();
            drop(left.value);
            merge(&mut merged, other);
            Ok(Item::bounded(merged, depth))
        }
        (left, right) => refuse("^ and ^ cannot be multiplied", &[left, right]),
    }
}

fn repeat(text: &Bytes, times: f64) -> ItemR {
    if times < 0.0 || times.is_nan() {
        return Ok(Item::null());
    }
    let length = (text.len() as f64 * times.trunc()).min(2e9) as usize;
    if length >= 1 << 30 {
        return fail("Repeat string result too long");
    }
    budget::text(length);
    let times = if text.is_empty() { 0 } else { length / text.len() };
    Ok(Item::bounded(value::text(text.repeat(times)), 0))
}

/// Merges the fields of one object into another, and recursively the objects in them.
fn merge(left: &mut Value, right: &Fields) {
    unshare(left);
    let Value::Object(fields) = left else { return };
    let fields = Arc::make_mut(fields);
    for (key, value) in right {
        charge(2);
        grow(field(value));
        match (fields.get_mut(key), value) {
            (Some(inner @ Value::Object(_)), Value::Object(value)) => merge(inner, value),
            (Some(inner), value) => *inner = value.clone(),
            (None, value) => drop(fields.insert(key.clone(), value.clone())),
        }
    }
}

fn bits(number: &Number) -> u64 {
    match number {
        Number::Int(number) => u64::from(isize::BITS - number.unsigned_abs().leading_zeros()),
        Number::BigInt(number) => number.bits(),
        _ => 0,
    }
}

pub fn divide(left: Item, right: Item) -> ItemR {
    charge(1 + (length(&left.value) + length(&right.value)) / 64);
    match (&left.value, &right.value) {
        (Value::Number(one), Value::Number(other)) => {
            let divisor = float(other);
            if divisor == 0.0 {
                return refuse("^ and ^ cannot be divided because the divisor is zero", &[&left.value, &right.value]);
            }
            // Integers that divide without a remainder stay exact.
            if let (Number::Int(one), Number::Int(other)) = (one, other)
                && let (Some(0), Some(whole)) = (one.checked_rem(*other), one.checked_div(*other))
            {
                return Ok(whole.into());
            }
            Ok((float(one) / divisor).into())
        }
        (Value::Text(text), Value::Text(separator)) => Ok(split(text, separator)),
        (left, right) => refuse("^ and ^ cannot be divided", &[left, right]),
    }
}

/// `left % right`: both are truncated to integers.
pub fn remainder(left: Item, right: Item) -> ItemR {
    charge(1 + (length(&left.value) + length(&right.value)) / 64);
    match (&left.value, &right.value) {
        (Value::Number(one), Value::Number(other)) => {
            if is_nan(one) || is_nan(other) {
                return Ok(f64::NAN.into());
            }
            match (one, other) {
                (_, other) if whole(other) == 0 => refuse(
                    "^ and ^ cannot be divided (remainder) because the divisor is zero",
                    &[&left.value, &right.value],
                ),
                (one, other) => Ok((whole(one).checked_rem(whole(other)).unwrap_or(0) as isize).into()),
            }
        }
        (left, right) => refuse("^ and ^ cannot be divided (remainder)", &[left, right]),
    }
}

/// A number truncated to a machine integer.
fn whole(number: &Number) -> i64 {
    match number {
        Number::Int(number) => *number as i64,
        other => float(other) as i64,
    }
}

pub fn negate(item: Item) -> ItemR {
    charge(1 + length(&item.value) / 64);
    match item.value {
        Value::Number(Number::Int(0)) => Ok(item),
        Value::Number(number) => Ok(Item::bounded(Value::Number(number.negated()), 0)),
        other => refuse("^ cannot be negated", &[&other]),
    }
}

/// The parts of a text between separators.
pub fn split(text: &Bytes, separator: &[u8]) -> Item {
    pieces(text, separator).map(|piece| Item::text(text.slice_ref(piece))).collect()
}

/// The parts of a text; its characters if the separator is empty.
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

/// Splits bytes where characters begin.
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

/// The number of characters in a text.
pub fn characters(text: &[u8]) -> usize {
    charge(text.len() / 64);
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// An index into a list. A negative one counts from the end; fractions are truncated.
pub fn place(index: &Number, length: usize) -> Option<usize> {
    let index = match index {
        Number::Int(index) => *index,
        other => {
            let index = float(other);
            if index.is_nan() {
                return None;
            }
            index as isize
        }
    };
    usize::try_from(index).ok().or_else(|| length.checked_sub(index.unsigned_abs()))
}

/// The bounds of a slice of a list of this length: the start is rounded down, the end up.
pub fn bounds(from: &Value, to: &Value, length: usize) -> Result<(usize, usize), Fault> {
    let number = |value: &Value, default: f64| match value {
        Value::Null => Ok(default),
        Value::Number(number) => Ok(float(number)),
        _ => fail("Array/string slice indices must be integers"),
    };
    let all = length as f64;
    let (mut start, mut end) = (number(from, 0.0)?, number(to, all)?);
    if start.is_nan() {
        start = 0.0;
    }
    if end.is_nan() {
        end = all;
    }
    if start < 0.0 {
        start += all;
    }
    let start = start.clamp(0.0, all) as usize;
    if end < 0.0 {
        end += all;
    }
    let end = if end < 0.0 { start } else { end.ceil().min(all) as usize };
    Ok((start, end.max(start)))
}

/// The start and end of a slice, from the object that represents it.
pub fn range(slice: &Fields, length: usize) -> Result<(usize, usize), Fault> {
    let (from, to) = ends(slice)?;
    bounds(from, to, length)
}

fn ends(slice: &Fields) -> Result<(&Value, &Value), Fault> {
    match (slice.get(&value::string("start")), slice.get(&value::string("end"))) {
        (Some(from), Some(to)) => Ok((from, to)),
        _ => fail("Array/string slice indices must be integers"),
    }
}

/// The object that represents a slice in a path.
pub fn slice_key(from: Value, to: Value) -> Value {
    grow(OBJECT);
    value::object([("start", from), ("end", to)])
}

/// `.[key]`
pub fn index(item: &Item, key: &Value) -> ItemR {
    charge(1);
    match (&item.value, key) {
        (Value::Object(fields), Value::Text(name)) => {
            charge(name.len() / 64);
            Ok(item.part(fields.get(key).cloned().unwrap_or_default()))
        }
        (Value::List(items), Value::Number(number)) => {
            let found = place(number, items.len()).and_then(|at| items.get(at)).cloned();
            Ok(item.part(found.unwrap_or_default()))
        }
        (Value::List(items), Value::List(wanted)) => Ok(windows(items, wanted)),
        (Value::Null, Value::Text(_) | Value::Number(_) | Value::Object(_)) => Ok(Item::null()),
        (Value::List(_) | Value::Text(_), Value::Object(slice)) => {
            let (from, to) = ends(slice)?;
            self::slice(item, from, to)
        }
        (value, key) => Err(super::runtime_error::misfit(value, key)),
    }
}

/// `.[from:to]`
pub fn slice(item: &Item, from: &Value, to: &Value) -> ItemR {
    charge(1);
    match &item.value {
        Value::Null => Ok(Item::null()),
        Value::List(items) => {
            let (start, end) = bounds(from, to, items.len())?;
            charge(end - start);
            grow_by(&items[start..end]);
            Ok(Item::bounded(value::list(items[start..end].to_vec()), item.depth))
        }
        Value::Text(text) => {
            charge(text.len() / 16);
            let (start, end) = bounds(from, to, characters(text))?;
            Ok(Item::text(text.slice_ref(cut(text, start, end))))
        }
        other => Err(super::runtime_error::misfit(other, &slice_key(from.clone(), to.clone()))),
    }
}

/// The characters of a text from one index to another.
fn cut(text: &[u8], start: usize, end: usize) -> &[u8] {
    if text.is_ascii() {
        return &text[start..end];
    }
    let mut starts = text.iter().enumerate().filter(|(_, byte)| **byte & 0xc0 != 0x80).map(|(at, _)| at);
    let from = starts.nth(start).unwrap_or(text.len());
    let to = match end.checked_sub(start + 1) {
        None => from,
        Some(more) => starts.nth(more).unwrap_or(text.len()),
    };
    &text[from..to.max(from)]
}

/// The positions where a list occurs within another.
pub fn windows(items: &[Value], wanted: &[Value]) -> Item {
    if wanted.is_empty() {
        return Item::list(Vec::new());
    }
    let last = items.len().checked_sub(wanted.len());
    let starts = last.map_or(0..0, |last| 0..last + 1);
    let found = |at: &usize| items[*at..].iter().zip(wanted).all(|(item, wanted)| same(item, wanted));
    starts.filter(found).map(Item::from).collect()
}

/// The items of a list or the values of an object, with their keys.
pub fn children(item: &Item) -> Result<impl Iterator<Item = (Value, Item)> + use<>, Fault> {
    let depth = item.depth.saturating_sub(1);
    let (list, fields) = match &item.value {
        Value::List(items) => (Some(items.clone()), None),
        Value::Object(fields) => (None, Some(fields.clone())),
        other => return refuse("Cannot iterate over ^", &[other]),
    };
    let length = length(&item.value);
    Ok((0..length).map_while(move |at| {
        charge(1);
        if let Some(items) = &list {
            return Some((Value::from(at), Item::bounded(items.get(at)?.clone(), depth)));
        }
        let (key, value) = fields.as_ref()?.get_index(at)?;
        Some((key.clone(), Item::bounded(value.clone(), depth)))
    }))
}

/// Sets a part. On null it makes a list or object.
pub fn set(item: Item, key: &Value, new: Item) -> ItemR {
    let depth = item.depth.max(new.depth + 1);
    let mut value = item.value;
    unshare(&value);
    if let Value::Null = value {
        value = match key {
            Value::Text(_) => value::fields_of(Fields::default()),
            Value::Number(_) | Value::Object(_) => value::list(Vec::new()),
            _ => Value::Null,
        };
    }
    match (&mut value, key) {
        (Value::Object(fields), Value::Text(_)) => {
            grow(field(&new.value));
            Arc::make_mut(fields).insert(key.clone(), new.value);
        }
        (Value::List(items), Value::Number(number)) => {
            let at = slot(number, items.len())?;
            let items = Arc::make_mut(items);
            if at >= items.len() {
                charge(at - items.len());
                grow((at + 1 - items.len()).saturating_mul(16));
                items.resize(at + 1, Value::Null);
            }
            items[at] = new.value;
        }
        (Value::List(items), Value::Object(slice)) => {
            let (start, end) = range(slice, items.len())?;
            let Value::List(inserted) = &new.value else {
                return fail("A slice of an array can only be assigned another array");
            };
            charge(items.len() / 4 + inserted.len());
            grow_by(inserted);
            Arc::make_mut(items).splice(start..end, inserted.iter().cloned());
        }
        (Value::Text(_), Value::Object(_)) => return fail("Cannot update string slices"),
        (value, key) => {
            return fail(format!("Cannot update field at {} index of {}", kind(key), kind(value)));
        }
    }
    Ok(Item::made(value, depth.saturating_sub(1)))
}

fn slot(number: &Number, length: usize) -> Result<usize, Fault> {
    let wanted = float(number);
    if wanted.is_nan() {
        return fail("Cannot set array element at NaN index");
    }
    if wanted > PLACES {
        return fail("Array index too large");
    }
    match place(number, length) {
        Some(at) => Ok(at),
        None => fail("Out of bounds negative array index"),
    }
}

/// Takes a part out and leaves null, so that the part can be changed in place.
pub fn take(item: &mut Item, key: &Value) -> ItemR {
    let inner = item.depth.saturating_sub(1);
    match (&mut item.value, key) {
        (Value::Object(fields), Value::Text(_)) if Arc::strong_count(fields) == 1 => {
            charge(1);
            let found = Arc::make_mut(fields).get_mut(key).map(std::mem::take);
            Ok(Item::bounded(found.unwrap_or_default(), inner))
        }
        (Value::List(items), Value::Number(number)) if Arc::strong_count(items) == 1 => {
            charge(1);
            let at = place(number, items.len());
            let found = at.and_then(|at| Arc::make_mut(items).get_mut(at)).map(std::mem::take);
            Ok(Item::bounded(found.unwrap_or_default(), inner))
        }
        _ => index(item, key),
    }
}

/// The JSON of a value, as a string.
pub fn written(value: &Value) -> Item {
    let canonical = canonical(value);
    let mut out = Vec::new();
    match crate::json::write_within(canonical.as_ref().unwrap_or(value), budget::room(), &mut out) {
        Ok(()) => {
            // Writing it cost far more than copying it.
            charge(out.len() / 8);
            Item::from(out)
        }
        Err(_) => budget::exhaust("the expression makes more text than its budget"),
    }
}

/// The value with jq's form of each number literal (`1E+2` for `1e2`); `None` if all literals have it already.
fn canonical(value: &Value) -> Option<Value> {
    charge(1);
    match value {
        Value::Number(Number::Literal(literal)) => {
            charge(literal.len());
            let text = literal_form(literal)?;
            (text != **literal).then(|| Value::Number(Number::Literal(text.into())))
        }
        Value::List(items) => {
            let found = items.iter().enumerate().find_map(|(at, item)| Some((at, canonical(item)?)));
            let (at, first) = found?;
            grow_by(items);
            let rest = items[at + 1..].iter().map(|item| canonical(item).unwrap_or_else(|| item.clone()));
            Some(value::list(items[..at].iter().cloned().chain([first]).chain(rest).collect()))
        }
        Value::Object(fields) => {
            let (at, first) = fields.values().enumerate().find_map(|(at, item)| Some((at, canonical(item)?)))?;
            grow(OBJECT);
            grow_by_fields(fields);
            let mut fields = (**fields).clone();
            fields[at] = first;
            fields.values_mut().skip(at + 1).for_each(|item| {
                if let Some(canonical) = canonical(item) {
                    *item = canonical;
                }
            });
            Some(value::fields_of(fields))
        }
        _ => None,
    }
}

/// A number in the form of the General Decimal Arithmetic Specification (to-scientific-string); `None` if its exponent
/// is out of range.
fn literal_form(literal: &str) -> Option<String> {
    let (sign, number) = literal.strip_prefix('-').map_or(("", literal), |number| ("-", number));
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let coefficient = all.trim_start_matches('0');
    let coefficient = if coefficient.is_empty() { "0" } else { coefficient };
    let exponent = exponent.checked_sub(fraction.len() as i64)?;
    let count = coefficient.len() as i64;
    let adjusted = exponent.checked_add(count - 1)?;
    if exponent > 0 || adjusted < -6 {
        let (first, rest) = coefficient.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let power = if adjusted < 0 { "" } else { "+" };
        return Some(format!("{sign}{first}{point}{rest}E{power}{adjusted}"));
    }
    if exponent == 0 {
        return Some(format!("{sign}{coefficient}"));
    }
    let behind = exponent.unsigned_abs() as usize;
    let padded = format!("{coefficient:0>width$}", width = behind + 1);
    let (whole, fraction) = padded.split_at(padded.len() - behind);
    Some(format!("{sign}{whole}.{fraction}"))
}

/// A string unchanged, any other value as its JSON.
pub fn string(item: Item) -> Item {
    match item.value {
        Value::Text(_) => item,
        other => written(&other),
    }
}
