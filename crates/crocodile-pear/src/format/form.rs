//! Names and values of a query or a form (WHATWG URL, application/x-www-form-urlencoded).

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::error::{Error, Kind};
use crate::jq::{self, Value};

/// Reads a form: an object of texts; a name that comes several times has a list of texts.
///
/// # Errors
/// `Kind::Malformed` for what is not UTF-8 once it is decoded.
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

/// The same of a query, where what is not UTF-8 is mended.
pub fn query(text: &str) -> Value {
    let decode = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
    };
    gather(pairs(text).map(|(name, value)| (decode(name), decode(value))))
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// An object of strings; a name that comes several times has a list of strings.
pub fn gather(pairs: impl Iterator<Item = (String, String)>) -> Value {
    let mut grouped: indexmap::IndexMap<String, Vec<Value>> = indexmap::IndexMap::new();
    for (name, value) in pairs {
        grouped.entry(name).or_default().push(jq::string(&value));
    }
    let single = |mut values: Vec<Value>| match values.len() {
        1 => values.remove(0),
        _ => jq::list(values),
    };
    jq::object(grouped.into_iter().map(|(name, values)| (name, single(values))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::json;

    #[test]
    fn a_form_is_an_object() {
        let json = |text: &str| String::from_utf8(json::to_bytes(&read(text).expect("sound")).expect("JSON").to_vec());
        assert_eq!(json("a=1&b=x+y%26&a=%C3%A5&c&=d&&").as_deref(), Ok(r#"{"a":["1","å"],"b":"x y&","c":"","":"d"}"#));
        assert_eq!(json("").as_deref(), Ok("{}"));
        assert_eq!(json("a=%&b=%zz").as_deref(), Ok(r#"{"a":"%","b":"%zz"}"#));
        assert!(read("a=%ff").is_err());
    }
}
