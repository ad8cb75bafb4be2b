//! XML as JSON: strictly read, without a document type, and without recursion.
//!
//! An element without attributes and without elements in it is its text, a string. Any other is an object: `@name` for an
//! attribute, the name for an element, a list for an element that comes several times, `#text` for the text beside
//! attributes. Where text stands beside elements, order counts: `#content` is then a list of texts and of objects with
//! one element each. Names are kept as they are written, with their prefixes. Comments, processing instructions and the
//! space between elements are left out. A document is an object with its one element: `$news.rss.channel.item[]`.

mod encoding;
mod name;
mod parse;
mod write;

use bytes::Bytes;

use super::json::{Raw, write_string};
use crate::error::{Error, Kind};
use parse::{Event, Parser};

pub use write::write;

/// Elements in elements: each is up to three levels of JSON.
pub const DEPTH: usize = 40;

/// Reads a document; `charset` is what its content type says.
///
/// # Errors
/// `Kind::Malformed` for what is not well-formed (XML 1.0, Namespaces in XML 1.0), has a document type, uses other entities than the five, or
/// exceeds the caps on depth, names and attributes.
pub fn read(bytes: &[u8], charset: Option<&str>) -> Result<Raw, Error> {
    let text = encoding::decode(bytes, charset).map_err(|reason| refuse(reason, 0))?;
    let mut parser = Parser::new(&text);
    let mut open: Vec<Element> = Vec::new();
    let mut whole = Vec::new();
    while let Some(event) = parser.next().map_err(|reason| refuse(reason, parser.at()))? {
        match event {
            Event::Start(name, attributes) => {
                if open.len() == DEPTH {
                    return Err(refuse("elements nest deeper than 40 levels", parser.at()));
                }
                open.push(Element::new(name, &attributes));
            }
            Event::Text(text) => {
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&text);
                }
            }
            Event::End => {
                let Some(element) = open.pop() else { break };
                let name = element.name;
                let value = element.close();
                match open.last_mut() {
                    Some(outer) => outer.add(name, &value),
                    None => {
                        whole.push(b'{');
                        write_string(name, &mut whole);
                        whole.push(b':');
                        whole.extend_from_slice(&value);
                        whole.push(b'}');
                    }
                }
            }
        }
    }
    Ok(Raw::sound(Bytes::from(whole), (3 * DEPTH + 2) as u8))
}

fn refuse(reason: &str, at: usize) -> Error {
    Error::new(Kind::Malformed, format!("not valid XML: {reason} (byte {at})"))
}

/// An element that is open: the JSON of what has been closed in it.
struct Element<'a> {
    name: &'a str,
    /// `"@name":"value",` for each attribute.
    attributes: Vec<u8>,
    /// The elements by name, in the order of their first.
    inner: indexmap::IndexMap<&'a str, Inner>,
    /// The elements and the texts between them, in order: what `#content` would be.
    content: Vec<u8>,
    mixed: bool,
    text: String,
}

#[derive(Default)]
struct Inner {
    values: Vec<u8>,
    count: usize,
}

impl<'a> Element<'a> {
    fn new(name: &'a str, attributes: &[(&str, String)]) -> Self {
        let mut written = Vec::new();
        for (name, value) in attributes {
            write_string(&format!("@{name}"), &mut written);
            written.push(b':');
            write_string(value, &mut written);
            written.push(b',');
        }
        Element {
            name,
            attributes: written,
            inner: indexmap::IndexMap::new(),
            content: Vec::new(),
            mixed: false,
            text: String::new(),
        }
    }

    /// Takes the text that came since the last element.
    fn settle(&mut self) {
        let text = std::mem::take(&mut self.text);
        let blank = text.trim_matches(parse::is_space).is_empty();
        self.mixed |= !blank;
        if !blank || (self.mixed && !text.is_empty()) {
            write_string(&text, &mut self.content);
            self.content.push(b',');
        }
    }

    fn add(&mut self, name: &'a str, value: &[u8]) {
        self.settle();
        self.content.push(b'{');
        write_string(name, &mut self.content);
        self.content.push(b':');
        self.content.extend_from_slice(value);
        self.content.extend_from_slice(b"},");
        let inner = self.inner.entry(name).or_default();
        inner.values.extend_from_slice(value);
        inner.values.push(b',');
        inner.count += 1;
    }

    fn close(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.inner.is_empty() {
            if self.attributes.is_empty() {
                write_string(&self.text, &mut out);
                return out;
            }
            if !self.text.is_empty() {
                self.attributes.extend_from_slice(b"\"#text\":");
                write_string(&self.text, &mut self.attributes);
                self.attributes.push(b',');
            }
        } else {
            self.settle();
        }
        out.push(b'{');
        out.append(&mut self.attributes);
        if self.mixed {
            out.extend_from_slice(b"\"#content\":");
            list(&self.content, &mut out);
        } else {
            for (name, inner) in &self.inner {
                write_string(name, &mut out);
                out.push(b':');
                match inner.count {
                    1 => out.extend_from_slice(&inner.values),
                    _ => list(&inner.values, &mut out),
                }
            }
        }
        // The last comma.
        if out.len() > 1 {
            out.pop();
        }
        out.push(b'}');
        out
    }
}

/// A list of values that each have a comma behind them; with a comma behind it.
fn list(values: &[u8], out: &mut Vec<u8>) {
    out.push(b'[');
    out.extend_from_slice(values.strip_suffix(b",").unwrap_or(values));
    out.extend_from_slice(b"],");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let raw = read(text.as_bytes(), None).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(super::super::json::check(raw.bytes()).is_ok(), "{raw:?}");
        String::from_utf8(raw.bytes().to_vec()).expect("UTF-8")
    }

    #[test]
    fn elements_become_objects_lists_and_texts() {
        let text = "<?xml version='1.0'?>\n<rss version=\"2.0\"><channel>\n <title>A &amp; B</title>\n \
            <item><link>1</link></item>\n <item/><x:y xmlns:x='u'><![CDATA[<&]]></x:y><!-- c --></channel></rss>\n";
        let expected = "{\"rss\":{\"@version\":\"2.0\",\"channel\":{\"title\":\"A & B\",\"item\":[{\"link\":\"1\"},\"\"],\
            \"x:y\":{\"@xmlns:x\":\"u\",\"#text\":\"<&\"}}}}";
        assert_eq!(json(text), expected);
    }

    #[test]
    fn mixed_content_keeps_its_order() {
        let expected = r##"{"p":{"@a":"1","#content":["x ",{"b":"y"}," ",{"i":""},{"b":"z"},"!"]}}"##;
        assert_eq!(json("<p a='1'>x <b>y</b> <i/><b>z</b>!</p>"), expected);
    }

    #[test]
    fn texts_are_read_as_xml_reads_them() {
        assert_eq!(json("<a>1\r\n2\r3&#13;&#x41;</a>"), r#"{"a":"1\n2\n3\rA"}"#);
        assert_eq!(json("<a b='x\t\ny&#10;&quot;'/>"), "{\"a\":{\"@b\":\"x  y\\n\\\"\"}}");
        assert_eq!(json("\u{feff}<é/>"), r#"{"é":""}"#);
        let latin = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>\xe5</a>";
        assert_eq!(&read(latin, None).expect("read").bytes()[..], "{\"a\":\"å\"}".as_bytes());
        let wide: Vec<u8> = "\u{feff}<?xml version='1.0' encoding='UTF-16'?><a>å</a>"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(&read(&wide, None).expect("read").bytes()[..], "{\"a\":\"å\"}".as_bytes());
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        for text in [
            "",
            " ",
            "<a>",
            "</a>",
            "<a></b>",
            "<a/><b/>",
            "<a/>x",
            "x<a/>",
            "<a b=1/>",
            "<a b='1' b='2'/>",
            "<a b='1'c='2'/>",
            "<a b='<'/>",
            "<a b/>",
            "<a>&b;</a>",
            "<a>&amp</a>",
            "<a>&#0;</a>",
            "<a>&#xD800;</a>",
            "<a>&#x;</a>",
            "<a>&#X41;</a>",
            "<a>]]></a>",
            "<a><!-- -- --></a>",
            "<a><!-- --->",
            "<a><?xml version='1.0'?></a>",
            "<?XML ?><a/>",
            " <?xml version='1.0'?><a/>",
            "<?xml version='2.0'?><a/>",
            "<?xml?><a/>",
            "<?xml encoding='UTF-8'?><a/>",
            "<?xml version='1.0' standalone='maybe'?><a/>",
            "<?xml version='1.0' standalone='yes' encoding='UTF-8'?><a/>",
            "<?xml version='1.0'encoding='UTF-8'?><a/>",
            "<?xml version='1.0' encoding='UTF-16'?><a/>",
            "<?xml version='1.0' encoding='nonsense'?><a/>",
            "<?xml version='1.0' encoding=' UTF-8'?><a/>",
            "<!DOCTYPE a><a/>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
            "<a><![CDATA[</a>",
            "<![CDATA[]]><a/>",
            "<a>\u{1}</a>",
            "<a>\u{ffff}</a>",
            "<1/>",
            "<-a/>",
            "< a/>",
            "<a / >",
            "</a/>",
            "<a></a b='1'>",
            "<?a",
            "<??><a/>",
            "<?a:b ?><a/>",
            "<a><?1 ?></a>",
            "<b:a/>",
            "<a b:c='1'/>",
            "<a:b:c xmlns:a='u'/>",
            "<:a/>",
            "<a:/>",
            "<a xmlns:b=''/>",
            "<a xmlns:xmlns='u'/>",
            "<a xmlns:xml='u'/>",
            "<a xmlns:x='u' xmlns:y='u' x:b='1' y:b='2'/>",
            "<a><b xmlns:x='u'/><x:c/></a>",
            "<a>&#1114112;</a>",
            "<a xmlns:x='http://www.w3.org/2000/xmlns/'/>",
            "<a xmlns:x='http://www.w3.org/XML/1998/namespace'/>",
            "<a",
            "<a b='",
            "<a>&#12",
            "<!-- ",
            "<!a><a/>",
        ] {
            let refused = read(text.as_bytes(), None);
            assert_eq!(
                refused.map(|raw| raw.bytes().clone()).map_err(|error| error.kind()),
                Err(Kind::Malformed),
                "{text}"
            );
        }
        assert!(read(b"<a>\xff</a>", None).is_err());
        assert!(read(b"\xef\xbb\xbf<?xml version='1.0' encoding='UTF-16'?><a/>", None).is_err());
    }

    #[test]
    fn what_is_well_formed_is_read() {
        for text in [
            "<a/>",
            "<a />",
            "<a></a >",
            "<?xml version='1.0' encoding='utf-8' standalone='no' ?><a/>",
            "<?xml version=\"1.1\"?><a/>",
            "<!-- a --><?b c?><a/><!----><?d?>\n",
            "<a b = '1' c=\"'\"/>",
            "<a>]] ></a>",
            "<a>></a>",
            "<a xmlns='u' xmlns:b='v'><b:c b:d='1' d='2'/></a>",
            "<a xml:lang='sv'/>",
            "<a><![CDATA[]]]]><![CDATA[>]]></a>",
            "<a.b-c_d·/>",
            "<_/>",
            "<a>&#x10FFFF;</a>",
            "<a xmlns=''/>",
            "<a><?xml-style x?></a>",
            "<a xmlns:xml='http://www.w3.org/XML/1998/namespace'/>",
        ] {
            json(text);
        }
    }

    #[test]
    fn bombs_do_not_go_off() {
        let laughs = "<!DOCTYPE a [<!ENTITY l0 'x'><!ENTITY l1 '&l0;&l0;'>]><a>&l1;</a>";
        let outside = "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>";
        let deep = "<a>".repeat(100_000);
        let broad = format!("<a {}/>", (0..100_000).map(|n| format!("b{n}='' ")).collect::<String>());
        let named = format!("<{}/>", "a".repeat(1 << 20));
        for text in [laughs, outside, &deep, &broad, &named] {
            assert_eq!(read(text.as_bytes(), None).map(|_| ()).expect_err("refused").kind(), Kind::Malformed);
        }
    }
}
