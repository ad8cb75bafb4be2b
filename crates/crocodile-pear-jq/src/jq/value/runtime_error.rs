//! Errors of an expression, with the messages of jq.
//!
//! jq's messages quote the beginning of a value. An expression that catches an error gets the full message; clients and
//! the log get only the type of the value.

use super::bounded::Item;
use crate::json;
use crate::json::value::{self, Shape, Value, kind};

/// Bytes of a value that an error quotes, including the terminating zero of C.
const QUOTE: usize = 30;

/// An error that an expression can catch.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The value that `catch` gets.
    pub value: Item,
    /// The message without data, unless the expression chose the message itself.
    pub shown: Option<String>,
}

/// Why an evaluation stops.
#[derive(Debug)]
pub enum Stop {
    Fault(Box<Fault>),
    /// `break` to the label of this number.
    Break(usize),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(Box::new(fault))
    }
}

/// An error whose message quotes no data.
pub fn fail<T>(message: impl Into<String>) -> Result<T, Fault> {
    let message = message.into();
    Err(Fault { value: Item::from(message.clone()), shown: Some(message) })
}

/// An error that the expression raised itself.
pub fn thrown(value: Item) -> Fault {
    Fault { value, shown: None }
}

/// A message from a pattern. `@` is replaced by a quoted value; `^` by the type of the next value, and the quoted value
/// after it.
pub fn tell(pattern: &str, values: &[&Value]) -> Fault {
    let (mut full, mut shown) = (String::new(), String::new());
    let mut values = values.iter();
    for character in pattern.chars() {
        match character {
            '^' | '@' => {
                let Some(value) = values.next() else { continue };
                let quote = quote(value);
                match character {
                    '^' => {
                        full += &format!("{} ({quote})", kind(value));
                        shown += kind(value);
                    }
                    _ => {
                        full += &quote;
                        shown += kind(value);
                    }
                }
            }
            _ => {
                full.push(character);
                shown.push(character);
            }
        }
    }
    Fault { value: Item::from(full), shown: Some(shown) }
}

/// The error of an index that does not fit. Its key is shown, because most keys are in the expression itself.
pub fn misfit(value: &Value, key: &Value) -> Fault {
    let full = format!("Cannot index {} with {} ({})", kind(value), kind(key), quote(key));
    let shown = match value::as_str(key) {
        Some(name) if name.len() <= 64 => format!("Cannot index {} with \"{name}\"", kind(value)),
        _ => format!("Cannot index {} with {}", kind(value), kind(key)),
    };
    Fault { value: Item::from(full), shown: Some(shown) }
}

/// The error that `tell` makes, as a result.
pub fn refuse<T>(pattern: &str, values: &[&Value]) -> Result<T, Fault> {
    Err(tell(pattern, values))
}

/// The beginning of a value's JSON.
fn quote(value: &Value) -> String {
    let mut out = Vec::new();
    begin(value, &mut out);
    if out.len() < QUOTE {
        return String::from_utf8_lossy(&out).into_owned();
    }
    let end = match out[0] {
        b'"' => "\"",
        b'[' => "]",
        b'{' => "}",
        _ => "",
    };
    let mut length = QUOTE - 4 - end.len();
    while length > 0 && out[length] & 0xc0 == 0x80 {
        length -= 1;
    }
    format!("{}...{end}", String::from_utf8_lossy(&out[..length]))
}

/// Writes a value's JSON, and stops soon after the part that an error quotes.
fn begin(value: &Value, out: &mut Vec<u8>) {
    if out.len() >= QUOTE {
        return;
    }
    match value::shape(value) {
        Shape::Text(text) => {
            // A character has at most four bytes.
            let some = String::from_utf8_lossy(&text[..text.len().min(4 * QUOTE)]);
            json::write_string(&some, out);
        }
        Shape::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate().take(QUOTE) {
                out.extend_from_slice(if index > 0 { b"," } else { b"" });
                begin(item, out);
            }
            out.push(b']');
        }
        Shape::Object(fields) => {
            out.push(b'{');
            for (index, (key, item)) in fields.iter().enumerate().take(QUOTE) {
                out.extend_from_slice(if index > 0 { b"," } else { b"" });
                begin(key, out);
                out.push(b':');
                begin(item, out);
            }
            out.push(b'}');
        }
        Shape::Literal(literal) => out.extend_from_slice(&literal.as_bytes()[..literal.len().min(2 * QUOTE)]),
        // Small values are written. A value that cannot be written is not quoted.
        _ => drop(json::write(value, out)),
    }
}
