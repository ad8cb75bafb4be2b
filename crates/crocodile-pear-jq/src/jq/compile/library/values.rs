//! Functions for every type of value: its type, its text, what it contains.

use bytes::Bytes;

use crate::jq::eval::code::Named;
use crate::jq::eval::paths;
use crate::jq::value::bounded::Item;
use crate::jq::value::budget::{self, charge};
use crate::jq::value::operators::{self, ItemR};
use crate::jq::value::runtime_error::{Fault, fail, refuse};
use crate::json;
use crate::json::value::{Number, Value, kind};

pub const NATIVES: &[Named] = &[
    (("not", 0), |it, _| Ok((!it.holds()).into())),
    (("type", 0), |it, _| Ok(kind(&it.value).into())),
    (("length", 0), length),
    (("tostring", 0), |it, _| Ok(operators::string(it))),
    (("tojson", 0), |it, _| Ok(operators::written(&it.value))),
    (("fromjson", 0), |it, _| parse(&it)),
    (("tonumber", 0), |it, _| converted(it)),
    (("toboolean", 0), |it, _| boolean(it)),
    (("contains", 1), contains),
    (("has", 1), has),
    (("keys", 0), |it, _| keys(&it, true)),
    (("keys_unsorted", 0), |it, _| keys(&it, false)),
    (("to_entries", 0), |it, _| entries(&it)),
    (("setpath", 2), setpath),
    (("delpaths", 1), delpaths),
    (("have_decnum", 0), |_, _| Ok(true.into())),
    (("have_literal_numbers", 0), |_, _| Ok(true.into())),
];

fn length(it: Item, _: &[Item]) -> ItemR {
    charge(1);
    Ok(match &it.value {
        Value::Null => 0usize.into(),
        Value::Number(Number::Literal(literal)) if literal.starts_with('-') => return operators::negate(it),
        Value::Number(number) if operators::float(number) < 0.0 => return operators::negate(it),
        Value::Number(_) => it,
        Value::Text(text) => operators::characters(text).into(),
        Value::Bytes(bytes) => bytes.len().into(),
        Value::List(items) => items.len().into(),
        Value::Object(fields) => fields.len().into(),
        other @ Value::Bool(_) => return refuse("^ has no length", &[other]),
    })
}

fn contains(it: Item, arguments: &[Item]) -> ItemR {
    let other = &arguments[0].value;
    let unlike = matches!((&it.value, other), (Value::Bool(one), Value::Bool(other)) if one != other);
    if unlike || kind(&it.value) != kind(other) {
        return refuse("^ and ^ cannot have their containment checked", &[&it.value, other]);
    }
    Ok(within(&it.value, other).into())
}

fn within(it: &Value, other: &Value) -> bool {
    charge(1);
    match (it, other) {
        (Value::Text(text), Value::Text(part)) => {
            charge((text.len() + part.len()) / 64);
            memchr::memmem::find(text, part).is_some()
        }
        (Value::List(items), Value::List(parts)) => {
            parts.iter().all(|part| items.iter().any(|item| within(item, part)))
        }
        (Value::Object(fields), Value::Object(parts)) => {
            parts.iter().all(|(key, part)| fields.get(key).is_some_and(|field| within(field, part)))
        }
        _ => operators::same(it, other),
    }
}

fn has(it: Item, arguments: &[Item]) -> ItemR {
    let key = &arguments[0].value;
    charge(1 + operators::length(key) / 64);
    match (&it.value, key) {
        (Value::Null, _) => Ok(false.into()),
        (Value::Object(fields), name @ Value::Text(_)) => Ok(fields.contains_key(name).into()),
        (Value::List(items), Value::Number(number)) => {
            let at = operators::float(number);
            Ok((at > -1.0 && at < items.len() as f64).into())
        }
        (value, key) => fail(format!("Cannot check whether {} has a {} key", kind(value), kind(key))),
    }
}

fn keys(it: &Item, sorted: bool) -> ItemR {
    match &it.value {
        Value::Object(fields) if sorted => {
            Ok(operators::sorted(fields).into_iter().map(|key| Item::bounded(key, 0)).collect())
        }
        Value::Object(fields) => Ok(fields.keys().map(|key| Item::bounded(key.clone(), 0)).collect()),
        Value::List(items) => Ok((0..items.len()).map(Item::from).collect()),
        other => refuse("^ has no keys", &[other]),
    }
}

fn entries(it: &Item) -> ItemR {
    if !matches!(it.value, Value::Object(_) | Value::List(_)) {
        return refuse("^ has no keys", &[&it.value]);
    }
    let entry = |(key, value)| Item::object([("key", Item::bounded(key, 0)), ("value", value)]);
    Ok(operators::children(it)?.map(entry).collect())
}

fn setpath(it: Item, arguments: &[Item]) -> ItemR {
    let keys = paths::keys(&arguments[0])?;
    paths::set(it, &keys, arguments[1].clone())
}

fn delpaths(it: Item, arguments: &[Item]) -> ItemR {
    let Value::List(wanted) = &arguments[0].value else { return fail("Paths must be specified as an array") };
    let mut all = Vec::with_capacity(wanted.len());
    for path in wanted.iter() {
        let Value::List(keys) = path else {
            return fail(format!("Path must be specified as array, not {}", kind(path)));
        };
        if keys.len() > paths::LONGEST {
            return fail("Path too deep");
        }
        charge(1 + keys.len());
        all.push(keys.to_vec());
    }
    paths::delete(it, all)
}

fn parse(it: &Item) -> ItemR {
    let Value::Text(text) = &it.value else { return refuse("^ only strings can be parsed", &[&it.value]) };
    charge(1 + text.len() / 4);
    // jq accepts them, too.
    if matches!(&***text, b"nan" | b"NaN" | b"-nan" | b"-NaN") {
        return Ok(f64::NAN.into());
    }
    // A list of empty objects is the worst case: 3 bytes become about 150.
    budget::grow(16 * text.len());
    let bytes: &Bytes = text;
    json::read(bytes).map(Item::incoming).map_err(|error| unread(text, error.detail()))
}

/// Why a text is not JSON. For unknown words and single quotes, the message is jq's.
fn unread(text: &[u8], shown: &str) -> Fault {
    let given = String::from_utf8_lossy(&text[..text.len().min(1024)]);
    let full = match word(text) {
        Some((message, at, end)) => {
            let before = &text[..at];
            let line = 1 + memchr::memchr_iter(b'\n', before).count();
            let column = at - memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
            let (end, column) = if end { (" at EOF", column) } else { ("", column + 1) };
            format!("{message}{end} at line {line}, column {column} (while parsing '{given}')")
        }
        None => shown.to_owned(),
    };
    Fault { value: full.into(), shown: Some(shown.to_owned()) }
}

/// The first unknown word, where it ends, and whether that is the end of the text.
fn word(text: &[u8]) -> Option<(&'static str, usize, bool)> {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' | b'[' | b']' | b'{' | b'}' => at += 1,
            b'"' => {
                let end = text[at + 1..].iter().scan(false, |escaped, byte| {
                    let ends = *byte == b'"' && !*escaped;
                    *escaped = *byte == b'\\' && !*escaped;
                    Some(ends)
                });
                at += 2 + end.into_iter().position(|ends| ends)?;
            }
            first => {
                let ends = |byte: &u8| b" \t\r\n,:[]{}\"".contains(byte);
                let length = text[at..].iter().position(ends).unwrap_or(text.len() - at);
                let found = &text[at..at + length];
                at += length;
                let known = matches!(found, b"true" | b"false" | b"null") || number(found);
                if first == b'\'' {
                    return Some(("Invalid string literal; expected \", but got '", at, at == text.len()));
                }
                if !known {
                    return Some(("Invalid numeric literal", at, at == text.len()));
                }
            }
        }
    }
    None
}

fn number(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok_and(|word| word.parse::<f64>().is_ok())
}

fn converted(it: Item) -> ItemR {
    match &it.value {
        Value::Number(_) => Ok(it),
        Value::Text(text) if text.len() <= 1000 => match literal(text) {
            Some(number) => Ok(number),
            None => refuse("^ cannot be parsed as a number", &[&it.value]),
        },
        other => refuse("^ cannot be parsed as a number", &[other]),
    }
}

/// A number as jq parses it: it may have a leading sign, and no digits on one side of the point.
fn literal(text: &[u8]) -> Option<Item> {
    charge(text.len());
    let text = std::str::from_utf8(text).ok()?;
    match text {
        "nan" | "NaN" | "-nan" | "-NaN" | "+nan" => return Some(f64::NAN.into()),
        "infinity" | "Infinity" => return Some(f64::INFINITY.into()),
        "-infinity" | "-Infinity" => return Some(f64::NEG_INFINITY.into()),
        _ => {}
    }
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (mantissa, exponent) =
        digits.find(['e', 'E']).map_or((digits, None), |at| (&digits[..at], Some(&digits[at + 1..])));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let power = exponent.is_none_or(|power| {
        let power = power.strip_prefix(['+', '-']).unwrap_or(power);
        !power.is_empty() && all(power)
    });
    if !all(whole) || !all(fraction) || whole.len() + fraction.len() == 0 || !power {
        return None;
    }
    let number = crate::jq::syntax::ast::number(digits);
    let number = Item::bounded(number, 0);
    match sign {
        "-" => operators::negate(number).ok(),
        _ => Some(number),
    }
}

fn boolean(it: Item) -> ItemR {
    match &it.value {
        Value::Bool(_) => Ok(it),
        Value::Text(text) if &***text == b"true" => Ok(true.into()),
        Value::Text(text) if &***text == b"false" => Ok(false.into()),
        other => refuse("^ cannot be parsed as a boolean", &[other]),
    }
}
