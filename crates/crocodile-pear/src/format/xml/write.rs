//! From a value to XML, by the mapping that reading has.

use super::name;
use crate::error::Error;
use crate::format::json;
use crate::jq::value::{self, Shape, Value};

/// Appends a document.
///
/// An object with one field is that element; any other value stands in an element `root`, the items of a list in elements
/// `item`. What a name cannot have in XML becomes `_`, and what no text can have is left out.
///
/// # Errors
/// As [`json::write`] for numbers and bytes.
pub fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    if let Some((key, inner)) = value::as_object(value).filter(|fields| fields.len() == 1).and_then(|it| it.first())
        && let Some(name) = value::as_str(key).filter(|name| !name.starts_with(['@', '#']))
        && value::as_list(inner).is_none()
    {
        return element(name, inner, out);
    }
    element("root", value, out)
}

fn element(name: &str, value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    let name = named(name);
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    let start = out.len();
    match value::shape(value) {
        Shape::Object(fields) => {
            for (key, inner) in fields {
                if let Some(attribute) = value::as_str(key).and_then(|key| key.strip_prefix('@')) {
                    out.push(b' ');
                    out.extend_from_slice(named(attribute).as_bytes());
                    out.extend_from_slice(b"=\"");
                    text(inner, out)?;
                    out.push(b'"');
                }
            }
            out.push(b'>');
            for (key, inner) in fields {
                match value::as_str(key).unwrap_or_default() {
                    attribute if attribute.starts_with('@') => {}
                    "#text" => text(inner, out)?,
                    "#content" => content(inner, out)?,
                    name => several(name, inner, out)?,
                }
            }
        }
        Shape::List(items) => {
            out.push(b'>');
            items.iter().try_for_each(|item| element("item", item, out))?;
        }
        _ => {
            out.push(b'>');
            text(value, out)?;
        }
    }
    if out.len() == out[start..].iter().position(|byte| *byte == b'>').map_or(0, |at| start + at + 1) {
        out.pop();
        out.extend_from_slice(b"/>");
        return Ok(());
    }
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
    Ok(())
}

fn several(name: &str, value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    match value::as_list(value) {
        Some(items) => items.iter().try_for_each(|item| element(name, item, out)),
        None => element(name, value, out),
    }
}

/// Texts and elements in their order.
fn content(value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    for part in value::as_list(value).unwrap_or(std::slice::from_ref(value)) {
        match value::as_object(part) {
            Some(fields) => {
                for (key, inner) in fields {
                    several(value::as_str(key).unwrap_or_default(), inner, out)?;
                }
            }
            None => text(part, out)?,
        }
    }
    Ok(())
}

fn text(value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut written = Vec::new();
    let text = match value::shape(value) {
        Shape::Null => return Ok(()),
        Shape::Text(text) => String::from_utf8_lossy(text),
        _ => {
            json::write(value, &mut written)?;
            String::from_utf8_lossy(&written)
        }
    };
    for c in text.chars().filter(|c| name::is_character(*c)) {
        match c {
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '&' => out.extend_from_slice(b"&amp;"),
            '"' => out.extend_from_slice(b"&quot;"),
            '\t' | '\n' | '\r' => out.extend_from_slice(format!("&#{};", u32::from(c)).as_bytes()),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(())
}

/// The same, or the nearest name that XML has.
fn named(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if name::goes_on(c) { c } else { '_' }).collect();
    if !out.starts_with(name::begins) {
        out.insert(0, '_');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: &str) -> String {
        let mut out = Vec::new();
        write(&json::read(&json.to_owned().into()).expect("JSON"), &mut out).expect("written");
        String::from_utf8(out).expect("UTF-8").split_once('\n').expect("declared").1.to_owned()
    }

    #[test]
    fn what_was_read_is_written_again() {
        for text in [
            r#"<a b="1" xmlns:x="u">t &amp; &lt;</a>"#,
            "<a><b>1</b><b>2</b><x-y/></a>",
            r#"<p a="&quot;">x <b>y</b> <i/><b>z</b>!</p>"#,
            "<a>&#10;</a>",
        ] {
            let raw = super::super::read(text.as_bytes(), None).expect("read");
            assert_eq!(written(std::str::from_utf8(raw.bytes()).expect("UTF-8")), text);
        }
    }

    #[test]
    fn any_value_is_a_document() {
        assert_eq!(
            written("[1.0,{\"a b\":null},\"\\u0001<\"]"),
            "<root><item>1.0</item><item><a_b/></item><item>&lt;</item></root>"
        );
        assert_eq!(written("{\"a\":[1,2]}"), "<root><a>1</a><a>2</a></root>");
        assert_eq!(written("{\"1\":true}"), "<_1>true</_1>");
    }
}
