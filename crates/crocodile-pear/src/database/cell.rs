//! A value of a row: from PostgreSQL's binary form to JSON.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio_postgres::types::{Kind, Type};

use super::moment::{self, Garbled};
use crate::json::write_string;
use crate::runtime::hex;

/// How the values of a type are written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    Numeric,
    Text,
    Json,
    Jsonb,
    Uuid,
    TimestampTz,
    Timestamp,
    Date,
    Time,
    TimeTz,
    Interval,
    Bytea,
    Network,
    Mac,
    Char,
    Bits,
    Void,
    List(Box<Cell>),
    /// The fields of a composite type, with the bytes before each: `{"name":`.
    Record(Vec<(Vec<u8>, Cell)>),
}

impl Cell {
    /// How a type is written; nothing for those that have no form in JSON here.
    pub(super) fn for_type(kind: &Type) -> Option<Cell> {
        Some(match *kind {
            Type::BOOL => Cell::Bool,
            Type::INT2 => Cell::Int2,
            Type::INT4 => Cell::Int4,
            Type::INT8 => Cell::Int8,
            Type::OID | Type::XID | Type::CID | Type::REGPROC => Cell::Oid,
            Type::FLOAT4 => Cell::Float4,
            Type::FLOAT8 => Cell::Float8,
            Type::NUMERIC => Cell::Numeric,
            Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::XML | Type::UNKNOWN => Cell::Text,
            Type::JSON => Cell::Json,
            Type::JSONB => Cell::Jsonb,
            Type::UUID => Cell::Uuid,
            Type::TIMESTAMPTZ => Cell::TimestampTz,
            Type::TIMESTAMP => Cell::Timestamp,
            Type::DATE => Cell::Date,
            Type::TIME => Cell::Time,
            Type::TIMETZ => Cell::TimeTz,
            Type::INTERVAL => Cell::Interval,
            Type::BYTEA => Cell::Bytea,
            Type::INET | Type::CIDR => Cell::Network,
            Type::MACADDR | Type::MACADDR8 => Cell::Mac,
            Type::CHAR => Cell::Char,
            Type::BIT | Type::VARBIT => Cell::Bits,
            Type::VOID => Cell::Void,
            _ => return Cell::made(kind),
        })
    }

    /// Types that a user defined, and lists.
    fn made(kind: &Type) -> Option<Cell> {
        Some(match kind.kind() {
            Kind::Enum(_) => Cell::Text,
            Kind::Domain(base) => Cell::for_type(base)?,
            Kind::Array(inner) => Cell::List(Box::new(Cell::for_type(inner)?)),
            Kind::Composite(fields) => {
                let field = |(at, field): (usize, &tokio_postgres::types::Field)| {
                    Some((lead(at, field.name()), Cell::for_type(field.type_())?))
                };
                Cell::Record(fields.iter().enumerate().map(field).collect::<Option<_>>()?)
            }
            // `citext` and `ltree` of the extensions; the second has its version before the text.
            Kind::Simple if kind.name() == "citext" => Cell::Text,
            _ => return None,
        })
    }

    /// Whether it may hold JSON of any depth that was not checked.
    pub(super) fn is_deep(&self) -> bool {
        match self {
            Cell::Json | Cell::Jsonb | Cell::Record(_) => true,
            Cell::List(inner) => inner.is_deep(),
            _ => false,
        }
    }

    /// Appends a value as JSON.
    pub(super) fn write(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
        match self {
            Cell::Bool => out.extend_from_slice(if all::<1>(bytes)? == [0] { b"false" } else { b"true" }),
            Cell::Int2 => whole(i16::from_be_bytes(all(bytes)?), out),
            Cell::Int4 => whole(i32::from_be_bytes(all(bytes)?), out),
            Cell::Int8 => whole(i64::from_be_bytes(all(bytes)?), out),
            Cell::Oid => whole(u32::from_be_bytes(all(bytes)?), out),
            Cell::Float4 => {
                let number = f32::from_be_bytes(all(bytes)?);
                float(f64::from(number), || number.to_string(), || format!("{number:e}"), out);
            }
            Cell::Float8 => {
                let number = f64::from_be_bytes(all(bytes)?);
                float(number, || number.to_string(), || format!("{number:e}"), out);
            }
            Cell::Numeric => numeric(bytes, out)?,
            Cell::Text => text(bytes, out)?,
            Cell::Json => out.extend_from_slice(bytes.trim_ascii()),
            Cell::Jsonb => match bytes.split_first() {
                Some((1, json)) => out.extend_from_slice(json),
                _ => return Err(Garbled),
            },
            Cell::Uuid => uuid(all(bytes)?, out),
            Cell::TimestampTz => quoted(out, |out| moment::timestamp(i64::from_be_bytes(all(bytes)?), "Z", out))?,
            Cell::Timestamp => quoted(out, |out| moment::timestamp(i64::from_be_bytes(all(bytes)?), "", out))?,
            Cell::Date => quoted(out, |out| moment::date(i32::from_be_bytes(all(bytes)?), out))?,
            Cell::Time => quoted(out, |out| moment::time(i64::from_be_bytes(all(bytes)?), out))?,
            Cell::TimeTz => quoted(out, |out| moment::time_with_zone(all(bytes)?, out))?,
            Cell::Interval => quoted(out, |out| moment::interval(all(bytes)?, out))?,
            Cell::Bytea => quoted(out, |out| {
                out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
                Ok(())
            })?,
            Cell::Network => quoted(out, |out| network(bytes, out))?,
            Cell::Mac => quoted(out, |out| mac(bytes, out))?,
            Cell::Char => character(all(bytes)?, out),
            Cell::Bits => quoted(out, |out| bits(bytes, out))?,
            Cell::Void => out.extend_from_slice(b"null"),
            Cell::List(inner) => list(inner, bytes, out)?,
            Cell::Record(fields) => record(fields, bytes, out)?,
        }
        Ok(())
    }

    /// Appends a value that may be null.
    pub(super) fn write_nullable(&self, bytes: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), Garbled> {
        match bytes {
            Some(bytes) => self.write(bytes, out),
            None => {
                out.extend_from_slice(b"null");
                Ok(())
            }
        }
    }
}

/// The text before a field of an object: the brace or the comma, and its name.
pub(super) fn lead(at: usize, name: &str) -> Vec<u8> {
    let mut lead = vec![if at == 0 { b'{' } else { b',' }];
    write_string(name, &mut lead);
    lead.push(b':');
    lead
}

fn all<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Garbled> {
    bytes.try_into().map_err(|_| Garbled)
}

/// Takes this many bytes from the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Garbled> {
    let (front, rest) = bytes.split_first_chunk::<N>().ok_or(Garbled)?;
    *bytes = rest;
    Ok(*front)
}

fn whole(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), Garbled>) -> Result<(), Garbled> {
    out.push(b'"');
    write(out)?;
    out.push(b'"');
    Ok(())
}

fn text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
    write_string(std::str::from_utf8(bytes).map_err(|_| Garbled)?, out);
    Ok(())
}

/// The fewest digits that read back; what JSON has no number for is text, as PostgreSQL's own `to_json` has it.
fn float(number: f64, plain: impl Fn() -> String, scientific: impl Fn() -> String, out: &mut Vec<u8>) {
    let magnitude = number.abs();
    match number {
        _ if number.is_nan() => out.extend_from_slice(b"\"NaN\""),
        f64::INFINITY => out.extend_from_slice(b"\"Infinity\""),
        f64::NEG_INFINITY => out.extend_from_slice(b"\"-Infinity\""),
        _ if magnitude == 0.0 || (1e-5..1e15).contains(&magnitude) => out.extend_from_slice(plain().as_bytes()),
        _ => out.extend_from_slice(scientific().as_bytes()),
    }
}

/// Digits to the base of 10,000, with a weight and a scale.
fn numeric(mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
    let mut field = || take::<2>(&mut bytes);
    let (count, weight) = (u16::from_be_bytes(field()?), i16::from_be_bytes(field()?));
    let (sign, scale) = (u16::from_be_bytes(field()?), u16::from_be_bytes(field()?));
    let word: &[u8] = match sign {
        0xC000 => b"\"NaN\"",
        0xD000 => b"\"Infinity\"",
        0xF000 => b"\"-Infinity\"",
        0x4000 => b"-",
        _ => b"",
    };
    out.extend_from_slice(word);
    if word.len() > 1 {
        return Ok(());
    }
    if bytes.len() != usize::from(count) * 2 {
        return Err(Garbled);
    }
    let weight = i32::from(weight);
    let digit = |at: i32| {
        let at = usize::try_from(at).ok().map(|at| at * 2);
        at.and_then(|at| bytes.get(at..at + 2)).map_or(0, |pair| u16::from_be_bytes([pair[0], pair[1]]))
    };
    if weight < 0 {
        out.push(b'0');
    }
    for at in 0..=weight {
        match at {
            0 => whole(digit(0), out),
            _ => four(digit(at), out),
        }
    }
    if scale > 0 {
        out.push(b'.');
        let end = out.len() + usize::from(scale);
        let mut at = weight + 1;
        while out.len() < end {
            four(digit(at), out);
            at += 1;
        }
        out.truncate(end);
    }
    Ok(())
}

fn four(digits: u16, out: &mut Vec<u8>) {
    out.extend([1000, 100, 10, 1].map(|place| b'0' + (digits / place % 10) as u8));
}

fn uuid(bytes: [u8; 16], out: &mut Vec<u8>) {
    out.push(b'"');
    for (at, byte) in bytes.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend(hex::pair(byte));
    }
    out.push(b'"');
}

/// The family, the bits of the network, whether it is a `cidr`, the length and the address.
fn network(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
    let [family, bits, cidr, _, address @ ..] = bytes else { return Err(Garbled) };
    let (address, most): (std::net::IpAddr, u8) = match family {
        2 => (all::<4>(address)?.into(), 32),
        3 => (all::<16>(address)?.into(), 128),
        _ => return Err(Garbled),
    };
    // Writing to a vector does not fail.
    let _ = write!(out, "{address}");
    if *cidr != 0 || *bits != most {
        let _ = write!(out, "/{bits}");
    }
    Ok(())
}

fn mac(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
    for (at, byte) in bytes.iter().enumerate() {
        if at > 0 {
            out.push(b':');
        }
        out.extend(hex::pair(*byte));
    }
    Ok(())
}

/// PostgreSQL's `"char"`: one byte, empty for zero.
fn character([byte]: [u8; 1], out: &mut Vec<u8>) {
    match byte {
        0 => out.extend_from_slice(b"\"\""),
        byte => write_string(char::from(byte).encode_utf8(&mut [0; 4]), out),
    }
}

fn bits(mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
    let length = usize::try_from(i32::from_be_bytes(take(&mut bytes)?)).map_err(|_| Garbled)?;
    for at in 0..length {
        let byte = bytes.get(at / 8).ok_or(Garbled)?;
        out.push(b'0' + (byte >> (7 - at % 8) & 1));
    }
    Ok(())
}

/// The most dimensions that PostgreSQL has.
const DIMENSIONS: usize = 6;

fn list(inner: &Cell, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
    let dimensions = u32::from_be_bytes(take(&mut bytes)?) as usize;
    let _ = (take::<4>(&mut bytes)?, take::<4>(&mut bytes)?);
    if dimensions > DIMENSIONS {
        return Err(Garbled);
    }
    let mut lengths = [0; DIMENSIONS];
    for length in &mut lengths[..dimensions] {
        *length = u32::from_be_bytes(take(&mut bytes)?);
        take::<4>(&mut bytes)?;
    }
    match dimensions {
        0 => out.extend_from_slice(b"[]"),
        _ => dimension(inner, &lengths[..dimensions], &mut bytes, out)?,
    }
    Ok(())
}

fn dimension(inner: &Cell, lengths: &[u32], bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
    let [length, rest @ ..] = lengths else { return value(inner, bytes, out) };
    out.push(b'[');
    for at in 0..*length {
        if at > 0 {
            out.push(b',');
        }
        dimension(inner, rest, bytes, out)?;
    }
    out.push(b']');
    Ok(())
}

/// A value behind its length, which is -1 for null.
fn value(cell: &Cell, bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
    let Ok(length) = usize::try_from(i32::from_be_bytes(take(bytes)?)) else {
        return cell.write_nullable(None, out);
    };
    let (own, rest) = bytes.split_at_checked(length).ok_or(Garbled)?;
    *bytes = rest;
    cell.write(own, out)
}

fn record(fields: &[(Vec<u8>, Cell)], mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
    if u32::from_be_bytes(take(&mut bytes)?) as usize != fields.len() {
        return Err(Garbled);
    }
    if fields.is_empty() {
        out.push(b'{');
    }
    for (lead, cell) in fields {
        out.extend_from_slice(lead);
        take::<4>(&mut bytes)?;
        value(cell, &mut bytes, out)?;
    }
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(cell: &Cell, bytes: &[u8]) -> Result<String, Garbled> {
        let mut out = Vec::new();
        cell.write(bytes, &mut out)?;
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    fn numeric(weight: i16, sign: u16, scale: u16, digits: &[u16]) -> String {
        let mut bytes = Vec::new();
        for field in [digits.len() as u16, weight as u16, sign, scale].iter().chain(digits) {
            bytes.extend(field.to_be_bytes());
        }
        written(&Cell::Numeric, &bytes).expect("sound")
    }

    #[test]
    fn numbers_keep_all_their_digits() {
        assert_eq!(numeric(0, 0, 2, &[1, 5000]), "1.50");
        assert_eq!(numeric(4, 0, 9, &[12, 3456, 7890, 1234, 5678, 9012, 3456, 7000]), "123456789012345678.901234567");
        assert_eq!(numeric(-2, 0x4000, 10, &[12, 3400]), "-0.0000001234");
        assert_eq!(numeric(2, 0, 0, &[1]), "100000000");
        assert_eq!([numeric(0, 0, 0, &[]), numeric(0, 0, 3, &[])], ["0", "0.000"]);
        assert_eq!(numeric(0, 0xC000, 0, &[]), "\"NaN\"");
        assert_eq!(written(&Cell::Int8, &i64::MIN.to_be_bytes()), Ok(i64::MIN.to_string()));
        assert_eq!(written(&Cell::Float4, &0.1f32.to_be_bytes()), Ok("0.1".into()));
        assert_eq!(written(&Cell::Float8, &1e300f64.to_be_bytes()), Ok("1e300".into()));
        assert_eq!(written(&Cell::Float8, &f64::NEG_INFINITY.to_be_bytes()), Ok("\"-Infinity\"".into()));
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        for cell in [Cell::Bool, Cell::Int4, Cell::Numeric, Cell::Uuid, Cell::Interval, Cell::Network, Cell::Jsonb] {
            assert_eq!(written(&cell, &[]), Err(Garbled), "{cell:?}");
        }
        let list = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0];
        assert_eq!(written(&Cell::List(Box::new(Cell::Int4)), &list), Err(Garbled));
        assert_eq!(written(&Cell::Text, b"\xff"), Err(Garbled));
    }
}
