//! Reads MessagePack to JSON, and writes it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Error, Kind};
use crate::json::value::{self, Shape, Value};
use crate::json::{DEPTH, Raw, to_bytes, write_string};
use crate::offload::Made;

/// An open list or map.
struct OpenContainer {
    /// How many values are still to come, including keys.
    left: u64,
    map: bool,
    empty: bool,
}

/// Reads one value. Bytes that are not text become base64.
///
/// # Errors
/// `Kind::Malformed` for input that is truncated or has extra bytes at the end, nests deeper than 128 levels, has keys
/// that are not strings, or has extensions, which JSON cannot express.
pub fn read(bytes: &[u8]) -> Result<Raw, Error> {
    let mut rest = bytes;
    let mut out = Vec::with_capacity(bytes.len() * 2);
    let (mut open, mut made) = (Vec::<OpenContainer>::new(), Made::default());
    loop {
        let before = out.len();
        let key = match open.last_mut() {
            None => false,
            Some(inner) => {
                let key = inner.map && inner.left % 2 == 0;
                match (inner.map && !key, inner.empty) {
                    (true, _) => out.push(b':'),
                    (false, false) => out.push(b','),
                    (false, true) => {}
                }
                inner.empty = false;
                inner.left -= 1;
                key
            }
        };
        if let Some(inner) = value(&mut rest, key, &mut out)? {
            if open.len() == DEPTH {
                return Err(refuse("it nests deeper than 128 levels"));
            }
            open.push(inner);
        }
        while let Some(inner) = open.pop_if(|inner| inner.left == 0) {
            out.push(if inner.map { b'}' } else { b']' });
        }
        made.add(out.len() - before);
        if open.is_empty() {
            break;
        }
    }
    if !rest.is_empty() {
        return Err(refuse("there is data after the value"));
    }
    Ok(Raw::sound(out.into(), DEPTH as u8))
}

/// Reads one value, or the head of a list or map.
fn value(rest: &mut &[u8], key: bool, out: &mut Vec<u8>) -> Result<Option<OpenContainer>, Error> {
    let head = take(rest, 1)?[0];
    if key && !matches!(head, 0xa0..=0xbf | 0xd9..=0xdb) {
        return Err(refuse("a key is not a string"));
    }
    let whole = |number: i64, out: &mut Vec<u8>| out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    match head {
        0x00..=0x7f | 0xe0..=0xff => whole(i64::from(head as i8), out),
        0x80..=0x8f => return Ok(Some(begin(u64::from(head & 15), true, out))),
        0x90..=0x9f => return Ok(Some(begin(u64::from(head & 15), false, out))),
        0xa0..=0xbf => text(take(rest, usize::from(head & 31))?, out)?,
        0xc0 => out.extend_from_slice(b"null"),
        0xc2 => out.extend_from_slice(b"false"),
        0xc3 => out.extend_from_slice(b"true"),
        0xc4..=0xc6 => {
            let length = number(rest, 1 << (head - 0xc4))?;
            let bytes = take(rest, usize::try_from(length).unwrap_or(usize::MAX))?;
            write_string(&STANDARD.encode(bytes), out);
        }
        0xca => {
            let float = f32::from_bits(number(rest, 4)? as u32);
            out.extend_from_slice(&to_bytes(&f64::from(float).into())?);
        }
        0xcb => out.extend_from_slice(&to_bytes(&f64::from_bits(number(rest, 8)?).into())?),
        0xcc..=0xcf => {
            out.extend_from_slice(itoa::Buffer::new().format(number(rest, 1 << (head - 0xcc))?).as_bytes());
        }
        0xd0 => whole(i64::from(number(rest, 1)? as i8), out),
        0xd1 => whole(i64::from(number(rest, 2)? as i16), out),
        0xd2 => whole(i64::from(number(rest, 4)? as i32), out),
        0xd3 => whole(number(rest, 8)? as i64, out),
        0xd9..=0xdb => {
            let length = number(rest, 1 << (head - 0xd9))?;
            text(take(rest, usize::try_from(length).unwrap_or(usize::MAX))?, out)?;
        }
        0xdc | 0xdd => return Ok(Some(begin(number(rest, 2 << (head - 0xdc))?, false, out))),
        0xde | 0xdf => return Ok(Some(begin(number(rest, 2 << (head - 0xde))?, true, out))),
        0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return Err(refuse("an extension type, which JSON does not have")),
    }
    Ok(None)
}

fn begin(count: u64, map: bool, out: &mut Vec<u8>) -> OpenContainer {
    out.push(if map { b'{' } else { b'[' });
    OpenContainer { left: if map { 2 * count } else { count }, map, empty: true }
}

fn text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    write_string(std::str::from_utf8(bytes).map_err(|_| refuse("text is not UTF-8"))?, out);
    Ok(())
}

fn number(rest: &mut &[u8], length: usize) -> Result<u64, Error> {
    Ok(take(rest, length)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Error> {
    let (taken, after) = rest.split_at_checked(length).ok_or_else(|| refuse("it is incomplete"))?;
    *rest = after;
    Ok(taken)
}

fn refuse(reason: &str) -> Error {
    Error::new(Kind::Malformed, format!("not valid MessagePack: {reason}"))
}

/// Appends a value. A number becomes the smallest integer type that fits it, or a 64-bit float.
///
/// # Errors
/// `Kind::Expression` for a value that is larger than 64 MiB, or too long for the format.
pub fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    if out.len() > crate::json::SIZE {
        return Err(Error::new(Kind::Expression, "the value is too large to write"));
    }
    match value::shape(value) {
        Shape::Null => out.push(0xc0),
        Shape::Bool(truth) => out.push(0xc2 + u8::from(truth)),
        Shape::Integer(number) => integer(number as i64, out),
        Shape::Float(number) => float(number, out),
        Shape::Literal(literal) => match (literal.parse(), literal.parse::<u64>()) {
            (Ok(number), _) => integer(number, out),
            (_, Ok(number)) => {
                out.push(0xcf);
                out.extend_from_slice(&number.to_be_bytes());
            }
            _ => float(literal.parse().unwrap_or(f64::NAN), out),
        },
        Shape::Text(text) => {
            length(text.len(), (0xa0, 31), [0xd9, 0xda, 0xdb], out)?;
            out.extend_from_slice(text);
        }
        Shape::Bytes(bytes) => {
            length(bytes.len(), (0, -1), [0xc4, 0xc5, 0xc6], out)?;
            out.extend_from_slice(bytes);
        }
        Shape::List(items) => {
            length(items.len(), (0x90, 15), [0, 0xdc, 0xdd], out)?;
            items.iter().try_for_each(|item| write(item, out))?;
        }
        Shape::Object(fields) => {
            length(fields.len(), (0x80, 15), [0, 0xde, 0xdf], out)?;
            for (key, inner) in fields {
                write(key, out)?;
                write(inner, out)?;
            }
        }
    }
    Ok(())
}

fn integer(number: i64, out: &mut Vec<u8>) {
    if let Ok(small) = i8::try_from(number)
        && small >= -32
    {
        out.push(small as u8);
    } else if let Ok(number) = i16::try_from(number) {
        out.push(0xd1);
        out.extend_from_slice(&number.to_be_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        out.push(0xd2);
        out.extend_from_slice(&number.to_be_bytes());
    } else {
        out.push(0xd3);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn float(number: f64, out: &mut Vec<u8>) {
    out.push(0xcb);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Writes the head of a value with a length. The length is in the head itself, or in 8 (if there is such a head), 16 or
/// 32 bits.
fn length(length: usize, (tag, most): (u8, i8), heads: [u8; 3], out: &mut Vec<u8>) -> Result<(), Error> {
    if i8::try_from(length).is_ok_and(|length| length <= most) {
        out.push(tag | length as u8);
    } else if let (true, Ok(length)) = (heads[0] != 0, u8::try_from(length)) {
        out.extend_from_slice(&[heads[0], length]);
    } else if let Ok(length) = u16::try_from(length) {
        out.push(heads[1]);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        let length = u32::try_from(length);
        let length = length.map_err(|_| Error::new(Kind::Expression, "the value is too large to write"))?;
        out.push(heads[2]);
        out.extend_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let json = r#"{"a":[1,-1,300,-70000,12345678901234567890,1.5,null,true,"é",{},[],{"b":{"c":[[]]}}],"z":false}"#;
        let mut out = Vec::new();
        write(&crate::json::read(&json.into()).expect("JSON"), &mut out).expect("written");
        assert_eq!(&read(&out).expect("read").bytes()[..], json.as_bytes());
        for length in 0..out.len() {
            assert!(read(&out[..length]).is_err(), "{length}");
        }
        assert_eq!(&read(b"\xc4\x01\0").expect("read").bytes()[..], b"\"AA==\"");
    }

    #[test]
    fn promises_of_length_take_no_memory() {
        for bytes in [&b"\xdd\xff\xff\xff\xff"[..], b"\xdb\xff\xff\xff\xff", b"\x81\x01\x01", b"\xc1", b"\x01\x01"] {
            assert!(read(bytes).is_err());
        }
        assert!(read(&vec![0x91; 100_000]).is_err());
    }

    #[test]
    fn values_have_their_shortest_heads() {
        let json = r#"{"a":[1,-1,300,-70000,12345678901234567890,1.5,null,true,"é"]}"#;
        let mut out = Vec::new();
        write(&crate::json::read(&json.into()).expect("JSON"), &mut out).expect("written");
        let expected = b"\x81\xa1a\x99\x01\xff\xd1\x01\x2c\xd2\xff\xfe\xee\x90\xcf\xab\x54\xa9\x8c\xeb\x1f\x0a\xd2\
            \xcb\x3f\xf8\0\0\0\0\0\0\xc0\xc3\xa2\xc3\xa9";
        assert_eq!(out, expected);
        let mut long = Vec::new();
        write(&value::string(&"x".repeat(70_000)), &mut long).expect("written");
        assert_eq!(&long[..6], b"\xdb\0\x01\x11\x70x");
    }
}
