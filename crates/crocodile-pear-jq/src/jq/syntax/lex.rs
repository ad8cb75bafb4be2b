//! Splits source into tokens.

use super::compile_error::Fault;

/// A word, sign or string of the source.
#[derive(Debug)]
pub struct Token<'s> {
    /// The text as it is in the source. For a string, only its position matters.
    pub text: &'s str,
    pub kind: Kind<'s>,
}

#[derive(Debug)]
pub enum Kind<'s> {
    /// A name or keyword.
    Word,
    /// `$x`
    Variable,
    /// `@uri`
    Format,
    /// `.x`
    Field,
    Number,
    /// A string in pieces.
    Text(Vec<Piece<'s>>),
    /// An operator or bracket.
    Sign,
}

#[derive(Debug)]
pub enum Piece<'s> {
    Plain(&'s str),
    Escaped(char),
    /// The tokens in `\(…)`, and the bracket that ends them.
    Tokens(Vec<Token<'s>>),
}

/// Operators of several characters, longest first.
const SIGNS: [&str; 15] =
    ["?//=", "?//", "//=", "//", "|=", "+=", "-=", "*=", "/=", "%=", "==", "!=", "<=", ">=", ".."];

/// Splits a source into tokens.
pub struct Lexer<'s> {
    source: &'s str,
    rest: &'s str,
    faults: Vec<Fault>,
}

pub fn lex(source: &str) -> Result<Vec<Token<'_>>, Vec<Fault>> {
    let mut lexer = Lexer { source, rest: source, faults: Vec::new() };
    let tokens = lexer.tokens(None);
    if lexer.faults.is_empty() { Ok(tokens) } else { Err(lexer.faults) }
}

/// The offset of a part within its source.
pub fn offset(source: &str, part: &str) -> usize {
    (part.as_ptr() as usize).wrapping_sub(source.as_ptr() as usize).min(source.len())
}

pub fn fault(source: &str, part: &str, message: impl Into<String>, remedy: impl Into<String>) -> Fault {
    let offset = offset(source, part);
    let length = part.len().min(source.len() - offset);
    Fault { offset, length, message: message.into(), remedy: remedy.into() }
}

fn name(text: &str) -> usize {
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    let mut length = 0;
    loop {
        let rest = &text[length..];
        if !rest.starts_with(starts) {
            return length.saturating_sub(2);
        }
        let word = rest.find(|c: char| !starts(c) && !c.is_ascii_digit()).unwrap_or(rest.len());
        match rest[word..].strip_prefix("::") {
            Some(more) if more.starts_with(starts) => length += word + 2,
            _ => return length + word,
        }
    }
}

fn number(text: &str) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(text);
    if text[length..].starts_with('.') {
        length += 1 + digits(&text[length + 1..]);
    }
    if text[length..].starts_with(['e', 'E']) {
        let sign = usize::from(text[length + 1..].starts_with(['+', '-']));
        let exponent = digits(&text[length + 1 + sign..]);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length
}

impl<'s> Lexer<'s> {
    /// The tokens up to the end, or up to the bracket that closes `open`.
    fn tokens(&mut self, open: Option<&'s str>) -> Vec<Token<'s>> {
        let mut tokens = Vec::new();
        let mut brackets: Vec<&'s str> = open.into_iter().collect();
        loop {
            self.space();
            let Some(first) = self.rest.chars().next() else { break };
            if !self.faults.is_empty() {
                return tokens;
            }
            let token = self.token(first);
            let Some(token) = token else { return tokens };
            if matches!(token.kind, Kind::Sign) {
                match token.text {
                    "(" | "[" | "{" => brackets.push(token.text),
                    ")" | "]" | "}" => {
                        let fits = brackets.last().is_some_and(|open| closing(open).1 == token.text);
                        if !fits {
                            match brackets.last() {
                                Some(open) => self.unclosed(open),
                                None => {
                                    let message = format!("`{}` is not allowed here", token.text);
                                    self.wrong(token.text, &message, "an operator such as `|` or the end");
                                }
                            }
                            return tokens;
                        }
                        brackets.pop();
                        if brackets.is_empty() && open.is_some() {
                            tokens.push(token);
                            return tokens;
                        }
                    }
                    _ => {}
                }
            }
            tokens.push(token);
        }
        if let Some(open) = brackets.last() {
            self.unclosed(open);
        }
        tokens
    }

    fn unclosed(&mut self, open: &'s str) {
        let (named, _) = closing(open);
        let message = format!("this `{open}` is never closed");
        self.faults.push(fault(self.source, open, message, format!("close it: a closing {named} is missing")));
    }

    fn wrong(&mut self, part: &'s str, message: &str, wanted: &str) {
        self.faults.push(fault(self.source, part, message, format!("{wanted} belongs here")));
    }

    fn space(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let Some(mut comment) = self.rest.strip_prefix('#') else { return };
            // If a line of a comment ends with an odd number of backslashes, the comment continues on the next line.
            loop {
                let (line, after) = comment.split_once('\n').unwrap_or((comment, ""));
                let line = line.strip_suffix('\r').unwrap_or(line);
                comment = after;
                if line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 0 {
                    break;
                }
            }
            self.rest = comment;
        }
    }

    fn take(&mut self, length: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn token(&mut self, first: char) -> Option<Token<'s>> {
        let rest = self.rest;
        let second = rest[first.len_utf8()..].chars().next().unwrap_or(' ');
        let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
        let (length, kind) = match first {
            c if starts(c) => (name(rest), Kind::Word),
            '$' if starts(second) => (1 + name(&rest[1..]), Kind::Variable),
            '@' if starts(second) || second.is_ascii_digit() => {
                (1 + rest[1..].bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count(), Kind::Format)
            }
            '$' | '@' => {
                self.wrong(&rest[1..1 + second.len_utf8().min(rest.len() - 1)], "a name is missing", "an identifier");
                return None;
            }
            '0'..='9' => (number(rest), Kind::Number),
            '.' if second.is_ascii_digit() => (number(rest), Kind::Number),
            '.' if starts(second) => {
                let word = rest[1..].bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count();
                (1 + word, Kind::Field)
            }
            '"' => return self.text(),
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                // `a?//=b` is `a?` and `//=`.
                Some(&"?//=") => (1, Kind::Sign),
                Some(sign) => (sign.len(), Kind::Sign),
                None if "|=+-*/%<>.:;,?()[]{}".contains(first) => (1, Kind::Sign),
                None => {
                    self.wrong(&rest[..first.len_utf8()], "expressions have no such character", "a token");
                    return None;
                }
            },
        };
        Some(Token { text: self.take(length), kind })
    }

    fn text(&mut self) -> Option<Token<'s>> {
        let all = self.rest;
        let open = self.take(1);
        let mut pieces = Vec::new();
        loop {
            let plain = self.rest.find(['"', '\\']).unwrap_or(self.rest.len());
            if plain > 0 {
                pieces.push(Piece::Plain(self.take(plain)));
            }
            match self.rest.as_bytes() {
                [b'"', ..] => {
                    self.take(1);
                    break;
                }
                [b'\\', b'(', ..] => {
                    self.take(1);
                    let open = self.take(1);
                    pieces.push(Piece::Tokens(self.tokens(Some(open))));
                    if !self.faults.is_empty() {
                        return None;
                    }
                }
                [b'\\', ..] => {
                    self.take(1);
                    pieces.push(Piece::Escaped(self.escape()?));
                }
                _ => {
                    let message = "this quote is never closed";
                    self.faults.push(fault(self.source, open, message, "close it: a closing quote is missing"));
                    return None;
                }
            }
        }
        Some(Token { text: &all[..all.len() - self.rest.len()], kind: Kind::Text(pieces) })
    }

    fn escape(&mut self) -> Option<char> {
        let Some(first) = self.rest.chars().next() else {
            self.wrong(self.rest, "the string is incomplete", "a string escape sequence");
            return None;
        };
        let character = match first {
            '\\' | '/' | '"' => first,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode(),
            _ => {
                self.wrong(&self.rest[..first.len_utf8()], "strings have no such escape", "a string escape sequence");
                return None;
            }
        };
        self.take(1);
        Some(character)
    }

    fn unicode(&mut self) -> Option<char> {
        let at = self.rest;
        let Some(unit) = unit(&self.rest[1..]) else {
            let first = at[1..].chars().next().map_or("", |c| &at[1..1 + c.len_utf8()]);
            self.wrong(first, "`\\u` takes four hexadecimal digits of a character", "a 4-digit hexadecimal number");
            return None;
        };
        self.take(5);
        let low = self.rest.strip_prefix("\\u").and_then(self::unit).filter(|low| (0xdc00..0xe000).contains(low));
        match (unit, low) {
            (0xd800..0xdc00, Some(low)) => {
                self.take(6);
                char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
            }
            // As in jq, half a surrogate pair is not a character.
            _ => Some(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }
}

fn unit(text: &str) -> Option<u32> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok()
}

/// The name of a bracket, and its closing bracket.
fn closing(open: &str) -> (&'static str, &'static str) {
    match open {
        "(" => ("parenthesis", ")"),
        "[" => ("bracket", "]"),
        _ => ("brace", "}"),
    }
}
