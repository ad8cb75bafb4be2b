//! Names and values of a query or a form (WHATWG URL, application/x-www-form-urlencoded).

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::error::{Error, Kind};
use crate::json;
use crate::json::value::{self, Shape, Value, shape};
use crate::offload::Made;

/// Bytes of memory for a pair, without its name and its value.
const PAIR: usize = 160;

/// Reads a form to an object of strings. A name that occurs several times gets a list of strings.
///
/// # Errors
/// `Kind::Malformed` if the decoded text is not UTF-8.
pub fn read(text: &str) -> Result<Value, Error> {
    let wrong = |_| Error::new(Kind::Malformed, "not a valid form: a name or a value is not UTF-8");
    let decode = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_decode_str(&spaced).decode_utf8().map(Cow::into_owned).map_err(wrong)
    };
    let pairs: Result<Vec<_>, Error> =
        pairs(text.trim()).map(|(name, value)| Ok((decode(name)?, decode(value)?))).collect();
    Ok(gather(pairs?.into_iter()))
}

/// Like [`read`], for a query, where invalid UTF-8 is replaced by U+FFFD.
pub fn query(text: &str) -> Value {
    let decode = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
    };
    gather(pairs(text).map(|(name, value)| (decode(name), decode(value))))
}

/// Writes an object as a query. A list becomes a repeated parameter; null is left out.
///
/// # Errors
/// `Kind::Expression` for anything but an object of strings, numbers, `true`, `false`, and lists of these.
pub fn write(value: &Value) -> Result<String, Error> {
    let wrong =
        || Error::new(Kind::Expression, "a query is an object of texts, numbers, `true`, `false`, and lists of those");
    let Shape::Object(fields) = shape(value) else { return Err(wrong()) };
    let mut out = String::new();
    for (name, value) in fields {
        let single = [value];
        let values: Vec<&Value> = match shape(value) {
            Shape::List(items) => items.iter().collect(),
            _ => single.to_vec(),
        };
        for value in values.into_iter().filter(|value| !matches!(shape(value), Shape::Null)) {
            let text = scalar(value).ok_or_else(wrong)?;
            out.push_str(if out.is_empty() { "" } else { "&" });
            out.extend(utf8_percent_encode(&scalar(name).ok_or_else(wrong)?, RESERVED));
            out.push('=');
            out.extend(utf8_percent_encode(&text, RESERVED));
        }
    }
    Ok(out)
}

/// All characters except the unreserved ones (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The text of a value in a query.
fn scalar(value: &Value) -> Option<String> {
    match shape(value) {
        Shape::Text(text) => String::from_utf8(text.to_vec()).ok(),
        Shape::Bool(_) | Shape::Integer(_) | Shape::Float(_) | Shape::Literal(_) => {
            String::from_utf8(json::to_bytes(value).ok()?.to_vec()).ok()
        }
        _ => None,
    }
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// An object of strings. A name that occurs several times gets a list of strings.
pub fn gather(pairs: impl Iterator<Item = (String, String)>) -> Value {
    let mut grouped: indexmap::IndexMap<String, Vec<Value>> = indexmap::IndexMap::new();
    let mut made = Made::default();
    for (name, value) in pairs {
        made.add(PAIR + name.len() + value.len());
        grouped.entry(name).or_default().push(value::string(&value));
    }
    let single = |mut values: Vec<Value>| match values.len() {
        1 => values.remove(0),
        _ => value::list(values),
    };
    value::object(grouped.into_iter().map(|(name, values)| (name, single(values))))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_query_is_written_of_an_object() {
        let value = json::read(&r#"{"a":["1",2.50,null],"b c":"x&y=\u00e5","t":true,"n":null}"#.into()).expect("JSON");
        assert_eq!(write(&value).expect("a query"), "a=1&a=2.50&b%20c=x%26y%3D%C3%A5&t=true");
        for wrong in ["[]", r#"{"a":{}}"#, r#"{"a":[[1]]}"#, "null"] {
            assert!(write(&json::read(&wrong.into()).expect("JSON")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_form_is_an_object() {
        let json = |text: &str| String::from_utf8(json::to_bytes(&read(text).expect("sound")).expect("JSON").to_vec());
        assert_eq!(json("a=1&b=x+y%26&a=%C3%A5&c&=d&&").as_deref(), Ok(r#"{"a":["1","å"],"b":"x y&","c":"","":"d"}"#));
        assert_eq!(json("").as_deref(), Ok("{}"));
        assert_eq!(json("a=%&b=%zz").as_deref(), Ok(r#"{"a":"%","b":"%zz"}"#));
        assert!(read("a=%ff").is_err());
    }
}
