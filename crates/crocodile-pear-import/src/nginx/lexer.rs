//! The words of an nginx file, as nginx itself splits them: quotes, escapes, comments, `${name}`, and blocks of Lua.

use crocodile_pear_spec::problem::Span;

/// A word, or a sign between words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A word, without its quotes.
    Word(Word),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub span: Span,
    /// Whether it stood in quotes.
    pub is_quoted: bool,
}

#[derive(Debug)]
pub struct SyntaxError {
    pub span: Span,
    pub message: String,
    pub remedy: &'static str,
}

pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
    file: u32,
    line: u32,
    column: u32,
}

impl<'a> Lexer<'a> {
    pub fn new(file: u32, text: &'a str) -> Self {
        Self { text, at: 0, file, line: 1, column: 1 }
    }

    /// The place of the next character.
    pub fn here(&self) -> Span {
        Span { file: self.file, line: self.line, column: self.column, length: 1 }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        if letter == '\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
        Some(letter)
    }

    /// The next token with its place; none at the end of the file.
    ///
    /// # Errors
    /// Where a quote has no end, or is followed by more of a word.
    pub fn token(&mut self) -> Result<Option<(Token, Span)>, SyntaxError> {
        loop {
            let span = self.here();
            match self.peek() {
                None => return Ok(None),
                Some(letter) if is_space(letter) => drop(self.take()),
                Some('#') => {
                    while self.peek().is_some_and(|letter| letter != '\n') {
                        self.take();
                    }
                }
                Some(sign @ (';' | '{' | '}')) => {
                    self.take();
                    let token = match sign {
                        ';' => Token::End,
                        '{' => Token::Open,
                        _ => Token::Close,
                    };
                    return Ok(Some((token, span)));
                }
                Some(quote @ ('"' | '\'')) => return self.quoted(quote, span).map(Some),
                Some(_) => return Ok(Some((Token::Word(self.bare(span)), span))),
            }
        }
    }

    fn quoted(&mut self, quote: char, span: Span) -> Result<(Token, Span), SyntaxError> {
        self.take();
        let from = self.at;
        loop {
            match self.take() {
                None => {
                    let remedy = "close the quotes";
                    return Err(SyntaxError { span, message: format!("the text in {quote} has no end"), remedy });
                }
                Some('\\') => drop(self.take()),
                Some(letter) if letter == quote => break,
                Some(_) => {}
            }
        }
        let text = unescaped(&self.text[from..self.at - 1]);
        let follows = self.peek();
        if let Some(letter) = follows.filter(|letter| !is_space(*letter) && !matches!(letter, ';' | '{' | ')')) {
            let message = format!("unexpected `{letter}` behind a text in quotes");
            return Err(SyntaxError { span: self.here(), message, remedy: "a space, `;` or `{` follows the quotes" });
        }
        let length = length(&text) + 2;
        Ok((Token::Word(Word { text, span, is_quoted: true }), Span { length, ..span }))
    }

    fn bare(&mut self, span: Span) -> Word {
        let from = self.at;
        let mut is_variable = false;
        while let Some(letter) = self.peek() {
            if letter == '{' && is_variable {
                is_variable = false;
                self.take();
                continue;
            }
            if is_space(letter) || letter == ';' || letter == '{' {
                break;
            }
            is_variable = letter == '$';
            self.take();
            if letter == '\\' {
                self.take();
            }
        }
        let text = unescaped(&self.text[from..self.at]);
        let span = Span { length: length(&text), ..span };
        Word { text, span, is_quoted: false }
    }

    /// Skips what a block of Lua contains, behind its `{`. Whether its `}` was found.
    pub fn skip_lua(&mut self) -> bool {
        let mut depth = 1;
        while let Some(letter) = self.peek() {
            match letter {
                '-' if self.text[self.at..].starts_with("--") => {
                    self.take();
                    self.take();
                    if !self.long_bracket() {
                        while self.peek().is_some_and(|letter| letter != '\n') {
                            self.take();
                        }
                    }
                    continue;
                }
                '[' if self.long_bracket() => continue,
                '"' | '\'' => {
                    self.take();
                    loop {
                        match self.take() {
                            None => return false,
                            Some('\\') => drop(self.take()),
                            Some(end) if end == letter || end == '\n' => break,
                            Some(_) => {}
                        }
                    }
                    continue;
                }
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            self.take();
            if depth == 0 {
                return true;
            }
        }
        false
    }

    /// Skips Lua's `[[…]]` or `[=[…]=]`, if one begins here.
    fn long_bracket(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let Some(inner) = rest.strip_prefix('[') else { return false };
        let level = inner.len() - inner.trim_start_matches('=').len();
        if !inner[level..].starts_with('[') {
            return false;
        }
        let close = format!("]{}]", "=".repeat(level));
        let end = rest.find(&close).map_or(self.text.len(), |found| self.at + found + close.len());
        while self.at < end {
            self.take();
        }
        true
    }
}

fn length(text: &str) -> u32 {
    u32::try_from(text.lines().next().unwrap_or_default().chars().count().max(1)).unwrap_or(1)
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n')
}

/// Backslashes as nginx reads them: before anything but these letters they stay.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let follows = if letter == '\\' { letters.peek().copied() } else { None };
        let meant = match follows {
            Some(sign @ ('"' | '\'' | '\\')) => sign,
            Some('t') => '\t',
            Some('r') => '\r',
            Some('n') => '\n',
            _ => {
                out.push(letter);
                continue;
            }
        };
        out.push(meant);
        letters.next();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Lexer, Token};

    /// The tokens of a text, each as a text.
    fn tokens(text: &str) -> Result<Vec<String>, String> {
        let mut lexer = Lexer::new(0, text);
        let mut all = Vec::new();
        while let Some((token, _)) = lexer.token().map_err(|fault| fault.message)? {
            all.push(match token {
                Token::Word(word) => word.text,
                Token::End => ";".to_owned(),
                Token::Open => "<".to_owned(),
                Token::Close => ">".to_owned(),
            });
        }
        Ok(all)
    }

    #[test]
    fn words_are_split_as_nginx_does() {
        for (text, wanted) in [
            ("a b;", vec!["a", "b", ";"]),
            ("a 'b c' \"d ; {\" ;", vec!["a", "b c", "d ; {", ";"]),
            ("a# b; # c;\nd;", vec!["a#", "b", ";", "d", ";"]),
            ("a ${b}c/$d;", vec!["a", "${b}c/$d", ";"]),
            (r#"a "b\"c\\d\n" \.e;"#, vec!["a", "b\"c\\d\n", r"\.e", ";"]),
            ("l ~ ^/a(b|c)\\.d$ { e f; }", vec!["l", "~", "^/a(b|c)\\.d$", "<", "e", "f", ";", ">"]),
            ("if ($a = \"b\") { }", vec!["if", "($a", "=", "b", ")", "<", ">"]),
            ("a b}c;", vec!["a", "b}c", ";"]),
        ] {
            let wanted: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
            assert_eq!(tokens(text), Ok(wanted), "{text}");
        }
        assert!(tokens("a 'b").is_err());
        assert!(tokens("a 'b'c;").is_err());
    }

    #[test]
    fn lua_ends_at_its_own_brace() {
        let text = "local a = \"}\" -- }\n--[[ } ]] if b then c = {d = [=[ } ]=]} end } rest;";
        let mut lexer = Lexer::new(0, text);
        assert!(lexer.skip_lua());
        assert!(matches!(lexer.token(), Ok(Some((Token::Word(word), _))) if word.text == "rest"));
        assert!(!Lexer::new(0, "{ }").skip_lua());
    }
}
