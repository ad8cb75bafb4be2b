//! The grammar of XML 1.0, and of Namespaces in XML 1.0.

use std::borrow::Cow;

use super::cursor::{Cursor, XmlFault, is_space};
use super::dtd::{self, Dtd};
use super::name;
use super::reference::{self, Budget, Reference};

/// Most attributes of an element: each is compared with the others.
const ATTRIBUTES: usize = 256;

/// Most prefixes in scope: each name is looked up among them.
const PREFIXES: usize = 64;

const XML: &str = "http://www.w3.org/XML/1998/namespace";
const XMLNS: &str = "http://www.w3.org/2000/xmlns/";

type Attributes<'a> = Vec<(&'a str, String)>;

/// The next part of a document.
pub enum XmlEvent<'a> {
    /// An element begins.
    Start(&'a str, Attributes<'a>),
    /// A part of the text of an element.
    Text(Cow<'a, str>),
    /// An element ends.
    End,
}

/// Parses a document. Earlier events may belong to a document that turns out to be malformed.
pub struct Parser<'a> {
    cursor: Cursor<'a>,
    /// While the text of an entity is read: the document, and how many elements were open around the entity.
    outer: Option<(Cursor<'a>, usize)>,
    dtd: &'a Dtd,
    budget: Budget,
    /// The names of the open elements, and how many prefixes were bound before each.
    open: Vec<(&'a str, usize)>,
    prefixes: Vec<(&'a str, String)>,
    begun: bool,
    typed: bool,
    /// Whether the element that has just begun is empty.
    empty: bool,
}

impl<'a> Parser<'a> {
    /// A parser at the beginning of a document with this document type.
    pub fn new(text: &'a str, dtd: &'a Dtd) -> Self {
        let prefixes = vec![("xml", XML.to_owned())];
        let (cursor, budget) = (Cursor::new(text), Budget::new());
        Parser {
            cursor,
            outer: None,
            dtd,
            budget,
            open: Vec::new(),
            prefixes,
            begun: false,
            typed: false,
            empty: false,
        }
    }

    /// Its position, in bytes of the document.
    pub fn at(&self) -> usize {
        self.outer.as_ref().map_or(self.cursor.at(), |(outer, _)| outer.at())
    }

    /// The next event; `None` at the end of a complete document.
    pub fn next(&mut self) -> Result<Option<XmlEvent<'a>>, XmlFault> {
        if std::mem::take(&mut self.empty) {
            self.close();
            return Ok(Some(XmlEvent::End));
        }
        let declared = self.cursor.rest().strip_prefix("<?xml").is_some_and(|rest| rest.starts_with(is_space));
        if declared && self.at() == 0 {
            declaration(&mut self.cursor)?;
        }
        loop {
            if self.open.is_empty() {
                self.cursor.space();
            }
            if self.cursor.rest().is_empty() {
                if self.ends()? {
                    return Ok(None);
                }
            } else if self.cursor.take("<!--") {
                self.cursor.comment()?;
            } else if self.cursor.take("<?") {
                self.cursor.instruction()?;
            } else if self.cursor.rest().starts_with("<!DOCTYPE") {
                self.pass_type()?;
            } else if self.open.is_empty() && (self.begun || !self.cursor.rest().starts_with('<')) {
                return Err("something is outside its one element");
            } else if self.cursor.take("<![CDATA[") {
                if self.open.is_empty() {
                    return Err("text is outside its one element");
                }
                let text = self.cursor.until("]]>", "a CDATA section is never closed")?;
                return Ok(Some(XmlEvent::Text(text.into())));
            } else if self.cursor.take("</") {
                return self.end().map(Some);
            } else if self.cursor.take("<") {
                return self.start().map(Some);
            } else {
                return self.content().map(|text| Some(XmlEvent::Text(text)));
            }
        }
    }

    /// Handles the end of a text: continues after its entity, or returns that the document is complete.
    fn ends(&mut self) -> Result<bool, XmlFault> {
        if let Some((outer, depth)) = self.outer.take() {
            self.cursor = outer;
            return if self.open.len() == depth { Ok(false) } else { Err("an entity ends before its elements do") };
        }
        match (self.begun, self.open.is_empty()) {
            (true, true) => Ok(true),
            (true, false) => Err("an element is not closed"),
            (false, _) => Err("it has no element"),
        }
    }

    fn pass_type(&mut self) -> Result<(), XmlFault> {
        if self.begun || std::mem::replace(&mut self.typed, true) {
            return Err("a document type where none can be");
        }
        let end = self.dtd.end(self.cursor.at()).ok_or("a document type where none can be")?;
        self.cursor.set(end);
        Ok(())
    }

    fn start(&mut self) -> Result<XmlEvent<'a>, XmlFault> {
        let name = self.cursor.name()?;
        let mut attributes: Attributes<'a> = Vec::new();
        self.begun = true;
        loop {
            let space = self.cursor.space();
            if self.cursor.take("/>") {
                self.empty = true;
                break;
            }
            if self.cursor.take(">") {
                break;
            }
            if !space {
                return Err("a space or the end of the tag is missing");
            }
            let key = self.cursor.name()?;
            self.cursor.space();
            self.cursor.expect("=", "an equals sign is missing")?;
            self.cursor.space();
            let value = reference::value(self.cursor.quoted()?, self.dtd.entities(), &mut self.budget)?;
            if attributes.iter().any(|(known, _)| *known == key) {
                return Err("an attribute occurs twice");
            }
            if attributes.len() == ATTRIBUTES {
                return Err("an element has more than 256 attributes");
            }
            attributes.push((key, value));
        }
        self.complete(name, &mut attributes)?;
        self.open.push((name, self.prefixes.len()));
        self.bind(name, &attributes)?;
        Ok(XmlEvent::Start(name, attributes))
    }

    /// Applies the document type to the attributes.
    fn complete(&mut self, name: &str, attributes: &mut Attributes<'a>) -> Result<(), XmlFault> {
        for declared in self.dtd.attributes(name) {
            match (attributes.iter_mut().find(|(key, _)| *key == declared.name), &declared.default) {
                (Some((_, value)), _) if declared.tokens => *value = dtd::tokenised(value),
                (Some(_), _) | (None, None) => {}
                (None, Some(default)) => {
                    self.budget.spend(declared.name.len() + default.len())?;
                    attributes.push((&declared.name, default.clone()));
                }
            }
        }
        Ok(())
    }

    /// Binds the prefixes that an element declares, and resolves those that it uses.
    fn bind(&mut self, name: &str, attributes: &Attributes<'a>) -> Result<(), XmlFault> {
        for (key, value) in attributes {
            let prefix = key.strip_prefix("xmlns:");
            match prefix {
                None if *key == "xmlns" && (value == XML || value == XMLNS) => {
                    return Err("a reserved namespace is declared");
                }
                None => {}
                Some("xmlns") => return Err("the prefix `xmlns` is declared"),
                Some("xml") if value != XML => return Err("the prefix `xml` is declared anew"),
                Some("xml") => {}
                Some(_) if value.is_empty() => return Err("a prefix is declared for nothing"),
                Some(_) if value == XML || value == XMLNS => return Err("a reserved namespace is declared"),
                Some(_) if self.prefixes.len() == PREFIXES => return Err("more than 64 prefixes are declared"),
                Some(prefix) => self.prefixes.push((prefix, value.clone())),
            }
        }
        const WRONG: XmlFault = "a name has colons that are none of a prefix";
        if let (Some(prefix), _) = name::split(name).ok_or(WRONG)? {
            self.namespace(prefix)?;
        }
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for (key, _) in attributes {
            let (Some(prefix), local) = name::split(key).ok_or(WRONG)? else { continue };
            if prefix == "xmlns" {
                continue;
            }
            let expanded = (self.namespace(prefix)?, local);
            if seen.contains(&expanded) {
                return Err("an attribute occurs twice");
            }
            seen.push(expanded);
        }
        Ok(())
    }

    fn namespace(&self, prefix: &str) -> Result<&str, XmlFault> {
        let bound = self.prefixes.iter().rev().find(|(known, _)| *known == prefix);
        bound.map(|(_, namespace)| namespace.as_str()).ok_or("a prefix is not declared")
    }

    fn end(&mut self) -> Result<XmlEvent<'a>, XmlFault> {
        let name = self.cursor.name()?;
        self.cursor.space();
        self.cursor.expect(">", "the end of the tag is missing")?;
        if self.outer.as_ref().is_some_and(|(_, depth)| self.open.len() <= *depth) {
            return Err("an entity ends an element that began outside of it");
        }
        if self.open.last().is_none_or(|(open, _)| *open != name) {
            return Err("an end tag closes another element than the open one");
        }
        self.close();
        Ok(XmlEvent::End)
    }

    fn close(&mut self) {
        if let Some((_, prefixes)) = self.open.pop() {
            self.prefixes.truncate(prefixes);
        }
    }

    /// The text up to the next tag or entity.
    fn content(&mut self) -> Result<Cow<'a, str>, XmlFault> {
        let mut out = Cow::Borrowed("");
        loop {
            let rest = self.cursor.rest();
            let text = self.cursor.bytes(memchr::memchr2(b'<', b'&', rest.as_bytes()).unwrap_or(rest.len()));
            if text.contains("]]>") {
                return Err("`]]>` outside a CDATA section");
            }
            out += text;
            if !self.cursor.rest().starts_with('&') {
                return Ok(out);
            }
            match reference::take(&mut self.cursor)? {
                Reference::Character(c) => out.to_mut().push(c),
                Reference::Entity(name) => {
                    self.enter(name)?;
                    return Ok(out);
                }
            }
        }
    }

    /// Continues in the text of an entity.
    fn enter(&mut self, name: &str) -> Result<(), XmlFault> {
        let text = reference::text(name, self.dtd.entities(), &mut self.budget)?;
        if self.outer.is_some() {
            return Err(reference::NESTED);
        }
        let outer = std::mem::replace(&mut self.cursor, Cursor::new(text));
        self.outer = Some((outer, self.open.len()));
        Ok(())
    }
}

fn declaration(cursor: &mut Cursor<'_>) -> Result<(), XmlFault> {
    const WRONG: XmlFault = "the declaration is not well-formed";
    cursor.expect("<?xml", WRONG)?;
    let version = pseudo(cursor, "version")?.ok_or(WRONG)?;
    let minor = version.strip_prefix("1.").ok_or("it is not of XML 1")?;
    let encoding = pseudo(cursor, "encoding")?;
    let standalone = pseudo(cursor, "standalone")?;
    cursor.space();
    cursor.expect("?>", WRONG)?;
    let letters = |label: &str| label.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let sound = !minor.is_empty()
        && minor.bytes().all(|byte| byte.is_ascii_digit())
        && encoding.is_none_or(|label| label.starts_with(|c: char| c.is_ascii_alphabetic()) && letters(label))
        && standalone.is_none_or(|value| value == "yes" || value == "no");
    if sound { Ok(()) } else { Err(WRONG) }
}

/// `name="value"` in the declaration, if it comes next.
fn pseudo<'a>(cursor: &mut Cursor<'a>, name: &str) -> Result<Option<&'a str>, XmlFault> {
    let before = cursor.at();
    if !(cursor.space() && cursor.take(name)) {
        cursor.set(before);
        return Ok(None);
    }
    cursor.space();
    cursor.expect("=", "an equals sign is missing")?;
    cursor.space();
    cursor.quoted().map(Some)
}
