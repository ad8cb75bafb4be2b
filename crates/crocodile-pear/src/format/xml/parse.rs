//! The grammar of XML 1.0 without document types, and of Namespaces in XML 1.0.

use std::borrow::Cow;

use super::name;

/// Bytes of a name.
const NAME: usize = 1024;

/// Attributes of an element: each is compared with the others.
const ATTRIBUTES: usize = 256;

/// Prefixes that are declared at one place of a document: each name is looked up among them.
const PREFIXES: usize = 64;

const XML: &str = "http://www.w3.org/XML/1998/namespace";
const XMLNS: &str = "http://www.w3.org/2000/xmlns/";

type Reason = &'static str;
type Attributes<'a> = Vec<(&'a str, String)>;

/// What comes next in a document.
pub enum Event<'a> {
    /// An element begins.
    Start(&'a str, Attributes<'a>),
    /// A part of its text.
    Text(Cow<'a, str>),
    /// It ends.
    End,
}

/// Goes through a document; what it has given so far may turn out to be of none.
pub struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Names of the open elements, and how many prefixes were bound before each.
    open: Vec<(&'a str, usize)>,
    prefixes: Vec<(&'a str, String)>,
    begun: bool,
    /// Whether the element that has just begun is empty.
    empty: bool,
}

/// Whether XML calls it white space.
pub fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

impl<'a> Parser<'a> {
    /// At the beginning.
    pub fn new(text: &'a str) -> Self {
        let prefixes = vec![("xml", XML.to_owned())];
        Parser { text, at: 0, open: Vec::new(), prefixes, begun: false, empty: false }
    }

    /// How far it has come, in bytes of the text.
    pub fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, token: &str) -> bool {
        let there = self.rest().starts_with(token);
        self.at += if there { token.len() } else { 0 };
        there
    }

    fn expect(&mut self, token: &str, reason: Reason) -> Result<(), Reason> {
        if self.take(token) { Ok(()) } else { Err(reason) }
    }

    /// Everything up to a token, which is stepped over.
    fn until(&mut self, token: &str, reason: Reason) -> Result<&'a str, Reason> {
        let length = memchr::memmem::find(self.rest().as_bytes(), token.as_bytes()).ok_or(reason)?;
        let text = &self.rest()[..length];
        self.at += length + token.len();
        Ok(text)
    }

    /// Steps over white space; whether there was some.
    fn space(&mut self) -> bool {
        let rest = self.rest();
        let length = rest.len() - rest.trim_start_matches(is_space).len();
        self.at += length;
        length > 0
    }

    fn name(&mut self) -> Result<&'a str, Reason> {
        let rest = self.rest();
        if !rest.starts_with(name::begins) {
            return Err("a name is missing");
        }
        let length = rest.find(|c| !name::goes_on(c)).unwrap_or(rest.len());
        if length > NAME {
            return Err("a name of more than 1024 bytes");
        }
        self.at += length;
        Ok(&rest[..length])
    }

    /// The next event; `None` at the end of a document that is whole.
    pub fn next(&mut self) -> Result<Option<Event<'a>>, Reason> {
        if std::mem::take(&mut self.empty) {
            self.close();
            return Ok(Some(Event::End));
        }
        if self.at == 0 && self.rest().strip_prefix("<?xml").is_some_and(|rest| rest.starts_with(is_space)) {
            self.declaration()?;
        }
        loop {
            if self.open.is_empty() {
                self.space();
            }
            if self.rest().is_empty() {
                return match (self.begun, self.open.is_empty()) {
                    (true, true) => Ok(None),
                    (true, false) => Err("it ends before its elements do"),
                    (false, _) => Err("it has no element"),
                };
            }
            if self.take("<!--") {
                self.until("--", "a comment is never closed")?;
                self.expect(">", "`--` within a comment")?;
            } else if self.take("<?") {
                self.instruction()?;
            } else if self.rest().starts_with("<!DOCTYPE") {
                return Err("it has a document type, which is refused: entities and default values come from there");
            } else if self.open.is_empty() && (self.begun || !self.rest().starts_with('<')) {
                return Err("something stands outside its one element");
            } else if self.take("<![CDATA[") {
                if self.open.is_empty() {
                    return Err("text stands outside its one element");
                }
                return self.until("]]>", "a CDATA section is never closed").map(|text| Some(Event::Text(text.into())));
            } else if self.take("</") {
                return self.end().map(Some);
            } else if self.take("<") {
                return self.start().map(Some);
            } else {
                return self.content().map(|text| Some(Event::Text(text)));
            }
        }
    }

    fn declaration(&mut self) -> Result<(), Reason> {
        const WRONG: Reason = "the declaration is not well-formed";
        let inner = self.rest().strip_prefix("<?xml").ok_or(WRONG)?;
        self.at += self.rest().len() - inner.len();
        let version = self.pseudo("version")?.ok_or(WRONG)?;
        let minor = version.strip_prefix("1.").ok_or("it is not of XML 1")?;
        let encoding = self.pseudo("encoding")?;
        let standalone = self.pseudo("standalone")?;
        self.space();
        self.expect("?>", WRONG)?;
        let letters = |label: &str| label.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        let sound = !minor.is_empty()
            && minor.bytes().all(|byte| byte.is_ascii_digit())
            && encoding.is_none_or(|label| label.starts_with(|c: char| c.is_ascii_alphabetic()) && letters(label))
            && standalone.is_none_or(|value| value == "yes" || value == "no");
        if sound { Ok(()) } else { Err(WRONG) }
    }

    /// `name="value"` of the declaration, if it comes next.
    fn pseudo(&mut self, name: &str) -> Result<Option<&'a str>, Reason> {
        let before = self.at;
        if !(self.space() && self.take(name)) {
            self.at = before;
            return Ok(None);
        }
        self.space();
        self.expect("=", "an equals sign is missing")?;
        self.space();
        self.quoted().map(Some)
    }

    fn quoted(&mut self) -> Result<&'a str, Reason> {
        let quote = if self.take("\"") { "\"" } else { "'" };
        if quote == "'" {
            self.expect("'", "a quote is missing")?;
        }
        self.until(quote, "a quote is never closed")
    }

    fn instruction(&mut self) -> Result<(), Reason> {
        let target = self.name()?;
        if target.eq_ignore_ascii_case("xml") {
            return Err("`xml` stands at the beginning, or nowhere");
        }
        if target.contains(':') {
            return Err("a colon in the name of an instruction");
        }
        if !self.take("?>") {
            if !self.space() {
                return Err("a space is missing");
            }
            self.until("?>", "an instruction is never closed")?;
        }
        Ok(())
    }

    fn start(&mut self) -> Result<Event<'a>, Reason> {
        let name = self.name()?;
        let mut attributes: Attributes<'a> = Vec::new();
        self.begun = true;
        loop {
            let space = self.space();
            if self.take("/>") {
                self.empty = true;
                break;
            }
            if self.take(">") {
                break;
            }
            if !space {
                return Err("a space or the end of the tag is missing");
            }
            let key = self.name()?;
            self.space();
            self.expect("=", "an equals sign is missing")?;
            self.space();
            let value = value(self.quoted()?)?;
            if attributes.iter().any(|(known, _)| *known == key) {
                return Err("an attribute stands twice");
            }
            if attributes.len() == ATTRIBUTES {
                return Err("an element has more than 256 attributes");
            }
            attributes.push((key, value));
        }
        self.open.push((name, self.prefixes.len()));
        self.bind(name, &attributes)?;
        Ok(Event::Start(name, attributes))
    }

    /// Binds the prefixes that an element declares, and looks up those that it uses.
    fn bind(&mut self, name: &str, attributes: &Attributes<'a>) -> Result<(), Reason> {
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
        const WRONG: Reason = "a name has colons that are none of a prefix";
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
                return Err("an attribute stands twice");
            }
            seen.push(expanded);
        }
        Ok(())
    }

    fn namespace(&self, prefix: &str) -> Result<&str, Reason> {
        let bound = self.prefixes.iter().rev().find(|(known, _)| *known == prefix);
        bound.map(|(_, namespace)| namespace.as_str()).ok_or("a prefix is not declared")
    }

    fn end(&mut self) -> Result<Event<'a>, Reason> {
        let name = self.name()?;
        self.space();
        self.expect(">", "the end of the tag is missing")?;
        if self.open.last().is_none_or(|(open, _)| *open != name) {
            return Err("an end tag closes another element than the open one");
        }
        self.close();
        Ok(Event::End)
    }

    fn close(&mut self) {
        if let Some((_, prefixes)) = self.open.pop() {
            self.prefixes.truncate(prefixes);
        }
    }

    fn content(&mut self) -> Result<Cow<'a, str>, Reason> {
        let rest = self.rest();
        let text = &rest[..rest.find('<').unwrap_or(rest.len())];
        if text.contains("]]>") {
            return Err("`]]>` outside a CDATA section");
        }
        self.at += text.len();
        resolve(text)
    }
}

/// The value of an attribute, normalised (3.3.3).
fn value(text: &str) -> Result<String, Reason> {
    if text.contains('<') {
        return Err("`<` within the value of an attribute");
    }
    let spaced = text.replace(['\t', '\n', '\r'], " ");
    resolve(&spaced).map(Cow::into_owned)
}

/// Text with its references resolved.
fn resolve(text: &str) -> Result<Cow<'_, str>, Reason> {
    let Some(first) = text.find('&') else { return Ok(text.into()) };
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(reference) = rest.strip_prefix('&') {
        let (name, after) = reference.split_once(';').ok_or("a reference is never closed")?;
        out.push(character(name)?);
        let next = after.find('&').unwrap_or(after.len());
        out.push_str(&after[..next]);
        rest = &after[next..];
    }
    Ok(out.into())
}

fn character(name: &str) -> Result<char, Reason> {
    let number = match name.strip_prefix('#') {
        None => {
            return match name {
                "amp" => Ok('&'),
                "lt" => Ok('<'),
                "gt" => Ok('>'),
                "apos" => Ok('\''),
                "quot" => Ok('"'),
                _ => Err("an entity that is none of the five"),
            };
        }
        Some(number) => number,
    };
    let (digits, radix) = number.strip_prefix('x').map_or((number, 10), |digits| (digits, 16));
    // `from_str_radix` takes a sign.
    let digital = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    let code = digital.then(|| u32::from_str_radix(digits, radix).ok()).flatten();
    code.and_then(char::from_u32).filter(|c| name::is_character(*c)).ok_or("a reference to no character")
}
