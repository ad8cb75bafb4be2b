//! References, from `&` to `;`, and their targets.

use std::collections::HashMap;

use super::cursor::{Cursor, XmlFault, is_space};
use super::name;

/// A general entity.
#[derive(Debug)]
pub enum Entity {
    /// Its text, with character references resolved.
    Text(String),
    /// Its text is outside the document.
    Outside,
    /// Its content is not XML.
    Unparsed,
}

/// The general entities of a document, by their names.
pub type Entities = HashMap<String, Entity>;

/// The target of a reference.
pub enum Reference<'a> {
    /// A character: one of the five names, or a number.
    Character(char),
    /// An entity, which the document must declare.
    Entity(&'a str),
}

/// Reads a reference, starting at `&`.
pub fn take<'a>(cursor: &mut Cursor<'a>) -> Result<Reference<'a>, XmlFault> {
    const OPEN: XmlFault = "a reference is never closed";
    cursor.expect("&", OPEN)?;
    if cursor.take("#") {
        let hexadecimal = cursor.take("x");
        let digits = cursor.rest();
        let length = digits.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(digits.len());
        let digits = cursor.bytes(length);
        cursor.expect(";", OPEN)?;
        return character(digits, if hexadecimal { 16 } else { 10 }).map(Reference::Character);
    }
    let name = cursor.plain_name()?;
    cursor.expect(";", OPEN)?;
    Ok(match name {
        "amp" => Reference::Character('&'),
        "lt" => Reference::Character('<'),
        "gt" => Reference::Character('>'),
        "apos" => Reference::Character('\''),
        "quot" => Reference::Character('"'),
        name => Reference::Entity(name),
    })
}

fn character(digits: &str, radix: u32) -> Result<char, XmlFault> {
    // `from_str_radix` accepts a sign, which is not allowed here.
    let digital = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    let code = digital.then(|| u32::from_str_radix(digits, radix).ok()).flatten();
    code.and_then(char::from_u32).filter(|c| name::is_character(*c)).ok_or("a reference to no character")
}

/// Bytes that entities and default values may still add to a document.
#[derive(Debug)]
pub struct Budget(usize);

impl Budget {
    /// Far more than honest documents need, and far too little for a bomb.
    pub const BYTES: usize = 64 << 10;

    /// The full budget.
    pub fn new() -> Self {
        Budget(Self::BYTES)
    }

    /// Spends this many bytes, and one more for the work.
    pub fn spend(&mut self, bytes: usize) -> Result<(), XmlFault> {
        let spent = bytes.checked_add(1).and_then(|bytes| self.0.checked_sub(bytes));
        self.0 = spent.ok_or("its entities and default values add more than 64 KiB")?;
        Ok(())
    }
}

/// The text of an entity that the document itself declares.
pub fn text<'a>(name: &str, entities: &'a Entities, budget: &mut Budget) -> Result<&'a str, XmlFault> {
    match entities.get(name) {
        Some(Entity::Text(text)) => budget.spend(text.len()).map(|()| text.as_str()),
        Some(Entity::Outside) => Err("an external entity: what is not in the document is never fetched"),
        Some(Entity::Unparsed) => Err("a reference to an entity that is no XML"),
        None => Err("an entity that is none of the five, and not declared in the document"),
    }
}

/// The value of an attribute, normalised (3.3.3).
pub fn value(written: &str, entities: &Entities, budget: &mut Budget) -> Result<String, XmlFault> {
    let mut out = String::with_capacity(written.len());
    append(written, &mut out, &mut |name, out| {
        let text = text(name, entities, budget)?;
        append(text, out, &mut |_, _| Err(NESTED))
    })?;
    Ok(out)
}

/// Bombs need entities in entities; hardly any other document does.
pub const NESTED: XmlFault = "an entity refers to another one";

type Resolve<'a> = &'a mut dyn FnMut(&str, &mut String) -> Result<(), XmlFault>;

fn append(written: &str, out: &mut String, resolve: Resolve<'_>) -> Result<(), XmlFault> {
    let mut cursor = Cursor::new(written);
    while let Some(c) = cursor.rest().chars().next() {
        match c {
            '<' => return Err("`<` within the value of an attribute"),
            '&' => match take(&mut cursor)? {
                Reference::Character(c) => out.push(c),
                Reference::Entity(name) => resolve(name, out)?,
            },
            c => {
                cursor.bytes(c.len_utf8());
                out.push(if is_space(c) { ' ' } else { c });
            }
        }
    }
    Ok(())
}
