//! A value for a statement: from JSON to the text that PostgreSQL reads for its type, and nothing else.

use std::error::Error as StdError;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{Field, Format, IsNull, Kind, ToSql, Type, to_sql_checked};

use super::form;
use crate::jq::Data;
use crate::json;
use crate::json::value::{self, Shape, Value};
use crate::runtime::hex;

/// A value as it is sent: text, or null.
#[derive(Debug)]
pub(super) struct Parameter(Option<Vec<u8>>);

/// The expected type of a value, in words for the client.
#[derive(Debug, PartialEq)]
pub(super) struct UnfitParameter(pub(super) String);

impl Parameter {
    /// Converts a value to a type.
    ///
    /// # Errors
    /// The type that it must have.
    pub(super) fn from_data(data: Data, kind: &Type) -> Result<Self, UnfitParameter> {
        let mut out = Vec::new();
        let sent = match data {
            // The bytes as they arrived: they need not be parsed.
            Data::Json(raw) if is_json(kind) && raw.bytes() != "null" => {
                out.extend_from_slice(raw.bytes());
                true
            }
            data => convert(&data.into_value(), kind, &mut out)?,
        };
        if sent && *kind == Type::JSONB && form::has_endless_number(&out) {
            return Err(UnfitParameter(format!("must have no number of more than {} digits", form::DIGITS)));
        }
        Ok(Parameter(sent.then_some(out)))
    }
}

impl ToSql for Parameter {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        let Parameter(Some(text)) = self else { return Ok(IsNull::Yes) };
        out.put_slice(text);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

fn is_json(kind: &Type) -> bool {
    match kind.kind() {
        Kind::Domain(base) => is_json(base),
        _ => matches!(*kind, Type::JSON | Type::JSONB),
    }
}

/// Appends the text of a value; answers whether there is one, and not null.
fn convert(value: &Value, kind: &Type, out: &mut Vec<u8>) -> Result<bool, UnfitParameter> {
    let shape = value::shape(value);
    if matches!(shape, Shape::Null) {
        return Ok(false);
    }
    match kind.kind() {
        Kind::Domain(base) => return convert(value, base, out),
        Kind::Array(inner) => list(value, inner, out)?,
        Kind::Enum(labels) => label(&shape, labels, out)?,
        Kind::Composite(fields) => record(value, fields, out)?,
        _ => simple(value, kind, out)?,
    }
    Ok(true)
}

fn simple(value: &Value, kind: &Type, out: &mut Vec<u8>) -> Result<(), UnfitParameter> {
    let shape = value::shape(value);
    if let (Shape::Bytes(bytes), false) = (&shape, *kind == Type::BYTEA) {
        let text = std::str::from_utf8(bytes).map_err(|_| unfit("be text"))?;
        return simple(&value::string(text), kind, out);
    }
    match *kind {
        Type::BOOL => match shape {
            Shape::Bool(truth) => out.extend_from_slice(if truth { b"t" } else { b"f" }),
            _ => return must("be true or false"),
        },
        Type::INT2 => whole(&shape, i16::MIN.into(), i16::MAX.into(), out)?,
        Type::INT4 => whole(&shape, i32::MIN.into(), i32::MAX.into(), out)?,
        Type::INT8 => whole(&shape, i64::MIN, i64::MAX, out)?,
        Type::OID => whole(&shape, 0, u32::MAX.into(), out)?,
        Type::FLOAT4 => float(&shape, |text| text.parse::<f32>().is_ok_and(f32::is_finite), out)?,
        Type::FLOAT8 => float(&shape, |text| text.parse::<f64>().is_ok_and(f64::is_finite), out)?,
        Type::NUMERIC => float(&shape, |_| true, out)?,
        Type::JSON | Type::JSONB => json::write(value, out).map_err(|_| unfit("be a smaller document"))?,
        Type::BYTEA => bytes(&shape, out)?,
        Type::UUID => formed(&shape, form::is_uuid, "be a UUID as text", out)?,
        Type::TIMESTAMPTZ => {
            let wanted = "be a date and time with an offset as text, as in `2024-05-31T12:00:00Z`";
            formed(&shape, form::is_moment, wanted, out)?;
        }
        Type::TIMESTAMP => {
            let wanted = "be a date and time without an offset as text, as in `2024-05-31T12:00:00`";
            formed(&shape, form::is_local, wanted, out)?;
        }
        Type::DATE => formed(&shape, form::is_date, "be a date as text, as in `2024-05-31`", out)?,
        Type::TIME => formed(&shape, form::is_time, "be a time as text, as in `12:00:00`", out)?,
        Type::TIMETZ => {
            let wanted = "be a time with an offset as text, as in `12:00:00+02:00`";
            formed(&shape, form::is_time_with_zone, wanted, out)?;
        }
        Type::INTERVAL => formed(&shape, form::is_interval, "be a length of time as text, as in `P1DT2H`", out)?,
        _ => formed(&shape, |_| true, "be text", out)?,
    }
    Ok(())
}

fn unfit(wanted: &str) -> UnfitParameter {
    UnfitParameter(format!("must {wanted}"))
}

fn must<T>(wanted: &str) -> Result<T, UnfitParameter> {
    Err(unfit(wanted))
}

/// 2^53: up to here, a computed number is an exact whole number.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The whole number that a literal is, digit for digit: a float would take `1e-400` for 0.
fn digits(literal: &str) -> Option<i64> {
    let (mantissa, power) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let kept = all.trim_end_matches('0');
    if kept.trim_start_matches(['-', '0']).is_empty() {
        return Some(0);
    }
    let zeros = power.parse::<i64>().ok()? - fraction.len() as i64 + (all.len() - kept.len()) as i64;
    // More than these are beyond 64 bits.
    let zeros = usize::try_from(zeros).ok().filter(|zeros| *zeros < 19)?;
    format!("{kept}{}", "0".repeat(zeros)).parse().ok()
}

fn whole(shape: &Shape<'_>, least: i64, most: i64, out: &mut Vec<u8>) -> Result<(), UnfitParameter> {
    let exact = |number: f64| (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64);
    let number = match shape {
        Shape::Integer(number) => i64::try_from(*number).ok(),
        Shape::Float(number) => exact(*number),
        Shape::Literal(literal) => digits(literal),
        _ => None,
    };
    match number.filter(|number| (least..=most).contains(number)) {
        Some(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        None => return must(&format!("be a whole number from {least} to {most}")),
    }
    Ok(())
}

/// A number that may have a fraction, as it was written. The others that PostgreSQL has are text, as they are read.
fn float(shape: &Shape<'_>, fits: impl Fn(&str) -> bool, out: &mut Vec<u8>) -> Result<(), UnfitParameter> {
    let text = match shape {
        Shape::Integer(number) => number.to_string(),
        Shape::Float(number) if number.is_finite() => format!("{number:e}"),
        Shape::Literal(literal) => literal.as_ref().to_owned(),
        Shape::Text(text @ (b"NaN" | b"Infinity" | b"-Infinity")) => {
            out.extend_from_slice(text);
            return Ok(());
        }
        Shape::Text(text) => match std::str::from_utf8(text) {
            Ok(text) if form::is_number(text) => text.to_owned(),
            _ => return must("be a number"),
        },
        _ => return must("be a number"),
    };
    if !fits(&text) {
        return must("be a smaller number");
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Text of a certain form.
fn formed(shape: &Shape<'_>, is: impl Fn(&str) -> bool, wanted: &str, out: &mut Vec<u8>) -> Result<(), UnfitParameter> {
    let text = match shape {
        Shape::Text(text) => std::str::from_utf8(text).ok().filter(|text| is(text)),
        _ => None,
    };
    match text {
        Some(text) if text.contains('\0') => must("be text without the character U+0000"),
        Some(text) => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
        None => must(wanted),
    }
}

/// Base64, or bytes that an expression made.
fn bytes(shape: &Shape<'_>, out: &mut Vec<u8>) -> Result<(), UnfitParameter> {
    let bytes = match shape {
        Shape::Text(text) => STANDARD.decode(text).map_err(|_| unfit("be bytes as Base64"))?,
        Shape::Bytes(bytes) => bytes.to_vec(),
        _ => return must("be bytes as Base64"),
    };
    out.reserve(bytes.len() * 2 + 2);
    out.extend_from_slice(b"\\x");
    out.extend(bytes.iter().flat_map(|byte| hex::pair(*byte)));
    Ok(())
}

fn label(shape: &Shape<'_>, labels: &[String], out: &mut Vec<u8>) -> Result<(), UnfitParameter> {
    match shape {
        Shape::Text(text) if labels.iter().any(|label| label.as_bytes() == *text) => {
            out.extend_from_slice(text);
            Ok(())
        }
        _ => {
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            must(&format!("be one of {}", labels.join(", ")))
        }
    }
}

/// `{1,2,NULL}`; lists within it are further dimensions.
fn list(value: &Value, inner: &Type, out: &mut Vec<u8>) -> Result<(), UnfitParameter> {
    let Some(items) = value::as_list(value) else { return must("be a list") };
    // PostgreSQL has an empty list of no dimensions alone.
    out.push(b'{');
    // The one type that separates by something else.
    let comma = if *inner == Type::BOX { b';' } else { b',' };
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(comma);
        }
        match value::as_list(item) {
            Some(_) if !takes_list(inner) => list(item, inner, out)?,
            _ => element(item, inner, out)?,
        }
    }
    out.push(b'}');
    Ok(())
}

/// Whether a list is a value of the type, and no dimension.
fn takes_list(kind: &Type) -> bool {
    match kind.kind() {
        Kind::Domain(base) => takes_list(base),
        Kind::Array(_) => true,
        _ => is_json(kind),
    }
}

fn element(item: &Value, kind: &Type, out: &mut Vec<u8>) -> Result<(), UnfitParameter> {
    let mut text = Vec::new();
    match convert(item, kind, &mut text) {
        Ok(true) => quote(&text, out),
        Ok(false) => out.extend_from_slice(b"NULL"),
        Err(UnfitParameter(reason)) => {
            return Err(UnfitParameter(format!("must be a list in which each item {reason}")));
        }
    }
    Ok(())
}

fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// `(1,"a",)`
fn record(value: &Value, fields: &[Field], out: &mut Vec<u8>) -> Result<(), UnfitParameter> {
    let Some(object) = value::as_object(value) else { return must("be an object") };
    let find = |name: &str| object.iter().find(|(key, _)| value::as_str(key) == Some(name)).map(|(_, value)| value);
    if let Some((key, _)) =
        object.iter().find(|(key, _)| !fields.iter().any(|field| value::as_str(key) == Some(field.name())))
    {
        let key: String = value::as_str(key).unwrap_or_default().chars().take(64).collect();
        return must(&format!("be an object without `{key}`"));
    }
    out.push(b'(');
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let mut text = Vec::new();
        let sent = match find(field.name()) {
            Some(inner) => convert(inner, field.type_(), &mut text).map_err(|UnfitParameter(reason)| {
                UnfitParameter(format!("must be an object whose `{}` {reason}", field.name()))
            })?,
            None => false,
        };
        if sent {
            quote(&text, out);
        }
    }
    out.push(b')');
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn sent(json: &str, kind: &Type) -> Result<Option<String>, String> {
        let value = json::read(&Bytes::from(json.to_owned())).expect("JSON");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Parameter::from_data(value.into(), kind).map(|sent| sent.0.map(text)).map_err(|UnfitParameter(reason)| reason)
    }

    fn text(json: &str, kind: &Type) -> String {
        sent(json, kind).expect("it fits").expect("no null")
    }

    #[test]
    fn whole_numbers_are_read_digit_for_digit() {
        for (literal, number) in [("1.0", 1), ("-0", 0), ("1e2", 100), ("12.50e1", 125), ("0.0e-9", 0), ("-700", -700)]
        {
            assert_eq!(digits(literal), Some(number), "{literal}");
        }
        for literal in ["1e-400", "0.1", "1.00000000000000000001", "1e19", "1e100000", "9223372036854775808"] {
            assert_eq!(digits(literal), None, "{literal}");
        }
    }

    #[test]
    fn values_are_sent_as_their_type_reads_them() {
        assert_eq!(text("9223372036854775807", &Type::INT8), "9223372036854775807");
        assert_eq!(text("5.0", &Type::INT4), "5");
        assert_eq!(
            text("123456789012345678901234567890.123456789", &Type::NUMERIC),
            "123456789012345678901234567890.123456789"
        );
        assert_eq!(text("\"a\\\\b\"", &Type::TEXT), "a\\b");
        assert_eq!(text("\"AAH/\"", &Type::BYTEA), "\\x0001ff");
        assert_eq!(text("[\"a\\\"\", null, \"NULL\"]", &Type::TEXT_ARRAY), r#"{"a\"",NULL,"NULL"}"#);
        assert_eq!(text("[[1,2],[3,4]]", &Type::INT4_ARRAY), r#"{{"1","2"},{"3","4"}}"#);
        assert_eq!(text("[[1]]", &Type::JSONB_ARRAY), r#"{"[1]"}"#);
        assert_eq!(text("{\"a\":1.10}", &Type::JSONB), r#"{"a":1.10}"#);
        assert_eq!(sent("null", &Type::JSONB), Ok(None));
    }

    #[test]
    fn what_does_not_fit_is_refused_in_plain_words() {
        let refused = |json: &str, kind: &Type| sent(json, kind).expect_err("it does not fit");
        assert_eq!(refused("32768", &Type::INT2), "must be a whole number from -32768 to 32767");
        for json in ["\"5\"", "5.5", "true", "[5]", "1e30", "99999999999999999999"] {
            assert!(refused(json, &Type::INT8).starts_with("must be a whole number"), "{json}");
        }
        assert_eq!(refused("\"a\\u0000b\"", &Type::TEXT), "must be text without the character U+0000");
        assert_eq!(refused("5", &Type::TEXT), "must be text");
        assert_eq!(refused("[1e100000]", &Type::JSONB), "must have no number of more than 1000 digits");
        assert_eq!(refused("\"t\"", &Type::BOOL), "must be true or false");
        assert_eq!(refused("1e400", &Type::FLOAT8), "must be a smaller number");
        assert_eq!(refused("\"now\"", &Type::DATE), "must be a date as text, as in `2024-05-31`");
        assert!(
            refused("[1, \"a\"]", &Type::INT4_ARRAY).starts_with("must be a list in which each item must be a whole")
        );
    }
}
