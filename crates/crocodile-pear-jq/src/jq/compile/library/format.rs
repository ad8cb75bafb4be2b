//! Values as text in other formats: CSV, HTML, URLs, shell, base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::hex;
use crate::jq::eval::code::{Format, Named};
use crate::jq::value::bounded::Item;
use crate::jq::value::budget::{self, charge};
use crate::jq::value::operators::{self, ItemR};
use crate::jq::value::runtime_error::{fail, refuse};
use crate::json::value::Value;

pub const NATIVES: &[Named] = &[(("format", 1), |it, arguments| {
    let Value::Text(name) = &arguments[0].value else {
        return refuse("^ is not a valid format", &[&arguments[0].value]);
    };
    let name = format!("@{}", String::from_utf8_lossy(name));
    match by_name(&name) {
        Some(format) => apply(format, it),
        None => fail(format!("{} is not a valid format", &name[1..])),
    }
})];

pub const FORMATS: &[(&str, Format)] = &[
    ("@text", Format::Text),
    ("@json", Format::Json),
    ("@csv", Format::Csv),
    ("@tsv", Format::Tsv),
    ("@html", Format::Html),
    ("@uri", Format::Uri),
    ("@urid", Format::UriDecoded),
    ("@sh", Format::Sh),
    ("@base64", Format::Base64),
    ("@base64d", Format::Base64Decoded),
    ("@base32", Format::Base32),
    ("@base32d", Format::Base32Decoded),
];

/// Formats a value as text.
pub fn apply(format: Format, item: Item) -> ItemR {
    match format {
        Format::Text => Ok(operators::string(item)),
        Format::Json => Ok(operators::written(&item.value)),
        Format::Csv => row(&item, "csv", ",", quoted),
        Format::Tsv => row(&item, "tsv", "\t", escaped),
        Format::Sh => shell(&item),
        Format::Html => bytes(item, |text, out| {
            text.iter().for_each(|byte| match byte {
                b'&' => out.extend_from_slice(b"&amp;"),
                b'<' => out.extend_from_slice(b"&lt;"),
                b'>' => out.extend_from_slice(b"&gt;"),
                b'\'' => out.extend_from_slice(b"&apos;"),
                b'"' => out.extend_from_slice(b"&quot;"),
                byte => out.push(*byte),
            });
        }),
        Format::Uri => bytes(item, |text, out| {
            text.iter().for_each(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(*byte),
                byte => {
                    out.push(b'%');
                    out.extend(hex::upper_pair(*byte));
                }
            });
        }),
        Format::UriDecoded => decode(item, "^ is not a valid uri encoding", unescape),
        Format::Base64 => bytes(item, |text, out| out.extend_from_slice(STANDARD.encode(text).as_bytes())),
        Format::Base64Decoded => base64(item),
        Format::Base32 => bytes(item, base32),
        Format::Base32Decoded => decode(item, "^ is not valid base32 data", unbase32),
    }
}

/// Formats the bytes of a string, or of a value's JSON, as text.
fn bytes(item: Item, make: fn(&[u8], &mut Vec<u8>)) -> ItemR {
    let item = operators::string(item);
    let Value::Text(text) = &item.value else { return Ok(item) };
    charge(text.len() / 8);
    // The result is at most six times as long.
    if text.len() > budget::TEXT {
        budget::exhaust("the expression makes a string of more than 16 MiB");
    }
    let mut out = Vec::with_capacity(text.len() + text.len() / 4);
    make(text, &mut out);
    Ok(out.into())
}

fn decode(item: Item, message: &str, read: fn(&[u8]) -> Option<Vec<u8>>) -> ItemR {
    let item = operators::string(item);
    let Value::Text(text) = &item.value else { return Ok(item) };
    charge(text.len() / 8);
    match read(text) {
        Some(bytes) => Ok(bytes.into()),
        None => refuse(message, &[&item.value]),
    }
}

type Put = fn(&[u8], &mut Vec<u8>);

fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    text.iter().for_each(|byte| match byte {
        b'"' => out.extend_from_slice(b"\"\""),
        byte => out.push(*byte),
    });
    out.push(b'"');
}

fn escaped(text: &[u8], out: &mut Vec<u8>) {
    text.iter().for_each(|byte| match byte {
        b'\t' => out.extend_from_slice(b"\\t"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\\' => out.extend_from_slice(b"\\\\"),
        byte => out.push(*byte),
    });
}

fn row(item: &Item, name: &str, separator: &str, put: Put) -> ItemR {
    let Value::List(items) = &item.value else {
        return refuse(&format!("^ cannot be {name}-formatted, only array"), &[&item.value]);
    };
    let mut out = Vec::new();
    for (at, item) in items.iter().enumerate() {
        charge(2);
        if at > 0 {
            out.extend_from_slice(separator.as_bytes());
        }
        match item {
            Value::Null => {}
            Value::Number(number) if operators::float(number).is_nan() => {}
            Value::Bool(_) | Value::Number(_) => scalar(item, &mut out),
            Value::Text(text) => {
                room(out.len() + 2 * text.len());
                put(text, &mut out);
            }
            other => return refuse("^ is not valid in a csv row", &[other]),
        }
    }
    Ok(out.into())
}

fn scalar(value: &Value, out: &mut Vec<u8>) {
    if let Value::Text(text) = operators::written(value).value {
        out.extend_from_slice(&text);
    }
}

fn room(length: usize) {
    charge(length / 4096);
    if length > 2 * budget::TEXT {
        budget::exhaust("the expression makes a string of more than 16 MiB");
    }
}

fn shell(item: &Item) -> ItemR {
    let one = [item.value.clone()];
    let items = match &item.value {
        Value::List(items) => items.as_slice(),
        _ => &one,
    };
    let mut out = Vec::new();
    for (at, item) in items.iter().enumerate() {
        charge(2);
        if at > 0 {
            out.push(b' ');
        }
        match item {
            Value::Null | Value::Bool(_) | Value::Number(_) => scalar(item, &mut out),
            Value::Text(text) => {
                room(out.len() + text.len());
                out.push(b'\'');
                text.iter().for_each(|byte| match byte {
                    b'\'' => out.extend_from_slice(b"'\\''"),
                    byte => out.push(*byte),
                });
                out.push(b'\'');
            }
            other => return refuse("^ can not be escaped for shell", &[other]),
        }
    }
    Ok(out.into())
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let [high, low, more @ ..] = rest else { return None };
        out.push(hex::byte(*high, *low)?);
        rest = more;
    }
    std::str::from_utf8(&out).is_ok().then_some(out)
}

/// Decodes like jq: up to the first `=`, ignoring leftover bits.
fn base64(item: Item) -> ItemR {
    let item = operators::string(item);
    let Value::Text(text) = &item.value else { return Ok(item) };
    charge(text.len() / 4);
    let (mut out, mut bits, mut count) = (Vec::with_capacity(text.len() / 4 * 3), 0u32, 0);
    for byte in text.iter().take_while(|byte| **byte != b'=') {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return refuse("^ is not valid base64 data", &[&item.value]),
        };
        bits = bits << 6 | u32::from(digit);
        count += 1;
        if count == 4 {
            out.extend([(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]);
            (bits, count) = (0, 0);
        }
    }
    match count {
        1 => return refuse("^ trailing base64 byte found", &[&item.value]),
        2 => out.push((bits >> 4) as u8),
        3 => out.extend([(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => {}
    }
    Ok(mended(out).into())
}

/// Replaces bytes that are not UTF-8 with U+FFFD.
fn mended(bytes: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(bytes) {
        Ok(text) => text.into_bytes(),
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned().into_bytes(),
    }
}

fn base32(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    for chunk in text.chunks(5) {
        let mut bytes = [0u8; 8];
        bytes[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(bytes);
        let digits = (chunk.len() * 8).div_ceil(5);
        (0..8).for_each(|at| {
            out.push(if at < digits { DIGITS[(bits >> (35 - 5 * at) & 31) as usize] } else { b'=' });
        });
    }
}

fn unbase32(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |at| at + 1);
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for byte in &text[..end] {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'2'..=b'7' => byte - b'2' + 26,
            _ => return None,
        };
        bits = bits << 5 | u32::from(digit);
        count += 5;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(mended(out))
}

/// A format by its name, including the `@`.
pub fn by_name(name: &str) -> Option<Format> {
    FORMATS.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
}
