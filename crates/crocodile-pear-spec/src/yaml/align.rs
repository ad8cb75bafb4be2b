//! Where each part of a scalar's text stands in the file, for what does not read as it is written.

use std::sync::Arc;

use crate::problem::Span;
use crate::settings::TextRun;
use saphyr_parser::ScalarStyle;

/// A position in a file: characters before it, line from 1, column from 0.
pub type SourcePosition = (usize, usize, usize);

/// The place of a scalar's content, behind the anchor and tag that begin at `at`.
pub fn content(source: &[char], style: ScalarStyle, at: SourcePosition) -> SourcePosition {
    let mut at = at;
    while matches!(source.get(at.0), Some('&' | '!')) {
        at = skip(source, at, |letter| !letter.is_whitespace());
        at = skip(source, at, char::is_whitespace);
    }
    match style {
        // Behind the header, which is the rest of the line.
        ScalarStyle::Literal | ScalarStyle::Folded => {
            skip(source, skip(source, at, |letter| letter != '\n'), char::is_whitespace)
        }
        _ => at,
    }
}

fn skip(
    source: &[char],
    (mut index, mut line, mut column): SourcePosition,
    over: impl Fn(char) -> bool,
) -> SourcePosition {
    while let Some(letter) = source.get(index).filter(|letter| over(**letter)) {
        (line, column) = if *letter == '\n' { (line + 1, 0) } else { (line, column + 1) };
        index += 1;
    }
    (index, line, column)
}

/// The places of a scalar's text; `source` begins at its place and ends with it.
pub fn runs(source: &[char], text: &str, style: ScalarStyle, place: Span) -> Arc<[TextRun]> {
    let mut walk = Walk { source, index: 0, line: place.line, column: place.column, runs: Vec::new(), next: (0, 0, 0) };
    match style {
        ScalarStyle::Literal | ScalarStyle::Folded => walk.words(text),
        _ => walk.flow(text, style),
    }
    if walk.runs.is_empty() {
        walk.runs.push(TextRun { offset: 0, line: place.line, column: place.column, written: 0, inserted: None });
    }
    walk.runs.into()
}

/// A walk through the source of one scalar.
struct Walk<'a> {
    source: &'a [char],
    index: usize,
    line: u32,
    column: u32,
    runs: Vec<TextRun>,
    /// The offset that comes next, with the line and column it has if it stands right behind the last.
    next: (usize, u32, u32),
}

impl Walk<'_> {
    fn peek(&self) -> Option<char> {
        self.source.get(self.index).copied()
    }

    fn advance(&mut self) {
        match self.peek() {
            Some('\n') => (self.line, self.column) = (self.line + 1, 1),
            _ => self.column += 1,
        }
        self.index += 1;
    }

    /// Notes that the character at an offset stands here.
    fn note(&mut self, offset: usize, letter: char) {
        if self.next != (offset, self.line, self.column) || self.runs.is_empty() {
            self.runs.push(TextRun { offset, line: self.line, column: self.column, written: 0, inserted: None });
        }
        self.next = (offset + letter.len_utf8(), self.line, self.column + 1);
    }

    /// Folding changes nothing but white space, so every other character is the next one of the source.
    fn words(&mut self, text: &str) {
        for (offset, letter) in text.char_indices().filter(|(_, letter)| !letter.is_whitespace()) {
            while self.peek().is_some_and(char::is_whitespace) {
                self.advance();
            }
            self.note(offset, letter);
            self.advance();
        }
    }

    /// A plain or quoted scalar: lines are folded, and quotes have escapes.
    fn flow(&mut self, text: &str, style: ScalarStyle) {
        if style != ScalarStyle::Plain {
            self.advance();
        }
        let mut letters = text.char_indices();
        // A line break after a backslash stands for nothing.
        let mut joined = false;
        while let Some(written) = self.peek() {
            let escape = self.escape(written, style);
            if written.is_whitespace() {
                let breaks = self.gap();
                if breaks > 0 {
                    let folded = if breaks == 1 && !joined { 1 } else { breaks - 1 };
                    letters.by_ref().take(folded).for_each(drop);
                    joined = false;
                    continue;
                }
            } else if escape == Some(0) {
                self.advance();
                joined = true;
                continue;
            }
            let Some((offset, letter)) = letters.next() else { return };
            match escape {
                Some(length) => {
                    let run = TextRun { offset, line: self.line, column: self.column, written: length, inserted: None };
                    self.runs.push(run);
                    self.next = (usize::MAX, 0, 0);
                    (0..length).for_each(|_| self.advance());
                }
                None => {
                    self.note(offset, letter);
                    self.advance();
                }
            }
        }
    }

    /// How many characters of the source stand for the one character here, if it is an escape; 0 for none.
    fn escape(&self, written: char, style: ScalarStyle) -> Option<u32> {
        let after = self.source.get(self.index + 1);
        match (style, written, after) {
            (ScalarStyle::SingleQuoted, '\'', Some('\'')) => Some(2),
            (ScalarStyle::DoubleQuoted, '\\', Some('\n' | '\r')) => Some(0),
            (ScalarStyle::DoubleQuoted, '\\', Some('x')) => Some(4),
            (ScalarStyle::DoubleQuoted, '\\', Some('u')) => Some(6),
            (ScalarStyle::DoubleQuoted, '\\', Some('U')) => Some(10),
            (ScalarStyle::DoubleQuoted, '\\', _) => Some(2),
            _ => None,
        }
    }

    /// Goes over the white space here if there is a line break in it; answers how many there are.
    fn gap(&mut self) -> usize {
        let blank = self.source[self.index..].iter().take_while(|letter| letter.is_whitespace());
        let length = blank.clone().count();
        let breaks = blank.filter(|letter| **letter == '\n').count();
        if breaks > 0 {
            (0..length).for_each(|_| self.advance());
        }
        breaks
    }
}
