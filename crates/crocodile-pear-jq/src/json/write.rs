//! Writes a value to bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use bytes::Bytes;

use super::quote::write_string;
use super::text::DEPTH;
use super::value::{self, Shape, Value};
use crate::error::{Error, Kind};

/// The largest JSON that one value may become. Values share their parts, so a value that is small in memory can be huge
/// when written.
pub const SIZE: usize = 64 << 20;

/// Appends a value as compact JSON.
///
/// A lone surrogate in text becomes an escape, other invalid UTF-8 U+FFFD; infinities become the largest numbers, as in jq, NaN becomes null, and
/// byte strings become base64.
///
/// # Errors
/// `Kind::Expression` for a value that nests deeper than 256 levels (twice the limit for input), is larger than 64 MiB
/// or has keys that are not strings. The bytes appended before the error remain.
#[inline]
pub fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    write_within(value, SIZE, out)
}

/// Like [`write()`], with a limit from the caller.
pub fn write_within(value: &Value, size: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let limit = out.len().saturating_add(size);
    item(value, 0, limit, out)
}

fn item(value: &Value, depth: usize, limit: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    if out.len() > limit {
        return Err(refuse("the value is too large to write"));
    }
    if depth > 2 * DEPTH {
        return Err(refuse("the value nests too deep to write"));
    }
    match value::shape(value) {
        Shape::Null => out.extend_from_slice(b"null"),
        Shape::Bool(true) => out.extend_from_slice(b"true"),
        Shape::Bool(false) => out.extend_from_slice(b"false"),
        Shape::Integer(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        Shape::Float(number) => float(number, out),
        Shape::Literal(literal) => out.extend_from_slice(literal.as_bytes()),
        Shape::Text(text) => text_within(text, limit, out)?,
        Shape::Bytes(bytes) => {
            room(bytes.len(), limit, out)?;
            out.push(b'"');
            out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            out.push(b'"');
        }
        Shape::List(items) => {
            out.push(b'[');
            for (index, inner) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                item(inner, depth + 1, limit, out)?;
            }
            out.push(b']');
        }
        Shape::Object(fields) => {
            out.push(b'{');
            for (index, (key, inner)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                let Shape::Text(key) = value::shape(key) else { return Err(refuse("a key is not a string")) };
                text_within(key, limit, out)?;
                out.push(b':');
                item(inner, depth + 1, limit, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn text_within(text: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    room(text.len(), limit, out)?;
    match std::str::from_utf8(text) {
        Ok(text) => write_string(text, out),
        Err(_) => write_broken(text, out),
    }
    Ok(())
}

/// Appends a string that is not UTF-8. Halves of surrogate pairs are escapes; two that have met are one character to
/// whoever reads them.
fn write_broken(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while !rest.is_empty() {
        let end = memchr::memmem::find_iter(rest, b"\xed").find(|at| surrogate(&rest[*at..]).is_some());
        let (plain, half) = rest.split_at(end.unwrap_or(rest.len()));
        let start = out.len();
        write_string(&String::from_utf8_lossy(plain), out);
        // Without its quotes.
        out.pop();
        out.remove(start);
        if let Some(code) = surrogate(half) {
            out.extend_from_slice(format!("\\u{code:04x}").as_bytes());
        }
        rest = half.get(3..).unwrap_or_default();
    }
    out.push(b'"');
}

/// The surrogate that text begins with, in the bytes that a character of its number would have.
fn surrogate(text: &[u8]) -> Option<u16> {
    match text {
        [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ..] => {
            Some(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f))
        }
        _ => None,
    }
}

fn room(length: usize, limit: usize, out: &[u8]) -> Result<(), Error> {
    if length > limit.saturating_sub(out.len()) {
        return Err(refuse("the value is too large to write"));
    }
    Ok(())
}

/// The fewest digits that read back to the same number, in jq's form: integers without a fraction, `1e+17` instead of
/// many zeros. An infinity becomes the largest number, NaN becomes null.
fn float(number: f64, out: &mut Vec<u8>) {
    // Up to 2^53 every integer is exact.
    if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 && !(number == 0.0 && number.is_sign_negative())
    {
        return out.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
    }
    if number.is_nan() {
        return out.extend_from_slice(b"null");
    }
    let scientific = format!("{:e}", number.clamp(-f64::MAX, f64::MAX));
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let (first, rest) = digits.split_at(1);
    let rest = rest.trim_start_matches('.');
    out.extend_from_slice(sign.as_bytes());
    let count = 1 + rest.len() as i32;
    let text = match exponent {
        // All digits, and then at most fifteen zeros.
        0.. if exponent < count + 15 => {
            let all = format!("{first}{rest}{}", "0".repeat((exponent + 1 - count).max(0) as usize));
            let (whole, fraction) = all.split_at(exponent as usize + 1);
            if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
        }
        -4..0 => format!("0.{}{first}{rest}", "0".repeat((-exponent - 1) as usize)),
        _ => {
            let point = if rest.is_empty() { "" } else { "." };
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{first}{point}{rest}e{sign}{:02}", exponent.abs())
        }
    };
    out.extend_from_slice(text.as_bytes());
}

fn refuse(reason: &'static str) -> Error {
    Error::new(Kind::Expression, reason)
}

/// A value as a document.
///
/// # Errors
/// Same as [`write()`].
pub fn to_bytes(value: &Value) -> Result<Bytes, Error> {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out)?;
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &Value) -> String {
        let mut out = Vec::new();
        write(value, &mut out).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn strings_are_escaped() {
        let mut out = Vec::new();
        write_string("a\"\\\n\u{1}\u{1f}é", &mut out);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), r#""a\"\\\n\u0001\u001fé""#);
    }

    #[test]
    fn what_json_cannot_say_is_mended() {
        let (bad, bytes) = (value::text(&b"a\xffb"[..]), value::bytes(b"\x00"[..].into()));
        let items = vec![f64::NAN.into(), f64::INFINITY.into(), 1.5.into(), 2.0.into(), bad, bytes];
        assert_eq!(written(&value::list(items)), "[null,1.7976931348623157e+308,1.5,2,\"a\u{fffd}b\",\"AA==\"]");
    }

    #[test]
    fn a_value_that_is_endless_on_paper_is_refused() {
        let mut value = value::null();
        for _ in 0..100 {
            value = value::list(vec![value.clone(), value]);
        }
        assert_eq!(write(&value, &mut Vec::new()).expect_err("too large").kind(), Kind::Expression);
    }

    #[test]
    fn keys_are_strings() {
        let fields: value::Fields = [(1isize.into(), value::null())].into_iter().collect();
        assert!(write(&value::fields_of(fields), &mut Vec::new()).is_err());
    }
}
