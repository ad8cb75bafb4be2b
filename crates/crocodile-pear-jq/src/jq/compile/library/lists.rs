//! Lists: sorting, removing duplicates, flattening, searching.

use crate::jq::eval::code::Named;
use crate::jq::value::bounded::Item;
use crate::jq::value::budget::{self, charge};
use crate::jq::value::operators::{self, ItemR};
use crate::jq::value::runtime_error::{Fault, fail, refuse};
use crate::json::value::Value;

pub const NATIVES: &[Named] = &[
    (("sort", 0), |it, _| Ok(Item::list(ordered(&it)?))),
    (("unique", 0), |it, _| unique(&it)),
    (("min", 0), |it, _| extreme(&it, false)),
    (("max", 0), |it, _| extreme(&it, true)),
    (("reverse", 0), |it, _| reverse(&it)),
    (("bsearch", 1), bsearch),
    (("flatten", 0), |it, _| flat(&it, f64::INFINITY)),
    (("flatten", 1), flatten),
    (("join", 1), join),
    (("indices", 1), indices),
    // An internal helper of jq. The manual does not name it, but programs may call it.
    (("_strindices", 1), |it, arguments| match (&it.value, &arguments[0].value) {
        (Value::Text(text), Value::Text(part)) => Ok(found(text, part)),
        (Value::Text(_), part) => refuse("^ is not a string", &[part]),
        (other, _) => refuse("^ cannot be searched, as it is not a string", &[other]),
    }),
];

fn ordered(it: &Item) -> Result<Vec<Item>, Fault> {
    if !matches!(it.value, Value::List(_)) {
        return refuse("^ cannot be sorted, as it is not an array", &[&it.value]);
    }
    let mut items: Vec<Item> = operators::children(it)?.map(|(_, item)| item).collect();
    items.sort_by(|left, right| operators::compare(&left.value, &right.value));
    Ok(items)
}

fn unique(it: &Item) -> ItemR {
    let mut items = ordered(it)?;
    items.dedup_by(|left, right| operators::same(&left.value, &right.value));
    Ok(Item::list(items))
}

fn extreme(it: &Item, greatest: bool) -> ItemR {
    if !matches!(it.value, Value::List(_)) {
        return refuse("^ and ^ cannot be iterated over", &[&it.value, &it.value]);
    }
    let items = operators::children(it)?.map(|(_, item)| item);
    let best = items.reduce(|best, item| {
        let less = operators::compare(&item.value, &best.value).is_lt();
        if less == greatest { best } else { item }
    });
    Ok(best.unwrap_or(Item::null()))
}

fn reverse(it: &Item) -> ItemR {
    match &it.value {
        Value::List(_) => {
            let mut items: Vec<Item> = operators::children(it)?.map(|(_, item)| item).collect();
            items.reverse();
            Ok(Item::list(items))
        }
        Value::Null => Ok(Item::list(Vec::new())),
        other if operators::length(other) == 0 && matches!(other, Value::Text(_) | Value::Object(_)) => {
            Ok(Item::list(Vec::new()))
        }
        other @ Value::Bool(_) => refuse("^ has no length", &[other]),
        Value::Number(number) if operators::float(number) == 0.0 => Ok(Item::list(Vec::new())),
        // jq treats it as a list, starting with its last index.
        other => {
            let last = match other {
                Value::Text(text) => operators::characters(text),
                other => operators::length(other),
            };
            operators::index(it, &Value::from(last.saturating_sub(1)))
        }
    }
}

fn bsearch(it: Item, arguments: &[Item]) -> ItemR {
    let Value::List(items) = &it.value else { return refuse("^ cannot be searched from", &[&it.value]) };
    let (mut start, mut end) = (0, items.len());
    while start < end {
        let middle = start + (end - start) / 2;
        match operators::compare(&arguments[0].value, &items[middle]) {
            std::cmp::Ordering::Equal => return Ok(middle.into()),
            std::cmp::Ordering::Less => end = middle,
            std::cmp::Ordering::Greater => start = middle + 1,
        }
    }
    Ok((-1 - start as isize).into())
}

fn flatten(it: Item, arguments: &[Item]) -> ItemR {
    let depth = match &arguments[0].value {
        Value::Number(number) => operators::float(number),
        other if operators::compare(other, &Value::from(0isize)).is_lt() => -1.0,
        other => {
            // jq fails here only if the list has a list in it.
            let nested = operators::children(&it)?.any(|(_, part)| matches!(part.value, Value::List(_)));
            if nested {
                return refuse("^ and ^ cannot be subtracted", &[other, &Value::from(1isize)]);
            }
            0.0
        }
    };
    if depth < 0.0 {
        return fail("flatten depth must not be negative");
    }
    flat(&it, depth)
}

fn flat(it: &Item, levels: f64) -> ItemR {
    let mut made = Vec::new();
    for (_, part) in operators::children(it)? {
        level(part, levels, &mut made)?;
    }
    Ok(Item::list(made))
}

fn level(item: Item, levels: f64, made: &mut Vec<Item>) -> Result<(), Fault> {
    if levels == 0.0 || !matches!(item.value, Value::List(_)) {
        budget::push(made, item);
        return Ok(());
    }
    for (_, part) in operators::children(&item)? {
        level(part, levels - 1.0, made)?;
    }
    Ok(())
}

fn join(it: Item, arguments: &[Item]) -> ItemR {
    let separator = &arguments[0];
    let mut joined: Option<Item> = None;
    for (_, part) in operators::children(&it)? {
        let before = match joined {
            None => Item::from(""),
            Some(before) => operators::add(before, separator.clone())?,
        };
        let part = match &part.value {
            Value::Null => Item::from(""),
            Value::Bool(_) | Value::Number(_) => operators::string(part),
            _ => part,
        };
        joined = Some(operators::add(before, part)?);
    }
    // As in jq, joining nothing gives an empty string, and so do null and false.
    Ok(joined.filter(Item::holds).unwrap_or_else(|| Item::from("")))
}

fn indices(it: Item, arguments: &[Item]) -> ItemR {
    let wanted = &arguments[0].value;
    match (&it.value, wanted) {
        (Value::Text(text), Value::Text(part)) => Ok(found(text, part)),
        (Value::List(items), Value::List(wanted)) => Ok(operators::windows(items, wanted)),
        (Value::List(items), wanted) => {
            let found = items.iter().enumerate().filter(|(_, item)| operators::same(item, wanted));
            Ok(found.map(|(at, _)| Item::from(at)).collect())
        }
        (_, wanted) => operators::index(&it, wanted),
    }
}

/// The positions of a text within another, in characters. Matches may overlap.
fn found(text: &[u8], part: &[u8]) -> Item {
    if part.is_empty() {
        return Item::null();
    }
    charge((text.len() + part.len()) / 16);
    let (mut at, mut characters) = (0, 0usize);
    let finder = memchr::memmem::Finder::new(part);
    let places = std::iter::from_fn(|| {
        let found = at + finder.find(text.get(at..)?)?;
        charge(1 + part.len() / 16);
        characters += operators::characters(&text[at..found]);
        let place = characters;
        let first = text[found..].iter().skip(1).take_while(|byte| **byte & 0xc0 == 0x80).count() + 1;
        characters += 1;
        at = found + first;
        Some(Item::from(place))
    });
    let places = places.collect();
    budget::charge(1);
    places
}
