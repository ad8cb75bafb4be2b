//! The internal part of a document type: it is checked, and used for entities and default values.
//!
//! External parts of a document type are not fetched: they are skipped, as a non-validating processor may do (XML 1.0,
//! 5.1). For declarations of elements only the grammar is checked.

use std::collections::HashMap;
use std::rc::Rc;

use super::cursor::{Cursor, XmlFault, is_space};
use super::reference::{self, Budget, Entities, Entity, Reference};

/// Most default values of one element: each is searched for among its attributes.
const ATTRIBUTES: usize = 256;

/// How deep parentheses in the content of an element, and parameter entities in each other, may nest.
const DEPTH: usize = 32;

/// The declarations of a document type.
#[derive(Default, Debug)]
pub struct Dtd {
    entities: Entities,
    parameters: HashMap<String, Option<Rc<str>>>,
    attributes: HashMap<String, Vec<AttributeDeclaration>>,
    /// Its range in the document.
    span: Option<(usize, usize)>,
}

#[derive(Debug)]
pub struct AttributeDeclaration {
    pub name: String,
    /// The value if the attribute is not written.
    pub default: Option<String>,
    /// Whether its value is a list of words, so that extra spaces are removed.
    pub tokens: bool,
}

impl Dtd {
    /// Finds the document type before the first element, if there is one. An error comes with its position.
    pub fn find(text: &str) -> Result<Self, (XmlFault, usize)> {
        let mut dtd = Dtd::default();
        let mut cursor = Cursor::new(text);
        loop {
            cursor.space();
            let start = cursor.at();
            // Faults before it are ignored here: the parser of the document finds them again.
            let passed = if cursor.take("<?") {
                cursor.until("?>", "").map(drop)
            } else if cursor.take("<!--") {
                cursor.comment()
            } else if cursor.take("<!DOCTYPE") {
                dtd.declare(&mut cursor).map_err(|reason| (reason, cursor.at()))?;
                dtd.span = Some((start, cursor.at()));
                return Ok(dtd);
            } else {
                return Ok(dtd);
            };
            if passed.is_err() {
                return Ok(dtd);
            }
        }
    }

    /// The end of the document type that begins at `start`.
    pub fn end(&self, start: usize) -> Option<usize> {
        self.span.filter(|span| span.0 == start).map(|span| span.1)
    }

    /// The entities that the document itself declares.
    pub fn entities(&self) -> &Entities {
        &self.entities
    }

    /// The attributes declared for an element.
    pub fn attributes(&self, element: &str) -> &[AttributeDeclaration] {
        self.attributes.get(element).map_or(&[], Vec::as_slice)
    }

    fn declare(&mut self, cursor: &mut Cursor<'_>) -> Result<(), XmlFault> {
        cursor.gap()?;
        cursor.name()?;
        if cursor.space() && !cursor.rest().starts_with(['[', '>']) {
            external(cursor)?;
            cursor.space();
        }
        if cursor.take("[") {
            self.subset(cursor, &mut Budget::new(), 0)?;
            cursor.expect("]", "the document type is never closed")?;
            cursor.space();
        }
        cursor.expect(">", "the document type is never closed")
    }

    /// Reads declarations, up to the first text that is not one.
    fn subset(&mut self, cursor: &mut Cursor<'_>, budget: &mut Budget, depth: usize) -> Result<(), XmlFault> {
        loop {
            cursor.space();
            if cursor.take("<!--") {
                cursor.comment()?;
            } else if cursor.take("<?") {
                cursor.instruction()?;
            } else if cursor.take("<!ELEMENT") {
                element(cursor)?;
            } else if cursor.take("<!ATTLIST") {
                self.attlist(cursor, budget)?;
            } else if cursor.take("<!ENTITY") {
                self.define(cursor)?;
            } else if cursor.take("<!NOTATION") {
                notation(cursor)?;
            } else if cursor.take("%") {
                self.include(cursor, budget, depth)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Reads the declarations of a parameter entity.
    fn include(&mut self, cursor: &mut Cursor<'_>, budget: &mut Budget, depth: usize) -> Result<(), XmlFault> {
        let name = cursor.plain_name()?;
        cursor.expect(";", "a reference is never closed")?;
        let text = self.parameters.get(name).ok_or("a parameter entity that is not declared in the document")?.clone();
        let Some(text) = text else { return Ok(()) };
        if depth == DEPTH {
            return Err("parameter entities refer to each other");
        }
        budget.spend(text.len())?;
        let mut inner = Cursor::new(&text);
        self.subset(&mut inner, budget, depth + 1)?;
        if inner.rest().is_empty() { Ok(()) } else { Err("a parameter entity holds something else than declarations") }
    }

    fn define(&mut self, cursor: &mut Cursor<'_>) -> Result<(), XmlFault> {
        cursor.gap()?;
        let parameter = cursor.take("%");
        if parameter {
            cursor.gap()?;
        }
        let name = cursor.plain_name()?.to_owned();
        cursor.gap()?;
        let mut entity = if cursor.rest().starts_with(['"', '\'']) {
            Entity::Text(replacement(cursor.quoted()?)?)
        } else {
            external(cursor)?;
            Entity::Outside
        };
        let space = cursor.space();
        if !parameter && matches!(entity, Entity::Outside) && space && cursor.take("NDATA") {
            cursor.gap()?;
            cursor.plain_name()?;
            cursor.space();
            entity = Entity::Unparsed;
        }
        cursor.expect(">", "a declaration is never closed")?;
        // The first declaration counts (4.2).
        if !parameter {
            self.entities.entry(name).or_insert(entity);
        } else {
            let text = match entity {
                Entity::Text(text) => Some(text.into()),
                _ => None,
            };
            self.parameters.entry(name).or_insert(text);
        }
        Ok(())
    }

    fn attlist(&mut self, cursor: &mut Cursor<'_>, budget: &mut Budget) -> Result<(), XmlFault> {
        cursor.gap()?;
        let element = cursor.name()?.to_owned();
        loop {
            let space = cursor.space();
            if cursor.take(">") {
                return Ok(());
            }
            if !space {
                return Err("a space is missing");
            }
            let name = cursor.name()?.to_owned();
            cursor.gap()?;
            let tokens = kind(cursor)?;
            cursor.gap()?;
            let default = self.preset(cursor, budget)?;
            let default = default.map(|value| if tokens { tokenised(&value) } else { value });
            let list = self.attributes.entry(element.clone()).or_default();
            if list.len() == ATTRIBUTES {
                return Err("more than 256 attributes are declared for an element");
            }
            if list.iter().all(|known| known.name != name) {
                list.push(AttributeDeclaration { name, default, tokens });
            }
        }
    }

    fn preset(&self, cursor: &mut Cursor<'_>, budget: &mut Budget) -> Result<Option<String>, XmlFault> {
        if cursor.take("#REQUIRED") || cursor.take("#IMPLIED") {
            return Ok(None);
        }
        if cursor.take("#FIXED") {
            cursor.gap()?;
        }
        reference::value(cursor.quoted()?, &self.entities, budget).map(Some)
    }
}

/// A value with one space between its words, and none around them.
pub fn tokenised(value: &str) -> String {
    value.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// `SYSTEM "…"` or `PUBLIC "…" "…"`.
fn external(cursor: &mut Cursor<'_>) -> Result<(), XmlFault> {
    if cursor.take("PUBLIC") {
        public(cursor)?;
    } else {
        cursor.expect("SYSTEM", "a declaration of a kind that there is not")?;
    }
    cursor.gap()?;
    cursor.quoted().map(drop)
}

fn public(cursor: &mut Cursor<'_>) -> Result<(), XmlFault> {
    cursor.gap()?;
    let letter = |c: char| c.is_ascii_alphanumeric() || " \r\n-'()+,./:=?;!*#@$_%".contains(c);
    if cursor.quoted()?.chars().all(letter) {
        Ok(())
    } else {
        Err("a public identifier with other letters than it may have")
    }
}

fn notation(cursor: &mut Cursor<'_>) -> Result<(), XmlFault> {
    cursor.gap()?;
    cursor.plain_name()?;
    cursor.gap()?;
    if cursor.take("PUBLIC") {
        public(cursor)?;
        if cursor.space() && cursor.rest().starts_with(['"', '\'']) {
            cursor.quoted()?;
        }
    } else {
        external(cursor)?;
    }
    cursor.space();
    cursor.expect(">", "a declaration is never closed")
}

/// The text of an entity from its literal (4.5): character references are resolved, entity references are not.
fn replacement(written: &str) -> Result<String, XmlFault> {
    let mut out = String::with_capacity(written.len());
    let mut cursor = Cursor::new(written);
    while let Some(next) = cursor.rest().find(['&', '%']) {
        out.push_str(cursor.bytes(next));
        let from = cursor.rest();
        if from.starts_with('%') {
            return Err("a parameter entity within a declaration");
        }
        let numbered = from.starts_with("&#");
        match reference::take(&mut cursor)? {
            Reference::Character(c) if numbered => out.push(c),
            _ => out.push_str(&from[..from.len() - cursor.rest().len()]),
        }
    }
    out.push_str(cursor.rest());
    Ok(out)
}

/// Reads the type of an attribute; returns whether it is a list of words.
fn kind(cursor: &mut Cursor<'_>) -> Result<bool, XmlFault> {
    if cursor.take("CDATA") {
        return Ok(false);
    }
    let notation = cursor.take("NOTATION");
    if notation {
        cursor.gap()?;
    }
    if notation || cursor.rest().starts_with('(') {
        cursor.expect("(", "a list in parentheses is missing")?;
        loop {
            cursor.space();
            if notation {
                cursor.plain_name()?
            } else {
                cursor.token()?
            };
            cursor.space();
            if cursor.take(")") {
                return Ok(true);
            }
            cursor.expect("|", "a list in parentheses is never closed")?;
        }
    }
    // If one begins with another, the longer one comes first.
    let known = ["IDREFS", "IDREF", "ID", "ENTITIES", "ENTITY", "NMTOKENS", "NMTOKEN"];
    if known.iter().any(|word| cursor.take(word)) { Ok(true) } else { Err("an attribute of a type that there is not") }
}

/// The rest of an element declaration.
fn element(cursor: &mut Cursor<'_>) -> Result<(), XmlFault> {
    cursor.gap()?;
    cursor.name()?;
    cursor.gap()?;
    if !(cursor.take("EMPTY") || cursor.take("ANY")) {
        let inner = cursor.rest().strip_prefix('(').map(|rest| rest.trim_start_matches(is_space));
        if inner.is_some_and(|inner| inner.starts_with("#PCDATA")) { mixed(cursor)? } else { children(cursor)? }
    }
    cursor.space();
    cursor.expect(">", "a declaration is never closed")
}

/// `(#PCDATA | a | b)*`.
fn mixed(cursor: &mut Cursor<'_>) -> Result<(), XmlFault> {
    cursor.expect("(", "a list in parentheses is missing")?;
    cursor.space();
    cursor.expect("#PCDATA", "text is missing")?;
    let mut names = 0;
    loop {
        cursor.space();
        if cursor.take(")") {
            break;
        }
        cursor.expect("|", "a list in parentheses is never closed")?;
        cursor.space();
        cursor.name()?;
        names += 1;
    }
    if cursor.take("*") || names == 0 { Ok(()) } else { Err("`*` is missing behind text and elements") }
}

/// `(a, (b | c)*, d?)+`. It keeps, for each open parenthesis, whether `,` or `|` separates its parts.
fn children(cursor: &mut Cursor<'_>) -> Result<(), XmlFault> {
    let mut open: Vec<Option<char>> = Vec::new();
    loop {
        cursor.space();
        if cursor.take("(") {
            if open.len() == DEPTH {
                return Err("more than 32 parentheses in each other");
            }
            open.push(None);
            continue;
        }
        if open.is_empty() {
            return Err("a list in parentheses is missing");
        }
        cursor.name()?;
        repeated(cursor);
        // A complete part is followed by another one, or ends the parentheses around it.
        loop {
            cursor.space();
            let Some(divider) = open.last_mut() else { return Ok(()) };
            if cursor.take(")") {
                open.pop();
                repeated(cursor);
                if open.is_empty() {
                    return Ok(());
                }
                continue;
            }
            let next = cursor.rest().chars().next().filter(|c| matches!(c, ',' | '|'));
            let next = next.ok_or("a list in parentheses is never closed")?;
            if *divider.get_or_insert(next) != next {
                return Err("`,` and `|` in the same parentheses");
            }
            cursor.bytes(1);
            break;
        }
    }
}

fn repeated(cursor: &mut Cursor<'_>) {
    let _ = cursor.take("?") || cursor.take("*") || cursor.take("+");
}
