//! Text: cutting, trimming, changing case.

use bytes::Bytes;

use crate::jq::eval::code::Named;
use crate::jq::value::bounded::Item;
use crate::jq::value::budget::{self, charge};
use crate::jq::value::operators::{self, ItemR};
use crate::jq::value::runtime_error::{Fault, fail, refuse};
use crate::json::value::Value;

pub const NATIVES: &[Named] = &[
    (("utf8bytelength", 0), |it, _| match &it.value {
        Value::Text(text) => Ok(text.len().into()),
        other => refuse("^ only strings have UTF-8 byte length", &[other]),
    }),
    (("startswith", 1), |it, arguments| {
        let (text, part) = both(&it, &arguments[0], "startswith")?;
        Ok(text.starts_with(part).into())
    }),
    (("endswith", 1), |it, arguments| {
        let (text, part) = both(&it, &arguments[0], "endswith")?;
        Ok(text.ends_with(part).into())
    }),
    (("ltrimstr", 1), |it, arguments| {
        let (text, part) = both(&it, &arguments[0], "startswith")?;
        Ok(text.strip_prefix(&**part).map_or_else(|| it.clone(), |rest| Item::text(text.slice_ref(rest))))
    }),
    (("rtrimstr", 1), |it, arguments| {
        let (text, part) = both(&it, &arguments[0], "endswith")?;
        Ok(text.strip_suffix(&**part).map_or_else(|| it.clone(), |rest| Item::text(text.slice_ref(rest))))
    }),
    (("trim", 0), |it, _| trim(&it, |text| text.trim())),
    (("ltrim", 0), |it, _| trim(&it, |text| text.trim_start())),
    (("rtrim", 0), |it, _| trim(&it, |text| text.trim_end())),
    (("explode", 0), |it, _| explode(&it)),
    (("implode", 0), |it, _| implode(&it)),
    (("ascii_downcase", 0), |it, _| cased(&it, <[u8]>::to_ascii_lowercase)),
    (("ascii_upcase", 0), |it, _| cased(&it, <[u8]>::to_ascii_uppercase)),
    (("split", 1), |it, arguments| match (&it.value, &arguments[0].value) {
        (Value::Text(text), Value::Text(separator)) => {
            charge(1 + (text.len() + separator.len()) / 64);
            Ok(operators::split(text, separator))
        }
        _ => fail("split input and separator must be strings"),
    }),
];

fn both<'a>(it: &'a Item, other: &'a Item, name: &str) -> Result<(&'a Bytes, &'a Bytes), Fault> {
    match (&it.value, &other.value) {
        (Value::Text(text), Value::Text(part)) => {
            charge(1 + part.len() / 64);
            Ok((text, part))
        }
        _ => fail(format!("{name}() requires string inputs")),
    }
}

fn trim(it: &Item, trim: fn(&str) -> &str) -> ItemR {
    let Value::Text(text) = &it.value else { return fail("trim input must be a string") };
    charge(1 + text.len() / 32);
    Ok(match std::str::from_utf8(text) {
        Ok(plain) => Item::text(text.slice_ref(trim(plain).as_bytes())),
        Err(_) => it.clone(),
    })
}

fn explode(it: &Item) -> ItemR {
    let Value::Text(text) = &it.value else { return fail("explode input must be a string") };
    Ok(String::from_utf8_lossy(text).chars().map(|character| Item::from(character as usize)).collect())
}

fn implode(it: &Item) -> ItemR {
    let Value::List(items) = &it.value else { return fail("implode input must be an array") };
    charge(items.len());
    budget::text(items.len());
    let mut text = String::with_capacity(items.len());
    for item in items.iter() {
        let number = match item {
            Value::Number(number) => operators::float(number),
            _ => f64::NAN,
        };
        if number.is_nan() {
            return refuse("^ can't be imploded, unicode codepoint needs to be numeric", &[item]);
        }
        // Numbers that are not characters become U+FFFD.
        let point = if (0.0..=1_114_111.0).contains(&number) { number as u32 } else { 0xfffd };
        text.push(char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    Ok(text.into())
}

fn cased(it: &Item, change: fn(&[u8]) -> Vec<u8>) -> ItemR {
    let Value::Text(text) = &it.value else { return fail("explode input must be a string") };
    Ok(change(text).into())
}
