//! Paths: finding, setting and deleting parts.

use std::sync::Arc;

use super::code::Node;
use super::machine::{Current, Flow, Machine, Out, Sees};
use crate::jq::value::bounded::{self, Item};
use crate::jq::value::budget::{charge, grow};
use crate::jq::value::operators::{self, ItemR};
use crate::jq::value::runtime_error::{Fault, Stop, fail};
use crate::json::value::{self, Fields, Value, kind};

/// Largest number of keys in a path, as in jq.
pub const LONGEST: usize = 10_000;

/// Finds the places of the outputs of a step.
pub fn each<'c>(
    machine: &Machine<'c>,
    node: &'c Node,
    sees: Sees<'c, '_>,
    item: Item,
    found: &mut dyn FnMut(Vec<Value>) -> Flow,
) -> Flow {
    machine.each(node, sees, Current::root(item), &mut |current| {
        if !current.stands() {
            let value = &current.item.value;
            return Err(crate::jq::value::runtime_error::tell("Invalid path expression with result @", &[value]).into());
        }
        let keys = current.place.as_ref().map(|place| place.keys()).unwrap_or_default();
        charge(keys.len());
        found(keys)
    })
}

/// Changes the value at each place that a step finds. If the change has no output, the place is deleted at the end.
pub fn update<'c>(
    machine: &Machine<'c>,
    node: &'c Node,
    sees: Sees<'c, '_>,
    item: Item,
    change: &mut dyn FnMut(Item, Out<'_>) -> Flow,
) -> Result<Item, Stop> {
    let mut root = item.clone();
    let mut gone = Vec::new();
    each(machine, node, sees, item, &mut |keys| {
        let label = machine.mark();
        let mut old = Some(taken(&mut root, &keys)?);
        let mut new = None;
        // Only the first output counts.
        let flow = change(old.take().unwrap_or(Item::null()), &mut |current| {
            new = Some(current.item);
            Err(Stop::Break(label))
        });
        match flow {
            Err(Stop::Break(found)) if found == label => {}
            flow => flow?,
        }
        match new {
            Some(new) => root = set(std::mem::replace(&mut root, Item::null()), &keys, new)?,
            None => {
                grow(24 * keys.len());
                gone.push(keys);
            }
        }
        Ok(())
    })?;
    Ok(delete(root, gone)?)
}

/// The value at a place, which the caller sets or deletes next. It is taken out if nobody else holds it, so that it can
/// be changed without a copy.
fn taken(root: &mut Item, keys: &[Value]) -> ItemR {
    match keys {
        [] => Ok(std::mem::replace(root, Item::null())),
        [key] => operators::take(root, key),
        _ => get(root, keys),
    }
}

/// The value at a place; null if there is none.
pub fn get(root: &Item, keys: &[Value]) -> ItemR {
    if keys.len() > LONGEST {
        return fail("Path too deep");
    }
    let mut found = root.clone();
    for key in keys {
        found = operators::index(&found, key)?;
    }
    Ok(found)
}

/// Sets the value at a place, and creates missing parts on the way.
pub fn set(mut root: Item, keys: &[Value], new: Item) -> ItemR {
    if keys.len() > crate::jq::value::bounded::LIMIT as usize {
        return fail("Path too deep");
    }
    let Some((key, rest)) = keys.split_first() else { return Ok(new) };
    if rest.is_empty() {
        // A place that cannot be read cannot be set, except slices of text.
        if !matches!(
            (&root.value, key),
            (Value::Object(_), Value::Text(_)) | (Value::List(_), Value::Number(_)) | (_, Value::Object(_))
        ) {
            operators::index(&root, key)?;
        }
        return operators::set(root, key, new);
    }
    let inner = operators::take(&mut root, key)?;
    operators::set(root, key, set(inner, rest, new)?)
}

/// Deletes places. All paths refer to the value before any deletion.
pub fn delete(root: Item, mut paths: Vec<Vec<Value>>) -> ItemR {
    if paths.is_empty() {
        return Ok(root);
    }
    charge(paths.len());
    paths.sort_by(|left, right| compare(left, right));
    if paths[0].is_empty() {
        return Ok(Item::null());
    }
    let paths: Vec<&[Value]> = paths.iter().map(Vec::as_slice).collect();
    sorted(root, &paths)
}

fn compare(left: &[Value], right: &[Value]) -> std::cmp::Ordering {
    let unequal =
        left.iter().zip(right).map(|(left, right)| operators::compare(left, right)).find(|order| order.is_ne());
    unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Deletes by sorted paths, none of them empty.
fn sorted(mut root: Item, paths: &[&[Value]]) -> ItemR {
    let mut gone = Vec::new();
    let mut rest = paths;
    while let Some((first, _)) = rest.split_first() {
        let key = &first[0];
        let count = rest.iter().take_while(|path| operators::compare(&path[0], key).is_eq()).count().max(1);
        let (group, after) = rest.split_at(count);
        rest = after;
        if first.len() == 1 {
            gone.push(key);
            continue;
        }
        let inner = operators::index(&root, key)?;
        if let Value::Null = inner.value {
            continue;
        }
        let inner = operators::take(&mut root, key).unwrap_or(inner);
        let group: Vec<&[Value]> = group.iter().map(|path| &path[1..]).collect();
        root = operators::set(root, key, sorted(inner, &group)?)?;
    }
    if gone.is_empty() { Ok(root) } else { without(root, &gone) }
}

/// A value without some of its parts.
fn without(root: Item, keys: &[&Value]) -> ItemR {
    let depth = root.depth();
    let value = match root.value {
        Value::Null => Value::Null,
        Value::List(items) => value::list(items_without(&items, keys)?),
        Value::Object(fields) => value::fields_of(fields_without(fields, keys)?),
        other => return fail(format!("Cannot delete fields from {}", kind(&other))),
    };
    Ok(Item::bounded(value, depth))
}

fn items_without(items: &[Value], keys: &[&Value]) -> Result<Vec<Value>, Fault> {
    charge(items.len() / 4 + keys.len());
    operators::grow_by(items);
    let mut gone = vec![false; items.len()];
    for key in keys {
        match key {
            Value::Number(number) => {
                let at = operators::place(number, items.len()).and_then(|at| gone.get_mut(at));
                at.into_iter().for_each(|gone| *gone = true);
            }
            Value::Object(slice) => {
                let (start, end) = operators::range(slice, items.len())?;
                charge(end - start);
                gone[start..end].fill(true);
            }
            other => return fail(format!("Cannot delete {} element of array", kind(other))),
        }
    }
    Ok(items.iter().zip(&gone).filter(|(_, gone)| !**gone).map(|(item, _)| item.clone()).collect())
}

fn fields_without(fields: Arc<Fields>, keys: &[&Value]) -> Result<Fields, Fault> {
    let mut fields = Arc::unwrap_or_clone(fields);
    charge(fields.len() + keys.len());
    grow(fields.values().map(bounded::field).sum());
    for key in keys {
        if !matches!(key, Value::Text(_)) {
            return fail(format!("Cannot delete {} field of object", kind(key)));
        }
    }
    let gone: std::collections::HashSet<&Value> = keys.iter().copied().collect();
    fields.retain(|key, _| !gone.contains(key));
    Ok(fields)
}

/// A path from the value that represents it in an expression.
pub fn keys(path: &Item) -> Result<Vec<Value>, Fault> {
    match &path.value {
        Value::List(keys) => {
            charge(keys.len());
            Ok(keys.to_vec())
        }
        _ => fail("Path must be specified as an array"),
    }
}

/// `getpath`; it tracks places, too.
pub fn walk(mut current: Current, keys: &[Value], out: Out<'_>) -> Flow {
    let found = get(&current.item, keys)?;
    if let Some(mut place) = current.place.take() {
        if operators::identical(&place.value, &current.item.value) {
            let mut at = current.item.clone();
            for key in keys {
                at = operators::index(&at, key)?;
                place = place.part(key.clone(), at.value.clone())?;
            }
        }
        return out(Current { item: found, place: Some(place) });
    }
    out(Current::of(found))
}
