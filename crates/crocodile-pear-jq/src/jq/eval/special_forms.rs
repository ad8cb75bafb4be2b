//! Functions that run their arguments themselves.

use std::cmp::Ordering;

use super::code::{Form, Node};
use super::machine::{Current, Flow, Machine, Out, Sees};
use super::paths;
use crate::jq::value::bounded::{self, Item};
use crate::jq::value::budget::{self, charge, grow};
use crate::jq::value::operators;
use crate::jq::value::runtime_error::{Fault, Stop, fail, refuse, thrown};
use crate::json::value::{self, Value};

pub fn run<'c>(
    machine: &Machine<'c>,
    form: Form,
    arguments: &'c [Node],
    sees: Sees<'c, '_>,
    current: Current,
    out: Out<'_>,
) -> Flow {
    match (form, arguments) {
        (Form::Empty, _) => Ok(()),
        (Form::Error, []) => Err(thrown(current.item).into()),
        (Form::Error, [message]) => machine.each(message, sees, current, &mut |found| Err(thrown(found.item).into())),
        (Form::Path, [inner]) => {
            let Current { item, place } = current;
            paths::each(machine, inner, sees, item, &mut |keys| {
                let depth = 2;
                grow(48 + 16 * keys.len());
                out(Current { item: Item::bounded(value::list(keys), depth), place: place.clone() })
            })
        }
        (Form::GetPath, [path]) => machine.each(path, sees, Current::of(current.item.clone()), &mut |path| {
            paths::walk(current.clone(), &paths::keys(&path.item)?, out)
        }),
        (Form::First, [inner]) => first(machine, inner, sees, current, out),
        (Form::Last, [inner]) => {
            let mut last = None;
            let Current { item, place } = current;
            let input = Current { item, place: place.clone() };
            machine.each(inner, sees, input, &mut |current| {
                last = Some(current.item);
                Ok(())
            })?;
            last.map_or(Ok(()), |item| out(Current { item, place }))
        }
        (Form::Limit, [count, inner]) => limit(machine, (count, inner), sees, current, out),
        (Form::Skip, [count, inner]) => skip(machine, (count, inner), sees, current, out),
        (Form::Until, [condition, next]) => until(machine, (condition, next), sees, current, out),
        (Form::While, [condition, next]) => tree(current, out, &mut |current, out, next_out| {
            machine.each(condition, sees, Current::of(current.item.clone()), &mut |found| {
                if !found.item.holds() {
                    return Ok(());
                }
                out(current.clone())?;
                machine.each(next, sees, current.clone(), next_out)
            })
        }),
        (Form::Repeat, [inner]) => loop {
            machine.each(inner, sees, current.clone(), out)?;
            charge(8);
        },
        (Form::Recurse, [next]) => tree(current, out, &mut |current, out, next_out| {
            out(current.clone())?;
            machine.each(next, sees, current, next_out)
        }),
        (Form::Range, [from, to]) => range(machine, (from, to), sees, current, out),
        (Form::Walk, [inner]) => {
            walk(machine, inner, sees, current.item, &mut |item| out(Current { item, place: current.place.clone() }))
        }
        (Form::ToStream, _) => {
            let Current { item, place } = current;
            let mut path = Vec::new();
            stream(&item, &mut path, true, &mut |event| out(Current { item: event, place: place.clone() }))
        }
        (Form::Builtins, _) => {
            let item = crate::jq::compile::library::names().into_iter().map(Item::from).collect();
            out(current.with(item))
        }
        (_, [key]) => {
            let item = keyed(machine, form, key, sees, &current.item)?;
            out(current.with(item))
        }
        _ => Ok(()),
    }
}

fn first<'c>(machine: &Machine<'c>, inner: &'c Node, sees: Sees<'c, '_>, current: Current, out: Out<'_>) -> Flow {
    let label = machine.mark();
    let mut found = None;
    match machine.each(inner, sees, current, &mut |current| {
        found = Some(current);
        Err(Stop::Break(label))
    }) {
        Err(Stop::Break(to)) if to == label => {}
        flow => flow?,
    }
    found.map_or(Ok(()), out)
}

fn count(item: &Item, name: &str) -> Result<f64, Fault> {
    let Value::Number(number) = &item.value else {
        // In jq's order other values come after numbers; null and booleans come before.
        let order = operators::compare(&item.value, &Value::from(0isize));
        return match order {
            Ordering::Less => fail(format!("{name} doesn't support negative count")),
            _ => refuse("^ and ^ cannot be subtracted", &[&item.value, &Value::from(1isize)]),
        };
    };
    let count = operators::float(number);
    if count < 0.0 || count.is_nan() { fail(format!("{name} doesn't support negative count")) } else { Ok(count) }
}

fn limit<'c>(
    machine: &Machine<'c>,
    (most, inner): (&'c Node, &'c Node),
    sees: Sees<'c, '_>,
    current: Current,
    out: Out<'_>,
) -> Flow {
    machine.each(most, sees, Current::of(current.item.clone()), &mut |most| {
        let mut left = count(&most.item, "limit")?;
        if left <= 0.0 {
            return Ok(());
        }
        let label = machine.mark();
        // Pass on the last output after the step has ended, so that no error of the step can follow it.
        let mut last = None;
        let flow = machine.each(inner, sees, current.clone(), &mut |current| {
            left -= 1.0;
            if left > 0.0 {
                return out(current);
            }
            last = Some(current);
            Err(Stop::Break(label))
        });
        match flow {
            Err(Stop::Break(to)) if to == label => last.map_or(Ok(()), &mut *out),
            flow => flow,
        }
    })
}

fn skip<'c>(
    machine: &Machine<'c>,
    (least, inner): (&'c Node, &'c Node),
    sees: Sees<'c, '_>,
    current: Current,
    out: Out<'_>,
) -> Flow {
    machine.each(least, sees, Current::of(current.item.clone()), &mut |least| {
        let mut left = count(&least.item, "skip")?;
        machine.each(inner, sees, current.clone(), &mut |current| {
            left -= 1.0;
            if left < 0.0 { out(current) } else { Ok(()) }
        })
    })
}

/// Remaining work: a value to continue with, or an error that comes after the outputs before it.
enum Pending {
    Next(Current),
    Fails(Stop),
}

/// Continues from each output to the next ones, depth first, without using the stack.
fn tree(current: Current, out: Out<'_>, step: &mut dyn FnMut(Current, Out<'_>, Out<'_>) -> Flow) -> Flow {
    let mut pending = vec![Pending::Next(current)];
    while let Some(next) = pending.pop() {
        let current = match next {
            Pending::Next(current) => current,
            Pending::Fails(stop) => return Err(stop),
        };
        // One turn costs several steps.
        charge(4);
        let start = pending.len();
        let mut handed = Ok(());
        let flow = step(
            current,
            &mut |current| {
                let flow = out(current);
                handed = if flow.is_err() { Err(()) } else { Ok(()) };
                flow
            },
            &mut |current| {
                charge(1);
                grow(64);
                pending.push(Pending::Next(current));
                Ok(())
            },
        );
        match flow {
            Ok(()) => {}
            Err(stop) if handed.is_err() => return Err(stop),
            Err(stop) => pending.push(Pending::Fails(stop)),
        }
        pending[start..].reverse();
    }
    Ok(())
}

/// `..`
pub fn descend(current: Current, out: Out<'_>) -> Flow {
    charge(1);
    out(current.clone())?;
    if !matches!(current.item.value, Value::List(_) | Value::Object(_)) {
        return Ok(());
    }
    if !current.stands() {
        return Err(crate::jq::value::runtime_error::tell(
            "Invalid path expression near attempt to iterate through @",
            &[&current.item.value],
        )
        .into());
    }
    for (key, item) in operators::children(&current.item)? {
        let place = match &current.place {
            Some(place) => Some(place.clone().part(key, item.value.clone())?),
            None => None,
        };
        descend(Current { item, place }, out)?;
    }
    Ok(())
}

fn until<'c>(
    machine: &Machine<'c>,
    (condition, next): (&'c Node, &'c Node),
    sees: Sees<'c, '_>,
    current: Current,
    out: Out<'_>,
) -> Flow {
    tree(current, out, &mut |current, out, next_out| {
        machine.each(condition, sees, Current::of(current.item.clone()), &mut |found| {
            if found.item.holds() { out(current.clone()) } else { machine.each(next, sees, current.clone(), next_out) }
        })
    })
}

fn range<'c>(
    machine: &Machine<'c>,
    (from, to): (&'c Node, &'c Node),
    sees: Sees<'c, '_>,
    current: Current,
    out: Out<'_>,
) -> Flow {
    machine.each(from, sees, Current::of(current.item.clone()), &mut |from| {
        machine.each(to, sees, Current::of(current.item.clone()), &mut |to| {
            let (Value::Number(from), Value::Number(to)) = (&from.item.value, &to.item.value) else {
                return fail("Range bounds must be numeric").map_err(Stop::from);
            };
            let (mut at, end) = (operators::float(from), operators::float(to));
            while at < end {
                charge(1);
                out(Current { item: at.into(), place: current.place.clone() })?;
                at += 1.0;
            }
            Ok(())
        })
    })
}

/// Changes the parts of a value, then the value itself.
fn walk<'c>(
    machine: &Machine<'c>,
    inner: &'c Node,
    sees: Sees<'c, '_>,
    item: Item,
    out: &mut dyn FnMut(Item) -> Flow,
) -> Flow {
    charge(2);
    let item = match &item.value {
        Value::List(items) => {
            let mut made = Vec::with_capacity(items.len().min(1024));
            for (_, part) in operators::children(&item)? {
                walk(machine, inner, sees, part, &mut |item| {
                    budget::push(&mut made, item);
                    Ok(())
                })?;
            }
            Item::list(made)
        }
        Value::Object(_) => {
            let mut fields = value::Fields::default();
            let mut depth = 0;
            grow(bounded::OBJECT);
            for (key, part) in operators::children(&item)? {
                let label = machine.mark();
                // Of several outputs, the first counts.
                let flow = walk(machine, inner, sees, part, &mut |item| {
                    grow(bounded::field(&item.value));
                    depth = depth.max(item.depth());
                    fields.insert(key.clone(), item.value);
                    Err(Stop::Break(label))
                });
                match flow {
                    Err(Stop::Break(to)) if to == label => {}
                    flow => flow?,
                }
            }
            Item::made(value::fields_of(fields), depth)
        }
        _ => item,
    };
    machine.each(inner, sees, Current::of(item), &mut |current| out(current.item))
}

/// The events of a value: each leaf with its path, and the ends of lists and objects.
fn stream(item: &Item, path: &mut Vec<Value>, top: bool, out: &mut dyn FnMut(Item) -> Flow) -> Flow {
    charge(2 + path.len());
    grow(96 + 16 * path.len());
    let event = |path: &[Value]| Item::bounded(value::list(path.to_vec()), 1);
    let length = match &item.value {
        Value::List(_) | Value::Object(_) => operators::length(&item.value),
        _ => 0,
    };
    if length == 0 {
        return out(Item::list(vec![event(path), item.clone()]));
    }
    for (at, (key, part)) in operators::children(item)?.enumerate() {
        path.push(key);
        stream(&part, path, false, out)?;
        if at + 1 == length {
            out(Item::list(vec![event(path)]))?;
        }
        path.pop();
    }
    let _ = top;
    Ok(())
}

/// `sort_by` and similar: each item with the output of the argument for it.
fn keyed<'c>(machine: &Machine<'c>, form: Form, key: &'c Node, sees: Sees<'c, '_>, item: &Item) -> Result<Item, Stop> {
    let mut pairs = Vec::new();
    let mut keys = Vec::new();
    for (_, part) in operators::children(item)? {
        let made = machine.collect(key, sees, part.clone())?;
        grow(64);
        pairs.push((made, part));
    }
    if !matches!(item.value, Value::List(_)) {
        keys.extend(pairs.iter().map(|(key, _)| key.clone()));
        let keys = Item::list(keys);
        let pattern = match form {
            Form::MinBy | Form::MaxBy => "^ and ^ cannot be iterated over",
            _ => "^ and ^ cannot be sorted, as they are not both arrays",
        };
        return refuse(pattern, &[&item.value, &keys.value]).map_err(Stop::from);
    }
    if let Form::MinBy | Form::MaxBy = form {
        return Ok(extreme(pairs, form));
    }
    pairs.sort_by(|(left, _), (right, _)| operators::compare(&left.value, &right.value));
    if let Form::SortBy = form {
        return Ok(Item::list(pairs.into_iter().map(|(_, item)| item).collect()));
    }
    let mut groups: Vec<Vec<Item>> = Vec::new();
    let mut last: Option<Item> = None;
    for (key, item) in pairs {
        let same = last.as_ref().is_some_and(|last| operators::same(&last.value, &key.value));
        match groups.last_mut() {
            Some(group) if same => {
                if let Form::GroupBy = form {
                    group.push(item);
                }
            }
            _ => groups.push(vec![item]),
        }
        last = Some(key);
    }
    if let Form::GroupBy = form {
        return Ok(Item::list(groups.into_iter().map(Item::list).collect()));
    }
    Ok(Item::list(groups.into_iter().flatten().collect()))
}

/// The smallest item, the first one if several are equal; or the largest item, the last one if several are equal.
fn extreme(pairs: Vec<(Item, Item)>, form: Form) -> Item {
    let mut pairs = pairs.into_iter();
    let Some(mut best) = pairs.next() else { return Item::null() };
    for pair in pairs {
        let less = operators::compare(&pair.0.value, &best.0.value).is_lt();
        if less == (form == Form::MinBy) {
            best = pair;
        }
    }
    best.1
}
