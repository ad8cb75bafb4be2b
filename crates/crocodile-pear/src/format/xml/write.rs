//! Writes a value as XML, with the same mapping as reading.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::name;
use crate::error::{Error, Kind};
use crate::json::value::{self, Shape, Value};
use crate::json::{self, SIZE};

/// Appends a document.
///
/// An object with one field becomes that element. Any other value becomes an element `root`, and the items of a list
/// become elements `item`. Characters that are not allowed in a name become `_`, and so does a colon behind a prefix that
/// no `@xmlns:…` declares; characters that are not allowed in text are left out.
///
/// # Errors
/// Same as [`json::write`] for numbers and bytes, and an error if the document becomes too large.
pub fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    out.extend_from_slice(DECLARATION);
    if let Some((key, inner)) = value::as_object(value).filter(|fields| fields.len() == 1).and_then(|it| it.first())
        && let Some(name) = value::as_str(key).filter(|name| !name.starts_with(['@', '#']))
        && value::as_list(inner).is_none()
    {
        return element(name, inner, &mut Prefixes::new(), out);
    }
    element("root", value, &mut Prefixes::new(), out)
}

const DECLARATION: &[u8] = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// Appends the beginning of a list whose items are appended one by one.
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(DECLARATION);
    out.extend_from_slice(b"<root>");
}

/// Appends an item of the list.
///
/// # Errors
/// Same as [`write()`].
pub fn item(value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    element("item", value, &mut Prefixes::new(), out)
}

/// Appends the end of the list.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"</root>");
}

/// The namespace prefixes in scope, each with the number of open elements that declare it.
type Prefixes<'v> = HashMap<&'v str, usize>;

fn element<'v>(name: &str, value: &'v Value, known: &mut Prefixes<'v>, out: &mut Vec<u8>) -> Result<(), Error> {
    if out.len() > SIZE {
        return Err(Error::new(Kind::Expression, "the value is too large to write"));
    }
    let keys = || value::as_object(value).into_iter().flatten().filter_map(|(key, _)| value::as_str(key));
    let declared = || keys().filter_map(|key| key.strip_prefix("@xmlns:"));
    declared().for_each(|prefix| *known.entry(prefix).or_default() += 1);
    let written = in_namespaces(name, value, known, out);
    if !known.is_empty() {
        for prefix in declared() {
            if let Entry::Occupied(mut open) = known.entry(prefix) {
                *open.get_mut() -= 1;
                if *open.get() == 0 {
                    open.remove();
                }
            }
        }
    }
    written
}

fn in_namespaces<'v>(name: &str, value: &'v Value, known: &mut Prefixes<'v>, out: &mut Vec<u8>) -> Result<(), Error> {
    let name = named(name, known);
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    let start = out.len();
    match value::shape(value) {
        Shape::Object(fields) => {
            for (key, inner) in fields {
                if let Some(attribute) = value::as_str(key).and_then(|key| key.strip_prefix('@')) {
                    out.push(b' ');
                    match attribute.strip_prefix("xmlns:").filter(|prefix| !prefix.contains(':')) {
                        Some(prefix) => out.extend_from_slice(format!("xmlns:{}", named(prefix, known)).as_bytes()),
                        None => out.extend_from_slice(named(attribute, known).as_bytes()),
                    }
                    out.extend_from_slice(b"=\"");
                    text(inner, TextPlace::Attribute, out)?;
                    out.push(b'"');
                }
            }
            out.push(b'>');
            for (key, inner) in fields {
                match value::as_str(key).unwrap_or_default() {
                    attribute if attribute.starts_with('@') => {}
                    "#text" => text(inner, TextPlace::Content, out)?,
                    "#content" => content(inner, known, out)?,
                    name => several(name, inner, known, out)?,
                }
            }
        }
        Shape::List(items) => {
            out.push(b'>');
            items.iter().try_for_each(|item| element("item", item, known, out))?;
        }
        _ => {
            out.push(b'>');
            text(value, TextPlace::Content, out)?;
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

fn several<'v>(name: &str, value: &'v Value, known: &mut Prefixes<'v>, out: &mut Vec<u8>) -> Result<(), Error> {
    match value::as_list(value) {
        Some(items) => items.iter().try_for_each(|item| element(name, item, known, out)),
        None => element(name, value, known, out),
    }
}

/// Writes texts and elements in order.
fn content<'v>(value: &'v Value, known: &mut Prefixes<'v>, out: &mut Vec<u8>) -> Result<(), Error> {
    for part in value::as_list(value).unwrap_or(std::slice::from_ref(value)) {
        match value::as_object(part) {
            Some(fields) => {
                for (key, inner) in fields {
                    several(value::as_str(key).unwrap_or_default(), inner, known, out)?;
                }
            }
            None => text(part, TextPlace::Content, out)?,
        }
    }
    Ok(())
}

/// The position of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextPlace {
    Content,
    /// In attributes, parsers turn any white space into a space.
    Attribute,
}

fn text(value: &Value, place: TextPlace, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut written = Vec::new();
    let text = match value::shape(value) {
        Shape::Null => return Ok(()),
        Shape::Text(text) => String::from_utf8_lossy(text),
        _ => {
            json::write(value, &mut written)?;
            String::from_utf8_lossy(&written)
        }
    };
    if out.len() + text.len() > SIZE {
        return Err(Error::new(Kind::Expression, "the value is too large to write"));
    }
    for c in text.chars().filter(|c| name::is_character(*c)) {
        match c {
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '&' => out.extend_from_slice(b"&amp;"),
            '"' if place == TextPlace::Attribute => out.extend_from_slice(b"&quot;"),
            '\t' | '\n' if place == TextPlace::Content => out.push(c as u8),
            '\t' | '\n' | '\r' => out.extend_from_slice(format!("&#{};", u32::from(c)).as_bytes()),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(())
}

/// The name itself, or the nearest valid XML name whose prefix is known.
fn named(name: &str, known: &Prefixes<'_>) -> String {
    let mut out: String = name.chars().map(|c| if name::goes_on(c) { c } else { '_' }).collect();
    if !out.starts_with(name::begins) {
        out.insert(0, '_');
    }
    let prefixed = |(prefix, _): (Option<&str>, &str)| prefix.is_none_or(|it| it == "xml" || known.contains_key(it));
    if out.contains(':') && !name::split(&out).is_some_and(prefixed) {
        out = out.replace(':', "_");
    }
    out
}

#[cfg(test)]
mod tests {
    use crocodile_pear_peers::test_rng::TestRng;

    use super::*;

    fn written(json: &str) -> String {
        let mut out = Vec::new();
        write(&json::read(&json.to_owned().into()).expect("JSON"), &mut out).expect("written");
        String::from_utf8(out).expect("UTF-8").split_once('\n').expect("declared").1.to_owned()
    }

    #[test]
    fn a_name_has_no_prefix_that_nothing_declares() {
        for (json, xml) in [
            (r#"{"x:y":1}"#, "<x_y>1</x_y>"),
            (r#"{"a":{"@x:k":1,"@xml:lang":"de","x:y":2}}"#, "<a x_k=\"1\" xml:lang=\"de\"><x_y>2</x_y></a>"),
            (
                r#"{"a":{"b":{"@xmlns:x":"u","x:y":[1,{"@x:k":2}]},"x:y":3}}"#,
                "<a><b xmlns:x=\"u\"><x:y>1</x:y><x:y x:k=\"2\"/></b><x_y>3</x_y></a>",
            ),
            (r#"{"x:a":{"@xmlns:x":"u"}}"#, "<x:a xmlns:x=\"u\"/>"),
            (r#"{"a:b:c":{"@xmlns:a":"u"},":":1}"#, "<root><a_b_c xmlns:a=\"u\"/><_>1</_></root>"),
            (r#"{"xmlns:a":{"@xmlns:xmlns":"u"}}"#, "<xmlns:a xmlns:xmlns=\"u\"/>"),
        ] {
            assert_eq!(written(json), xml);
        }
    }

    #[test]
    fn what_was_read_is_written_again() {
        for text in [
            r#"<a b="1" xmlns:x="u">t &amp; &lt;</a>"#,
            "<a><b>1</b><b>2</b><x-y/></a>",
            r#"<p a="&quot;">x <b>y</b> <i/><b>z</b>!</p>"#,
            "<a>\n</a>",
            "<a>&#13;</a>",
            "<p> <b>x</b> y</p>",
        ] {
            let raw =
                super::super::read(text.as_bytes(), None, &crate::message::xml_lists::Lists::default()).expect("read");
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

    /// Elements and values with random content.
    struct Maker(TestRng);

    impl Maker {
        fn pick(&mut self, of: &[&'static str]) -> &'static str {
            self.0.of(of)
        }

        fn element(&mut self, depth: u64) -> String {
            let name = self.pick(&["a", "b", "c-d", "x:e", "é"]);
            let mut out = format!("<{name} xmlns:x='u'");
            for attribute in ["k", "x:l"].iter().take(self.0.below(3)) {
                out += &format!(" {attribute}=\"{}\"", self.pick(&["", "1", "&quot;&#10;\t'"]));
            }
            out.push('>');
            for _ in 0..self.0.below(5) {
                out += &match self.0.below(6) {
                    0 | 1 if depth > 0 => self.element(depth - 1),
                    2 => self.pick(&["<!-- c -->", "<?p i?>", "<![CDATA[<&]]>"]).to_owned(),
                    3 => self.pick(&[" ", "\n  ", "&#13;", "\t"]).to_owned(),
                    _ => self.pick(&["text", "a &amp; b", "&#x1F40A;", "1", ""]).to_owned(),
                };
            }
            out + &format!("</{name}>")
        }

        /// A value that a document can represent.
        fn value(&mut self, depth: u64) -> serde_json::Value {
            use serde_json::{Map, Value};
            let text = |maker: &mut Self| Value::from(maker.pick(&["", "t", " ", "a\n\tb\r", "<&>\"'", "🐊"]));
            if depth == 0 || self.0.below(3) == 0 {
                return text(self);
            }
            let mut fields = Map::new();
            for name in ["@k", "@x:l"].iter().take(self.0.below(3)) {
                fields.insert((*name).to_owned(), text(self));
            }
            if self.0.below(3) == 0 {
                let mut parts = vec![Value::from("text"), serde_json::json!({"a": self.value(depth - 1)})];
                for _ in 0..self.0.below(3) {
                    parts.push(serde_json::json!({"b": self.value(depth - 1)}));
                    parts.push(Value::from(self.pick(&[" ", "x"])));
                }
                fields.insert("#content".to_owned(), parts.into());
                return fields.into();
            }
            for name in ["a", "b", "é"].iter().take(self.0.below(4)) {
                let count = self.0.below(3);
                let several = (0..=count).map(|_| self.value(depth - 1)).collect::<Vec<_>>();
                fields.insert((*name).to_owned(), if count == 0 { several[0].clone() } else { several.into() });
            }
            if fields.is_empty() {
                return text(self);
            }
            if fields.keys().all(|name| name.starts_with('@')) {
                fields.insert("#text".to_owned(), "t".into());
            }
            fields.into()
        }
    }

    fn read(text: &str) -> serde_json::Value {
        let raw = super::super::read(text.as_bytes(), None, &crate::message::xml_lists::Lists::default())
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(json::check(raw.bytes()).is_ok(), "{raw:?}");
        serde_json::from_slice(raw.bytes()).expect("JSON")
    }

    #[test]
    fn every_document_is_the_same_value_once_it_is_written() {
        let mut maker = Maker(TestRng(1));
        for _ in 0..2_000 {
            let document = maker.element(4);
            let value = read(&document);
            let again = written(&value.to_string());
            assert_eq!(read(&again), value, "{document}\n{again}");
        }
    }

    #[test]
    fn every_value_that_a_document_can_be_is_the_same_once_it_is_read() {
        let mut maker = Maker(TestRng(2));
        for _ in 0..2_000 {
            let value = serde_json::json!({"r": {"@xmlns:x": "u", "in": maker.value(4)}});
            assert_eq!(read(&written(&value.to_string())), value);
        }
    }
}
