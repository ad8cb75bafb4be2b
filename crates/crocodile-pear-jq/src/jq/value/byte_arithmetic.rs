//! `+` and `length` on the bytes of JSON. `None` if the engine has to find the result.

use crate::json::fields::{Field, fields};
use crate::json::walk::Items;

/// Objects with more fields go to the engine: each field is compared with all others.
const MOST: usize = 32;

/// Adds the value in `out` from `middle` to the value from `start`, and leaves the sum in their place.
pub(crate) fn add(out: &mut Vec<u8>, start: usize, middle: usize) -> Option<()> {
    let (left, right) = out[start..].split_at(middle - start);
    match (left.first()?, right.first()?) {
        (_, b'n') => out.truncate(middle),
        (b'n', _) => drop(out.drain(start..middle)),
        (b'{', b'{') => {
            let sum = merge(left, right)?;
            out.truncate(start);
            out.extend_from_slice(&sum);
        }
        (b'[', b'[') => join(out, start, middle),
        // Two halves of a surrogate pair may meet here.
        (b'"', b'"') if memchr::memmem::find(&out[start..], b"\\u").is_none() => {
            drop(out.drain(middle - 1..=middle));
        }
        _ => return None,
    }
    Some(())
}

fn join(out: &mut Vec<u8>, start: usize, middle: usize) {
    let is_empty = |list: &[u8]| list[1..list.len() - 1].trim_ascii().is_empty();
    if is_empty(&out[start..middle]) {
        drop(out.drain(start..middle));
    } else if is_empty(&out[middle..]) {
        out.truncate(middle);
    } else {
        out[middle - 1] = b',';
        out.remove(middle);
    }
}

/// The fields of both objects. A field in both gets the right value, at the position of the left one.
fn merge(left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
    let (own, other) = (distinct(left)?, distinct(right)?);
    let value = |key: &[u8]| other.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
    let is_new = |key: &[u8]| own.iter().all(|(known, _)| *known != key);
    let mut sum = Vec::with_capacity(left.len() + right.len());
    sum.push(b'{');
    let kept = own.iter().map(|(key, own)| (*key, value(key).unwrap_or(own)));
    let added = other.iter().copied().filter(|(key, _)| is_new(key));
    for (index, (key, value)) in kept.chain(added).enumerate() {
        comma(index, &mut sum);
        sum.extend_from_slice(key);
        sum.push(b':');
        sum.extend_from_slice(value);
    }
    sum.push(b'}');
    Some(sum)
}

/// The fields of an object, each with its key as written. `None` if there are many fields, if a key has escapes, and if
/// a key occurs twice.
fn distinct(object: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut known: Vec<(&[u8], &[u8])> = Vec::with_capacity(8);
    fields(object, &mut |field: Field<'_>| {
        let key = field.plain_key()?;
        let fits = known.len() < MOST && known.iter().all(|(other, _)| *other != key);
        fits.then(|| known.push((key, field.value)))
    })?;
    Some(known)
}

/// Replaces the value in `out` from `start` by its length.
pub(crate) fn measure(out: &mut Vec<u8>, start: usize) -> Option<()> {
    let value = &out[start..];
    let length = match value.first()? {
        b'n' => 0,
        b'[' => Items::of(value)?.count(),
        b'{' => distinct(value)?.len(),
        // A UTF-8 continuation byte begins no character.
        b'"' if memchr::memchr(b'\\', value).is_none() => {
            value[1..value.len() - 1].iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
        }
        _ if is_whole(value) => return Some(()),
        _ => return None,
    };
    out.truncate(start);
    out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    Some(())
}

pub(crate) fn comma(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

/// Whether it is an integer that fits a machine word and has only one spelling.
pub(crate) fn is_whole(value: &[u8]) -> bool {
    let plain = value == b"0" || value.first().is_some_and(|byte| (b'1'..=b'9').contains(byte));
    plain && value.len() <= 15 && value.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::super::byte_arithmetic::*;

    fn sum(left: &str, right: &str) -> Option<String> {
        let mut out = format!("x{left}{right}").into_bytes();
        add(&mut out, 1, 1 + left.len())?;
        Some(String::from_utf8(out).expect("UTF-8")[1..].to_owned())
    }

    #[test]
    fn a_field_of_both_keeps_its_place_and_has_the_right_value() {
        let added = sum(r#"{"a" : 1, "b":[2]}"#, r#"{ "c":{"d":1.0},"a":"x" }"#);
        assert_eq!(added.as_deref(), Some(r#"{"a":"x","b":[2],"c":{"d":1.0}}"#));
        assert_eq!(sum("{}", "{ }").as_deref(), Some("{}"));
        // Duplicate and escaped keys are left to the engine.
        assert_eq!(sum(r#"{"a":1,"a":2}"#, "{}").or(sum(r#"{"\u0061":1}"#, "{}")), None);
        let many: Vec<String> = (0..=MOST).map(|at| format!("\"{at}\":{at}")).collect();
        assert_eq!(sum(&format!("{{{}}}", many.join(",")), "{}"), None);
    }

    #[test]
    fn null_adds_nothing_and_lists_and_texts_follow_each_other() {
        for (left, right, wanted) in [
            ("null", "1", "1"),
            ("{}", "null", "{}"),
            ("null", "null", "null"),
            ("[1, 2]", "[ 3 ]", "[1, 2, 3 ]"),
            ("[ ]", "[3]", "[3]"),
            ("[3]", "[]", "[3]"),
            (r#""ab""#, r#""c\n""#, r#""abc\n""#),
            (r#""""#, r#""""#, r#""""#),
        ] {
            assert_eq!(sum(left, right).as_deref(), Some(wanted), "{left} + {right}");
        }
        for (left, right) in [("1", "2"), ("[]", "{}"), (r#""\ud83d""#, r#""\udc0a""#), ("true", "false")] {
            assert_eq!(sum(left, right), None, "{left} + {right}");
        }
    }

    #[test]
    fn lengths_are_those_of_the_language() {
        let length = |value: &str| {
            let mut out = format!("x{value}").into_bytes();
            measure(&mut out, 1)?;
            Some(String::from_utf8(out).expect("UTF-8")[1..].to_owned())
        };
        for (value, wanted) in [
            ("null", "0"),
            ("[1,[2,3]]", "2"),
            ("[ ]", "0"),
            ("{\"a\":{\"b\":1}}", "1"),
            ("\"åä🐊x\"", "4"),
            ("12", "12"),
        ] {
            assert_eq!(length(value).as_deref(), Some(wanted), "{value}");
        }
        for value in ["true", "-1", "1.0", "\"\\n\"", "{\"a\":1,\"a\":2}"] {
            assert_eq!(length(value), None, "{value}");
        }
    }
}
