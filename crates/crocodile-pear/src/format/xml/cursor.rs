//! A position in a text, and the parts of XML's grammar that can be read from it.

use super::name;

/// Longest name, in bytes.
const NAME: usize = 4096;

/// Why a document is rejected.
pub type XmlFault = &'static str;

/// Walks through a text; each read moves it forward.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// Whether the character is XML white space.
pub fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning.
    pub fn new(text: &'a str) -> Self {
        Cursor { text, at: 0 }
    }

    /// Its position, in bytes of the text.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Moves to another position.
    pub fn set(&mut self, at: usize) {
        self.at = at;
    }

    /// The text after the cursor.
    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips a token, if it comes next.
    pub fn take(&mut self, token: &str) -> bool {
        let there = self.rest().starts_with(token);
        self.at += if there { token.len() } else { 0 };
        there
    }

    /// Skips a token that must come next.
    pub fn expect(&mut self, token: &str, reason: XmlFault) -> Result<(), XmlFault> {
        if self.take(token) { Ok(()) } else { Err(reason) }
    }

    /// This many bytes, or fewer at the end of the text.
    pub fn bytes(&mut self, length: usize) -> &'a str {
        let rest = self.rest();
        let taken = rest.get(..length).unwrap_or(rest);
        self.at += taken.len();
        taken
    }

    /// The text up to a token; skips the token as well.
    pub fn until(&mut self, token: &str, reason: XmlFault) -> Result<&'a str, XmlFault> {
        let length = memchr::memmem::find(self.rest().as_bytes(), token.as_bytes()).ok_or(reason)?;
        let text = self.bytes(length);
        self.at += token.len();
        Ok(text)
    }

    /// Skips white space; returns whether there was any.
    pub fn space(&mut self) -> bool {
        let rest = self.rest();
        let length = rest.len() - rest.trim_start_matches(is_space).len();
        self.at += length;
        length > 0
    }

    /// Skips white space that must be there.
    pub fn gap(&mut self) -> Result<(), XmlFault> {
        if self.space() { Ok(()) } else { Err("a space is missing") }
    }

    pub fn name(&mut self) -> Result<&'a str, XmlFault> {
        if !self.rest().starts_with(name::begins) {
            return Err("a name is missing");
        }
        self.token()
    }

    /// A name without a colon (Namespaces in XML, 7).
    pub fn plain_name(&mut self) -> Result<&'a str, XmlFault> {
        let name = self.name()?;
        if name.contains(':') {
            Err("a colon in the name of an instruction, an entity or a notation")
        } else {
            Ok(name)
        }
    }

    /// Name characters in any order (2.3, Nmtoken).
    pub fn token(&mut self) -> Result<&'a str, XmlFault> {
        let rest = self.rest();
        match rest.find(|c| !name::goes_on(c)).unwrap_or(rest.len()) {
            0 => Err("a name is missing"),
            length if length > NAME => Err("a name of more than 4096 bytes"),
            length => Ok(self.bytes(length)),
        }
    }

    /// The text between two quotes of the same kind.
    pub fn quoted(&mut self) -> Result<&'a str, XmlFault> {
        let quote = if self.take("\"") { "\"" } else { "'" };
        if quote == "'" {
            self.expect("'", "a quote is missing")?;
        }
        self.until(quote, "a quote is never closed")
    }

    /// The rest of a comment after its opening.
    pub fn comment(&mut self) -> Result<(), XmlFault> {
        self.until("--", "a comment is never closed")?;
        self.expect(">", "`--` within a comment")
    }

    /// The rest of a processing instruction after its opening.
    pub fn instruction(&mut self) -> Result<(), XmlFault> {
        let target = self.plain_name()?;
        if target.eq_ignore_ascii_case("xml") {
            return Err("`xml` is allowed only at the beginning");
        }
        if !self.take("?>") {
            self.gap()?;
            self.until("?>", "an instruction is never closed")?;
        }
        Ok(())
    }
}
