//! XML as JSON. The reader is strict, does not recurse, and reads nothing from outside the document.
//!
//! An element without attributes and child elements is its text, a string. Any other element is an object: `@name` for
//! an attribute, the name for a child element, a list for an element that occurs several times, `#text` for the text of
//! an element with attributes. If an element mixes text and child elements, order counts: `#content` is then a list of
//! texts and of objects with one element each. Names are kept as written, with their prefixes. Comments, processing
//! instructions and the white space between elements are left out. A document is an object with its one element:
//! `$news.rss.channel.item[]`.
//!
//! A document type is checked, and nothing is fetched for it. Entities that the document itself declares are replaced,
//! within a budget, if they do not refer to other entities.

mod cursor;
mod dtd;
mod element;
mod encoding;
mod lenient;
mod name;
mod parse;
mod reference;
mod write;

use bytes::Bytes;

use crate::error::{Error, Kind};
use crate::json::{DEPTH, Raw, write_string};
use dtd::Dtd;
use element::Element;
use parse::{Parser, XmlEvent};

use crate::message::xml_lists::Lists;
use crate::offload::Made;
pub use write::{begin, end, item, write};

/// Reads a document; `charset` comes from its content type, `lists` are the elements that are lists.
///
/// # Errors
/// `Kind::Malformed` for a document that is not well-formed (XML 1.0, Namespaces in XML 1.0), refers to anything
/// outside itself, refers to entities in entities, or exceeds the limits on depth, names, attributes and expanded
/// entities.
pub fn read(bytes: &[u8], charset: Option<&str>, lists: &Lists) -> Result<Raw, Error> {
    let bytes = if lists.lenient() { bytes.trim_ascii_start() } else { bytes };
    let text = encoding::decode(bytes, charset).map_err(|reason| refuse(reason, 0))?;
    let text = if lists.lenient() { lenient::mend(&text).into_owned().into() } else { text };
    let dtd = Dtd::find(&text).map_err(|(reason, at)| refuse(reason, at))?;
    let mut parser = Parser::new(&text, &dtd);
    let mut open: Vec<Element> = Vec::new();
    let (mut whole, mut depth, mut made) = (Vec::new(), 1, Made::default());
    while let Some(event) = parser.next().map_err(|reason| refuse(reason, parser.at()))? {
        match event {
            XmlEvent::Start(name, attributes) => {
                if open.len() == DEPTH {
                    return Err(refuse("elements nest deeper than 128 levels", parser.at()));
                }
                let (name, attributes) = match lists.bare() {
                    true => (local(name), attributes.into_iter().filter_map(bare).collect()),
                    false => (name, attributes),
                };
                made.add(name.len() + attributes.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>());
                let lists = lists.within(open.iter().map(|element| element.name).chain([name]));
                open.push(Element::new(name, &attributes, lists));
            }
            XmlEvent::Text(text) => {
                made.add(text.len());
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&text);
                }
            }
            XmlEvent::End => {
                let Some(element) = open.pop() else { break };
                let name = element.name;
                let value = element.close();
                if value.depth >= DEPTH {
                    return Err(refuse("as JSON it nests deeper than 128 levels", parser.at()));
                }
                match open.last_mut() {
                    Some(outer) => outer.add(name, &value),
                    None => {
                        whole.push(b'{');
                        write_string(name, &mut whole);
                        whole.push(b':');
                        whole.extend_from_slice(&value.json);
                        whole.push(b'}');
                        depth += value.depth;
                    }
                }
            }
        }
    }
    Ok(Raw::sound(Bytes::from(whole), depth as u8))
}

/// A name without its prefix.
fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// An attribute without its prefix; `None` for a declaration of a namespace.
fn bare((name, value): (&str, String)) -> Option<(&str, String)> {
    let declares = name == "xmlns" || name.starts_with("xmlns:");
    (!declares).then(|| (local(name), value))
}

fn refuse(reason: &str, at: usize) -> Error {
    Error::new(Kind::Malformed, format!("not valid XML: {reason} (byte {at})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let raw = read(text.as_bytes(), None, &Lists::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(crate::json::check(raw.bytes()).is_ok(), "{raw:?}");
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
        assert_eq!(&read(latin, None, &Lists::default()).expect("read").bytes()[..], "{\"a\":\"å\"}".as_bytes());
        let wide: Vec<u8> = "\u{feff}<?xml version='1.0' encoding='UTF-16'?><a>å</a>"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(&read(&wide, None, &Lists::default()).expect("read").bytes()[..], "{\"a\":\"å\"}".as_bytes());
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
            "<!DOCTYPE a",
            "<!DOCTYPE a><!DOCTYPE a><a/>",
            "<a/><!DOCTYPE a>",
            "<a><!DOCTYPE a></a>",
            "<!DOCTYPE a []><a>&b;</a>",
            "<!DOCTYPE a [<!ENTITY b '<c>'>]><a>&b;</a>",
            "<!DOCTYPE a [<!ENTITY b '</a><a>'>]><a>&b;</a>",
            "<!DOCTYPE a [<!ENTITY b '&c;'><!ENTITY c 'd'>]><a>&b;</a>",
            "<!DOCTYPE a [<!ENTITY b '&b;'>]><a>&b;</a>",
            "<!DOCTYPE a [<!ENTITY b '<'>]><a c='&b;'/>",
            "<!DOCTYPE a [<!ENTITY b '%c;'>]><a/>",
            "<!DOCTYPE a [<!ENTITY % b '%b;'> %b;]><a/>",
            "<!DOCTYPE a [<!ENTITY % b '<!ELEMENT c'> %b; EMPTY>]><a/>",
            "<!DOCTYPE a [<!ENTITY b>]><a/>",
            "<!DOCTYPE a [<!ELEMENT a>]><a/>",
            "<!DOCTYPE a [<!ELEMENT a (b, c | d)>]><a/>",
            "<!DOCTYPE a [<!ELEMENT a (b>]><a/>",
            "<!DOCTYPE a [<!ELEMENT a (#PCDATA | b)>]><a/>",
            "<!DOCTYPE a [<!ATTLIST a b CDATA>]><a/>",
            "<!DOCTYPE a [<!ATTLIST a b CDATA '<'>]><a/>",
            "<!DOCTYPE a [<!ATTLIST a b CDATA '&c;'><!ENTITY c 'd'>]><a/>",
            "<!DOCTYPE a [<!ATTLIST a b (c|d|) #IMPLIED>]><a/>",
            "<!DOCTYPE a [<!NOTATION b>]><a/>",
            "<!DOCTYPE a [<![INCLUDE[]]>]><a/>",
            "<!DOCTYPE a PUBLIC '\u{e5}' 'b'><a/>",
            "<!DOCTYPE a PUBLIC 'b'><a/>",
            "<!DOCTYPE a [%b;]><a/>",
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
            let refused = read(text.as_bytes(), None, &Lists::default());
            assert_eq!(
                refused.map(|raw| raw.bytes().clone()).map_err(|error| error.kind()),
                Err(Kind::Malformed),
                "{text}"
            );
        }
        assert!(read(b"<a>\xff</a>", None, &Lists::default()).is_err());
        assert!(read(b"\xef\xbb\xbf<?xml version='1.0' encoding='UTF-16'?><a/>", None, &Lists::default()).is_err());
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
            "<!DOCTYPE a><a/>",
            "<!DOCTYPE rss PUBLIC \"-//Netscape Communications//DTD RSS 0.91//EN\" \"http://example.org/rss.dtd\" [ ]><rss/>",
            "<!DOCTYPE a SYSTEM 'a' [<!ELEMENT a ((b|c)+,(d,e?)*)><!ELEMENT b (#PCDATA|c)*><!-- --><?x?>]><a/>",
            "<!DOCTYPE a [<!NOTATION g PUBLIC 'g'><!ENTITY p SYSTEM 'p' NDATA g><!ATTLIST a b NOTATION (g) #IMPLIED>]><a/>",
            "<!DOCTYPE a [<!ENTITY % d \"<!ENTITY e '&#38;lt;<b/>'>\"> %d; <!ENTITY % f SYSTEM 'f'> %f;]><a>&e;</a>",
        ] {
            json(text);
        }
    }

    #[test]
    fn what_a_document_declares_for_itself_counts() {
        let typed = "<!DOCTYPE a [<!ENTITY b 'x<c>y</c>'><!ENTITY d '&#38;#60;'><!ATTLIST a k NMTOKENS ' 1  2 ' l CDATA #IMPLIED \
            m ID #IMPLIED>]>";
        assert_eq!(
            json(&format!("{typed}<a m='  &d;   z '>&b;!</a>")),
            r##"{"a":{"@m":"< z","@k":"1 2","#content":["x",{"c":"y"},"!"]}}"##
        );
    }

    #[test]
    fn bombs_do_not_go_off() {
        let laughs = "<!DOCTYPE a [<!ENTITY l0 'x'><!ENTITY l1 '&l0;&l0;'>]><a>&l1;</a>";
        let quadratic = format!("<!DOCTYPE a [<!ENTITY b '{}'>]><a>{}</a>", "b".repeat(10_000), "&b;".repeat(10));
        let spread =
            format!("<!DOCTYPE a [<!ATTLIST b c CDATA '{}'>]><a>{}</a>", "b".repeat(10_000), "<b/>".repeat(10));
        let inner = format!("<!DOCTYPE a [<!ENTITY % b '{}'>{}]><a/>", " ".repeat(10_000), "%b;".repeat(10));
        let outside = "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a>&b;</a>";
        let valued = "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a c='&b;'/>";
        let deep = "<a>".repeat(100_000);
        let choices = format!("<!DOCTYPE a [<!ELEMENT a {}", "(".repeat(100_000));
        let broad = format!("<a {}/>", (0..100_000).map(|n| format!("b{n}='' ")).collect::<String>());
        let named = format!("<{}/>", "a".repeat(1 << 20));
        for text in [laughs, &quadratic, &spread, &inner, outside, valued, &deep, &choices, &broad, &named] {
            assert_eq!(
                read(text.as_bytes(), None, &Lists::default()).map(|_| ()).expect_err("refused").kind(),
                Kind::Malformed
            );
        }
    }

    #[test]
    fn elements_nest_as_deep_as_json() {
        let nested = |depth: usize, inner: &str| format!("{}{inner}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        json(&nested(128, ""));
        assert!(read(nested(129, "").as_bytes(), None, &Lists::default()).is_err());
        // A list and its object add two levels each time, text beside elements three.
        json(&nested(126, "<b/><b/>"));
        assert!(read(nested(127, "<b/><b/>").as_bytes(), None, &Lists::default()).is_err());
        json(&nested(125, "x<b/>"));
        assert!(read(nested(126, "x<b/>").as_bytes(), None, &Lists::default()).is_err());
    }
}
