//! Errors of an expression, in jq's words.
//!
//! jq's words quote the beginning of a value. An expression that catches an error gets them as they are; what goes to clients and
//! to the log names only the kind of value.

use super::bounded::Item;
use crate::json;
use crate::json::value::{self, Shape, Value, kind};

/// Bytes that an error quotes of a value, with the end of C's string.
const QUOTE: usize = 30;

/// An error that an expression may catch.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What `catch` gets.
    pub value: Item,
    /// The same without data, unless the expression chose the words itself.
    pub shown: Option<String>,
}

/// Why an evaluation stops.
#[derive(Debug)]
pub enum Stop {
    /// An error.
    Fault(Box<Fault>),
    /// `break`, to the label of this number.
    Break(usize),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(Box::new(fault))
    }
}

/// An error in words that quote nothing.
pub fn fail<T>(message: impl Into<String>) -> Result<T, Fault> {
    let message = message.into();
    Err(Fault { value: Item::from(message.clone()), shown: Some(message) })
}

/// An error of the expression's own making.
pub fn thrown(value: Item) -> Fault {
    Fault { value, shown: None }
}

/// A message that quotes values where `@` stands; `^` stands for the kind of the next value, quoted after it.
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

/// The error of an index that does not fit. Its key is shown: the expression's author chose most of them.
pub fn misfit(value: &Value, key: &Value) -> Fault {
    let full = format!("Cannot index {} with {} ({})", kind(value), kind(key), quote(key));
    let shown = match value::as_str(key) {
        Some(name) if name.len() <= 64 => format!("Cannot index {} with \"{name}\"", kind(value)),
        _ => format!("Cannot index {} with {}", kind(value), kind(key)),
    };
    Fault { value: Item::from(full), shown: Some(shown) }
}

/// A message as `tell` makes it, as a result.
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

/// Writes a value's JSON, and stops soon after what an error quotes.
fn begin(value: &Value, out: &mut Vec<u8>) {
    if out.len() >= QUOTE {
        return;
    }
    match value::shape(value) {
        Shape::Text(text) => {
            // Four bytes a character at most.
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
        // What is small is written; what cannot be is not quoted.
        _ => drop(json::write(value, out)),
    }
}
