//! Parses tokens to a term, with jq's grammar.

use super::ast::{Compare, Definition, Fold, Key, Math, Missing, Operator, Part, Pattern, Piece, Term};
use super::compile_error::Fault;
use super::lex::{self, Kind, Token, fault, lex};

type Parsed<T> = Result<T, Fault>;

const TERM: &str = "a term such as `.name`, `$variable` or a string";

/// Words that cannot be names of functions.
const KEYWORDS: [&str; 17] = [
    "and", "as", "break", "catch", "def", "elif", "else", "end", "foreach", "if", "import", "include", "label",
    "module", "or", "reduce", "then",
];

pub fn parse(source: &str) -> Result<Term<'_>, Vec<Fault>> {
    let tokens = lex(source)?;
    let mut parser = Parser { source, tokens: &tokens, half: false };
    parser.whole(Parser::query).map_err(|fault| vec![fault])
}

pub fn definitions(source: &str) -> Result<Vec<Definition<'_>>, Vec<Fault>> {
    let tokens = lex(source)?;
    let mut parser = Parser { source, tokens: &tokens, half: false };
    let mut definitions = Vec::new();
    while parser.eat("def") {
        definitions.push(parser.definition().map_err(|fault| vec![fault])?);
    }
    parser.end().map_err(|fault| vec![fault])?;
    Ok(definitions)
}

/// Whether `,` is allowed between the terms.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Commas {
    Allowed,
    /// In the values of an object, where a comma ends the value.
    End,
}

struct Parser<'s, 't> {
    source: &'s str,
    tokens: &'t [Token<'s>],
    /// Whether the `?` of the next token, `?//`, was already consumed.
    half: bool,
}

/// The name of a header field in lower case, as `$headers` has them (RFC 9110, 5.1: names have no case).
fn caseless(part: Part<'_>) -> Part<'_> {
    let name = match &part {
        Part::Index(index) => index.text().filter(|name| name.bytes().any(|byte| byte.is_ascii_uppercase())),
        _ => None,
    };
    let Some(name) = name else { return part };
    Part::Index(Term::Text(None, name.to_ascii_lowercase().chars().map(Piece::Escaped).collect()))
}

/// The associativity of operators with the same precedence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    /// They cannot be chained.
    Neither,
}

fn operator(sign: &str) -> Option<(Operator, u8, Side)> {
    Some(match sign {
        "//" => (Operator::Alternative, 1, Side::Right),
        "=" => (Operator::Assign, 2, Side::Neither),
        "|=" => (Operator::Update, 2, Side::Neither),
        "+=" => (Operator::UpdateMath(Math::Add), 2, Side::Neither),
        "-=" => (Operator::UpdateMath(Math::Subtract), 2, Side::Neither),
        "*=" => (Operator::UpdateMath(Math::Multiply), 2, Side::Neither),
        "/=" => (Operator::UpdateMath(Math::Divide), 2, Side::Neither),
        "%=" => (Operator::UpdateMath(Math::Remainder), 2, Side::Neither),
        "//=" => (Operator::UpdateAlternative, 2, Side::Neither),
        "or" => (Operator::Or, 3, Side::Left),
        "and" => (Operator::And, 4, Side::Left),
        "==" => (Operator::Compare(Compare::Equal), 5, Side::Neither),
        "!=" => (Operator::Compare(Compare::Unequal), 5, Side::Neither),
        "<" => (Operator::Compare(Compare::Less), 5, Side::Neither),
        "<=" => (Operator::Compare(Compare::LessEqual), 5, Side::Neither),
        ">" => (Operator::Compare(Compare::Greater), 5, Side::Neither),
        ">=" => (Operator::Compare(Compare::GreaterEqual), 5, Side::Neither),
        "+" => (Operator::Math(Math::Add), 6, Side::Left),
        "-" => (Operator::Math(Math::Subtract), 6, Side::Left),
        "*" => (Operator::Math(Math::Multiply), 7, Side::Left),
        "/" => (Operator::Math(Math::Divide), 7, Side::Left),
        "%" => (Operator::Math(Math::Remainder), 7, Side::Left),
        _ => return None,
    })
}

impl<'s, 't> Parser<'s, 't> {
    fn peek(&self) -> Option<&'t Token<'s>> {
        self.tokens.first()
    }

    fn next(&mut self) -> Option<&'t Token<'s>> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        self.half = false;
        Some(first)
    }

    /// Whether the next token is this word or sign.
    fn at(&self, text: &str) -> bool {
        self.peek().is_some_and(|token| matches!(token.kind, Kind::Word | Kind::Sign) && token.text == text)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.at(text);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.eat(text) { Ok(()) } else { Err(self.unexpected(&format!("`{text}`"))) }
    }

    /// The error for a next token that is not allowed here.
    fn unexpected(&self, wanted: &str) -> Fault {
        let remedy = format!("{wanted} belongs here");
        match self.peek() {
            Some(token) => {
                let text = if matches!(token.kind, Kind::Text(_)) { &token.text[..1] } else { token.text };
                fault(self.source, text, format!("`{text}` is not allowed here"), remedy)
            }
            None => fault(self.source, &self.source[self.source.len()..], "the expression is incomplete", remedy),
        }
    }

    fn whole<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let parsed = parse(self)?;
        self.end()?;
        Ok(parsed)
    }

    fn end(&self) -> Parsed<()> {
        if self.tokens.is_empty() { Ok(()) } else { Err(self.unexpected("an operator such as `|` or the end")) }
    }

    fn query(&mut self) -> Parsed<Term<'s>> {
        self.pipe(Commas::Allowed)
    }

    fn pipe(&mut self, commas: Commas) -> Parsed<Term<'s>> {
        let mut left = self.element(commas)?;
        while commas == Commas::Allowed && self.eat(",") {
            left = Term::Comma(Box::new(left), Box::new(self.element(commas)?));
        }
        if self.eat("|") {
            return Ok(Term::Pipe(Box::new(left), Box::new(self.pipe(commas)?)));
        }
        Ok(left)
    }

    fn element(&mut self, commas: Commas) -> Parsed<Term<'s>> {
        if self.eat("def") {
            let definition = self.definition()?;
            return Ok(Term::Define(Box::new(definition), Box::new(self.pipe(commas)?)));
        }
        if self.eat("label") {
            let name = self.variable()?;
            self.expect("|")?;
            return Ok(Term::Label(name, Box::new(self.pipe(commas)?)));
        }
        let term = self.expression(0)?;
        if !self.eat("as") {
            return Ok(term);
        }
        let patterns = self.patterns()?;
        self.expect("|")?;
        Ok(Term::Bind(Box::new(term), patterns, Box::new(self.pipe(commas)?)))
    }

    /// Terms between operators of at least this precedence.
    fn expression(&mut self, least: u8) -> Parsed<Term<'s>> {
        let mut left = self.term()?;
        // Operators that cannot be chained.
        let mut taken = u8::MAX;
        while let Some(token) = self.peek().filter(|token| matches!(token.kind, Kind::Word | Kind::Sign)) {
            let sign = if self.half { "//" } else { token.text };
            let Some((operator, strength, side)) = operator(sign).filter(|found| found.1 >= least) else { break };
            if side == Side::Neither && strength == taken {
                return Err(self.unexpected("an operator such as `|` or the end"));
            }
            taken = strength;
            self.next();
            let right = self.expression(if side == Side::Right { strength } else { strength + 1 })?;
            left = Term::Binary(Box::new(left), operator, Box::new(right));
        }
        Ok(left)
    }

    /// Whether a variable has the client's header fields: the expression has not bound the name itself.
    fn is_headers(&self, name: &str) -> bool {
        name.trim_start_matches('$') == "headers" && !self.source.contains("as $headers")
    }

    fn term(&mut self) -> Parsed<Term<'s>> {
        let brackets = self.at("(");
        let mut term = self.atom()?;
        // `?` after a part of a path applies to that part only.
        let mut part = matches!(term, Term::Path(..)) && !brackets;
        while let Some(token) = self.peek() {
            let found = match (&token.kind, token.text) {
                (Kind::Sign, "?//") if self.half => break,
                (Kind::Sign, sign @ ("?" | "?//")) => {
                    // It is not part of a pattern: `.a?//1`.
                    if sign == "?" {
                        self.next();
                    } else {
                        self.half = true;
                    }
                    match &mut term {
                        Term::Path(_, parts) if part => {
                            parts.last_mut().into_iter().for_each(|part| part.1 = Missing::Skipped);
                        }
                        _ => term = Term::Try(Box::new(term), None),
                    }
                    part = false;
                    continue;
                }
                (Kind::Field, name) => {
                    self.next();
                    Part::Index(Term::plain(&name[1..]))
                }
                (Kind::Sign, ".") => {
                    self.next();
                    match self.peek().map(|token| (&token.kind, token.text)) {
                        Some((Kind::Sign, "[")) => {
                            self.next();
                            self.bracket()?
                        }
                        _ => Part::Index(self.key()?),
                    }
                }
                (Kind::Sign, "[") => {
                    self.next();
                    self.bracket()?
                }
                _ => break,
            };
            let found = match &term {
                Term::Variable(name) if self.is_headers(name) => caseless(found),
                _ => found,
            };
            term = match term {
                Term::Path(head, mut parts) => {
                    parts.push((found, Missing::Fails));
                    Term::Path(head, parts)
                }
                head => Term::Path(Box::new(head), vec![(found, Missing::Fails)]),
            };
            part = true;
        }
        Ok(term)
    }

    /// A string as a key after a point.
    fn key(&mut self) -> Parsed<Term<'s>> {
        match self.peek().map(|token| &token.kind) {
            Some(Kind::Text(_) | Kind::Format) => self.text(),
            _ => Err(self.unexpected("a key such as `.name` or `[\"name\"]`")),
        }
    }

    fn text(&mut self) -> Parsed<Term<'s>> {
        let mut format = None;
        let Some(mut token) = self.next() else { return Err(self.unexpected(TERM)) };
        if let Kind::Format = token.kind {
            format = Some(token.text);
            match self.peek().map(|token| &token.kind) {
                Some(Kind::Text(_)) => token = self.next().unwrap_or(token),
                _ => return Ok(Term::Format(token.text)),
            }
        }
        let Kind::Text(pieces) = &token.kind else { return Err(self.unexpected("a string")) };
        let mut parsed = Vec::with_capacity(pieces.len());
        for piece in pieces {
            parsed.push(match piece {
                lex::Piece::Plain(text) => Piece::Plain(text),
                lex::Piece::Escaped(character) => Piece::Escaped(*character),
                lex::Piece::Tokens(tokens) => {
                    let mut inner = Parser { source: self.source, tokens, half: false };
                    let term = inner.query()?;
                    inner.expect(")")?;
                    Piece::Term(term)
                }
            });
        }
        Ok(Term::Text(format, parsed))
    }

    /// The content of the brackets of a path, and the closing bracket.
    fn bracket(&mut self) -> Parsed<Part<'s>> {
        if self.eat("]") {
            return Ok(Part::Each);
        }
        if self.eat(":") {
            let to = self.query()?;
            self.expect("]")?;
            return Ok(Part::Slice(None, Some(to)));
        }
        let index = self.query()?;
        if !self.eat(":") {
            self.expect("]")?;
            return Ok(Part::Index(index));
        }
        let to = if self.at("]") { None } else { Some(self.query()?) };
        self.expect("]")?;
        Ok(Part::Slice(Some(index), to))
    }

    fn atom(&mut self) -> Parsed<Term<'s>> {
        let Some(token) = self.peek() else { return Err(self.unexpected(TERM)) };
        match (&token.kind, token.text) {
            (Kind::Number, digits) => {
                self.next();
                Ok(Term::Number(digits))
            }
            (Kind::Text(_) | Kind::Format, _) => self.text(),
            (Kind::Field, name) => {
                self.next();
                Ok(Term::Path(Box::new(Term::Id), vec![(Part::Index(Term::plain(&name[1..])), Missing::Fails)]))
            }
            (Kind::Variable, "$__loc__") => {
                self.next();
                let before = &self.source[..lex::offset(self.source, token.text)];
                Ok(Term::Location(1 + before.bytes().filter(|byte| *byte == b'\n').count()))
            }
            (Kind::Variable, name) => {
                self.next();
                Ok(Term::Variable(name))
            }
            (Kind::Word, word) => self.word(word),
            (Kind::Sign, sign) => self.sign(sign),
        }
    }

    fn sign(&mut self, sign: &'s str) -> Parsed<Term<'s>> {
        match sign {
            "." => {
                self.next();
                match self.peek().map(|token| &token.kind) {
                    Some(Kind::Text(_) | Kind::Format) => {
                        let key = self.text()?;
                        Ok(Term::Path(Box::new(Term::Id), vec![(Part::Index(key), Missing::Fails)]))
                    }
                    _ => Ok(Term::Id),
                }
            }
            ".." => {
                self.next();
                Ok(Term::Recurse)
            }
            "-" => {
                self.next();
                Ok(Term::Negate(Box::new(self.term()?)))
            }
            "(" => {
                self.next();
                let inner = self.query()?;
                self.expect(")")?;
                Ok(inner)
            }
            "[" => {
                self.next();
                if self.eat("]") {
                    return Ok(Term::List(None));
                }
                let inner = self.query()?;
                self.expect("]")?;
                Ok(Term::List(Some(Box::new(inner))))
            }
            "{" => {
                self.next();
                self.object()
            }
            _ => Err(self.unexpected(TERM)),
        }
    }

    fn word(&mut self, word: &'s str) -> Parsed<Term<'s>> {
        match word {
            "if" => {
                self.next();
                self.condition()
            }
            "try" => {
                self.next();
                let body = self.term()?;
                let catch = if self.eat("catch") { Some(Box::new(self.term()?)) } else { None };
                Ok(Term::Try(Box::new(body), catch))
            }
            "reduce" | "foreach" => {
                self.next();
                self.fold(word == "foreach")
            }
            "break" => {
                self.next();
                Ok(Term::Break(self.variable()?))
            }
            _ if KEYWORDS.contains(&word) => Err(self.unexpected(TERM)),
            _ => {
                self.next();
                let mut arguments = Vec::new();
                if self.eat("(") {
                    arguments.push(self.query()?);
                    while !self.eat(")") {
                        if !self.eat(";") {
                            return Err(self.unexpected("a semicolon or right parenthesis"));
                        }
                        arguments.push(self.query()?);
                    }
                }
                Ok(Term::Call(word, arguments))
            }
        }
    }

    fn condition(&mut self) -> Parsed<Term<'s>> {
        let mut branches = Vec::new();
        loop {
            let condition = self.query()?;
            self.expect("then")?;
            branches.push((condition, self.query()?));
            if self.eat("elif") {
                continue;
            }
            let otherwise = if self.eat("else") { Some(Box::new(self.query()?)) } else { None };
            if !self.eat("end") {
                let wanted = if otherwise.is_some() { "`end`" } else { "`else` or `end`" };
                return Err(self.unexpected(wanted));
            }
            return Ok(Term::If(branches, otherwise));
        }
    }

    fn fold(&mut self, each: bool) -> Parsed<Term<'s>> {
        let source = self.expression(0)?;
        self.expect("as")?;
        let patterns = self.patterns()?;
        self.expect("(")?;
        let start = self.query()?;
        self.expect(";")?;
        let update = self.query()?;
        let extract = if each && self.eat(";") { Some(self.query()?) } else { None };
        self.expect(")")?;
        Ok(Term::Fold(Box::new(Fold { each, source, patterns, start, update, extract })))
    }

    fn object(&mut self) -> Parsed<Term<'s>> {
        let mut entries = Vec::new();
        while !self.eat("}") {
            entries.push(self.entry()?);
            if !self.eat(",") && !self.at("}") {
                return Err(self.unexpected("a comma or right brace"));
            }
        }
        Ok(Term::Object(entries))
    }

    fn entry(&mut self) -> Parsed<(Term<'s>, Option<Term<'s>>)> {
        let (key, lone) = self.name()?;
        if !lone || self.at(":") {
            self.expect(":")?;
            return Ok((key, Some(self.pipe(Commas::End)?)));
        }
        Ok((key, None))
    }

    /// The key of an object, and whether it may have no value.
    fn name(&mut self) -> Parsed<(Term<'s>, bool)> {
        let Some(token) = self.peek() else { return Err(self.unexpected("a key")) };
        Ok(match (&token.kind, token.text) {
            (Kind::Word, word) => {
                self.next();
                (Term::plain(word), true)
            }
            (Kind::Variable, _) => (self.atom()?, true),
            (Kind::Text(_) | Kind::Format, _) => (self.text()?, true),
            (Kind::Sign, "(") => {
                let open = token.text;
                self.next();
                let key = self.query()?;
                self.constant(open, &key)?;
                self.expect(")")?;
                (key, false)
            }
            _ => return Err(self.unexpected("a key such as `name`, `\"name\"` or `(.name)`")),
        })
    }

    /// Rejects a constant key that is not a string.
    fn constant(&self, part: &'s str, key: &Term<'s>) -> Parsed<()> {
        let kind = match key {
            Term::Number(_) => "a number",
            Term::Negate(inner) if matches!(**inner, Term::Number(_)) => "a number",
            Term::Call("true" | "false", arguments) if arguments.is_empty() => "a boolean",
            Term::Call("null", arguments) if arguments.is_empty() => "null",
            Term::List(_) => "an array",
            Term::Object(_) => "an object",
            _ => return Ok(()),
        };
        Err(fault(self.source, part, format!("{kind} cannot be the key of an object"), "write a string or `tostring`"))
    }

    fn patterns(&mut self) -> Parsed<Vec<Pattern<'s>>> {
        let mut patterns = vec![self.pattern()?];
        while self.eat("?//") {
            patterns.push(self.pattern()?);
        }
        Ok(patterns)
    }

    fn pattern(&mut self) -> Parsed<Pattern<'s>> {
        let Some(token) = self.peek() else { return Err(self.unexpected("a pattern")) };
        match (&token.kind, token.text) {
            (Kind::Variable, _) => Ok(Pattern::Variable(self.variable()?)),
            (Kind::Sign, "[") => {
                self.next();
                let mut inner = vec![self.pattern()?];
                while !self.eat("]") {
                    if !self.eat(",") {
                        return Err(self.unexpected("a comma or right bracket"));
                    }
                    inner.push(self.pattern()?);
                }
                Ok(Pattern::List(inner))
            }
            (Kind::Sign, "{") => {
                self.next();
                let mut entries = vec![self.field()?];
                while !self.eat("}") {
                    if !self.eat(",") {
                        return Err(self.unexpected("a comma or right brace"));
                    }
                    entries.push(self.field()?);
                }
                Ok(Pattern::Object(entries))
            }
            _ => Err(self.unexpected("a pattern")),
        }
    }

    fn field(&mut self) -> Parsed<(Key<'s>, Option<Pattern<'s>>)> {
        if let Some(Kind::Variable) = self.peek().map(|token| &token.kind) {
            let name = self.variable()?;
            let inner = if self.eat(":") { Some(self.pattern()?) } else { None };
            return Ok((Key::Variable(name), inner));
        }
        let (key, _) = self.name()?;
        self.expect(":")?;
        Ok((Key::Term(key), Some(self.pattern()?)))
    }

    fn variable(&mut self) -> Parsed<&'s str> {
        match self.peek() {
            Some(token) if matches!(token.kind, Kind::Variable) => {
                self.next();
                Ok(token.text)
            }
            _ => Err(self.unexpected("a variable")),
        }
    }

    /// The definition after `def`.
    fn definition(&mut self) -> Parsed<Definition<'s>> {
        let name = match self.peek() {
            Some(token) if matches!(token.kind, Kind::Word) && !KEYWORDS.contains(&token.text) => token.text,
            _ => return Err(self.unexpected("an identifier")),
        };
        self.next();
        let mut parameters = Vec::new();
        if self.eat("(") {
            loop {
                match self.peek() {
                    Some(token) if matches!(token.kind, Kind::Word | Kind::Variable) => parameters.push(token.text),
                    _ => return Err(self.unexpected("an argument")),
                }
                self.next();
                if self.eat(")") {
                    break;
                }
                if !self.eat(";") {
                    return Err(self.unexpected("a semicolon or right parenthesis"));
                }
            }
        }
        self.expect(":")?;
        let body = self.query()?;
        self.expect(";")?;
        Ok(Definition { name, parameters, body })
    }
}
