//! Text with `{}` in it: URL targets and header values. Text outside is literal; `{word}` is a path parameter,
//! `{*word}` the rest of the path, anything else in braces is an expression.

use std::borrow::Cow;

use crate::error::{Error, Kind};
use crate::jq::{self, Filter, Value};
use crate::spec::Located;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode};

/// All but the unreserved characters (RFC 3986, 2.3), so that a value stays one segment or one query value.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What cannot stand in a URL as it is (RFC 3986, 2).
const FOREIGN: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A template, compiled.
pub struct Template {
    /// A header value, or the path of a target.
    parts: Vec<Part>,
    /// The parameters of a target's query.
    query: Vec<Vec<Part>>,
    kind: TemplateKind,
}

/// What a template's text is for, and so how values are written into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateKind {
    /// Path and query of a URL: values are percent-encoded.
    Target,
    /// A header value: values are written as they are.
    Field,
}

impl TemplateKind {
    /// Literal text. In a URL, what a variable inserted may have characters that a URL cannot have.
    fn text(self, text: &str) -> String {
        match self {
            TemplateKind::Field => text.to_owned(),
            TemplateKind::Target => utf8_percent_encode(text, FOREIGN).to_string(),
        }
    }
}

enum Part {
    Text(String),
    Param(String),
    Rest(String),
    Jq(Filter),
}

/// A piece of a template as it is written, before names and expressions are resolved.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Literal text.
    Text(&'a str),
    /// `{word}`
    Param(&'a str),
    /// `{*word}`
    Rest(&'a str),
    /// `{expression}`
    Jq(&'a str),
}

/// What gives a template its values.
pub trait Source {
    /// A path parameter, decoded.
    fn param(&self, name: &str) -> Option<&str>;
    /// The one value of an expression, or null.
    fn evaluate(&self, filter: &Filter) -> Result<Value, Error>;
}

/// Splits a template into its pieces, each with its byte offset. What a variable of the environment inserted is text,
/// whatever it looks like.
///
/// # Errors
/// The offset of a brace that has no partner.
pub fn split(written: &Located<String>) -> Result<Vec<(usize, Piece<'_>)>, usize> {
    let (text, signs) = (written.as_str(), signs(written));
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let open = signs[at..].find(['{', '}']).map_or(text.len(), |found| at + found);
        if open > at {
            pieces.push((at, Piece::Text(&text[at..open])));
        }
        if open == text.len() {
            break;
        }
        if signs.as_bytes()[open] == b'}' {
            return Err(open);
        }
        let close = open + partner(&signs[open..]).ok_or(open)?;
        let inner = match (open + 1..close).any(|at| written.inserted(at)) {
            true => Piece::Jq(&text[open + 1..close]),
            false => inner(&text[open + 1..close]),
        };
        pieces.push((open + 1, inner));
        at = close + 1;
    }
    Ok(pieces)
}

/// The text, as long as before, without the signs that were inserted.
fn signs(written: &Located<String>) -> Cow<'_, str> {
    if written.runs.iter().all(|runs| runs.iter().all(|run| !run.inserted)) {
        return Cow::Borrowed(&written.value);
    }
    let sign = |(at, c): (usize, char)| if c.is_ascii() && written.inserted(at) { '_' } else { c };
    written.value.char_indices().map(sign).collect()
}

fn inner(text: &str) -> Piece<'_> {
    let word = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match text.strip_prefix('*') {
        Some(rest) if word(rest) => Piece::Rest(rest),
        _ if word(text) => Piece::Param(text),
        _ => Piece::Jq(text),
    }
}

/// The offset of the brace that closes the one at the start; braces in strings do not count.
fn partner(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

impl Template {
    /// A template from its pieces; `filter` compiles an expression, given its offset.
    pub fn compile(
        pieces: Vec<(usize, Piece<'_>)>,
        kind: TemplateKind,
        mut filter: impl FnMut(usize, &str) -> Option<Filter>,
    ) -> Option<Self> {
        let parts: Vec<Option<Part>> = pieces
            .into_iter()
            .map(|(at, piece)| match piece {
                Piece::Text(text) => Some(Part::Text(kind.text(text))),
                Piece::Param(name) => Some(Part::Param(name.to_owned())),
                Piece::Rest(name) => Some(Part::Rest(name.to_owned())),
                Piece::Jq(source) => filter(at, source).map(Part::Jq),
            })
            .collect();
        let parts = parts.into_iter().collect::<Option<Vec<Part>>>()?;
        let (parts, query) = match kind {
            TemplateKind::Target => parameters(parts),
            TemplateKind::Field => (parts, Vec::new()),
        };
        Some(Template { parts, query, kind })
    }

    /// The expressions in it.
    pub fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.parts.iter().chain(self.query.iter().flatten()).filter_map(|part| match part {
            Part::Jq(filter) => Some(filter),
            _ => None,
        })
    }

    /// The path and query of a URL. A query parameter with a value that is null or empty is left out.
    ///
    /// # Errors
    /// `Expression` where a value is a list or an object, and in the path also where it is null, empty, or would change
    /// the path's shape.
    pub fn target(&self, source: &impl Source) -> Result<String, Error> {
        let mut out = String::new();
        for part in &self.parts {
            match self.append(part, source, &mut out)? {
                Filled::Text => {}
                Filled::Null => return Err(not_text(&jq::null())),
                Filled::Empty => {
                    let detail = format!("{} is empty where a path segment is needed", part.name());
                    return Err(Error::new(Kind::Expression, detail));
                }
            }
        }
        if self.parts.len() > 1 {
            shape(&out)?;
        }
        let mut before = '?';
        for parameter in &self.query {
            let end = out.len();
            out.push(before);
            match self.fill(parameter, source, &mut out)? {
                true => before = '&',
                false => out.truncate(end),
            }
        }
        Ok(out)
    }

    /// A header value; `None` for one that is left out, because a value in it is null or empty.
    ///
    /// # Errors
    /// `Expression` where a value is a list or an object.
    pub fn field(&self, source: &impl Source) -> Result<Option<String>, Error> {
        let mut out = String::new();
        Ok(self.fill(&self.parts, source, &mut out)?.then_some(out))
    }

    /// Writes the parts. False where a value is null, and where there are values and all are empty: then nothing was
    /// meant to be sent.
    fn fill(&self, parts: &[Part], source: &impl Source, out: &mut String) -> Result<bool, Error> {
        let (mut values, mut empty) = (0, 0);
        for part in parts.iter() {
            values += usize::from(!matches!(part, Part::Text(_)));
            match self.append(part, source, out)? {
                Filled::Text => {}
                Filled::Empty => empty += 1,
                Filled::Null => return Ok(false),
            }
        }
        Ok(values == 0 || empty < values)
    }

    /// Writes one part, and says what its value was.
    fn append(&self, part: &Part, source: &impl Source, out: &mut String) -> Result<Filled, Error> {
        match part {
            Part::Text(text) => {
                out.push_str(text);
                Ok(Filled::Text)
            }
            Part::Param(name) => Ok(self.write(source.param(name).unwrap_or_default(), out)),
            Part::Rest(name) => Ok(rest(source.param(name).unwrap_or_default(), out)),
            Part::Jq(filter) => {
                let value = source.evaluate(filter)?;
                match scalar(&value) {
                    Some(text) => Ok(self.write(&text, out)),
                    None if jq::kind(&value) == "null" => Ok(Filled::Null),
                    None => Err(not_text(&value)),
                }
            }
        }
    }

    fn write(&self, value: &str, out: &mut String) -> Filled {
        match self.kind {
            TemplateKind::Field => out.push_str(value),
            TemplateKind::Target => out.extend(utf8_percent_encode(value, RESERVED)),
        }
        if value.is_empty() { Filled::Empty } else { Filled::Text }
    }
}

/// What the value of a part was.
enum Filled {
    /// Text to be sent.
    Text,
    Empty,
    Null,
}

impl Part {
    /// What a failure calls it.
    fn name(&self) -> &str {
        match self {
            Part::Param(name) | Part::Rest(name) => name,
            Part::Text(_) | Part::Jq(_) => "the expression",
        }
    }
}

/// The path of a target, and the parameters of its query.
fn parameters(parts: Vec<Part>) -> (Vec<Part>, Vec<Vec<Part>>) {
    let mut path = Vec::new();
    let mut query: Vec<Vec<Part>> = Vec::new();
    for part in parts {
        let mut rest = match part {
            Part::Text(text) => text,
            part => {
                query.last_mut().unwrap_or(&mut path).push(part);
                continue;
            }
        };
        loop {
            let end = if query.is_empty() { '?' } else { '&' };
            let (text, next) = match rest.split_once(end) {
                Some((text, next)) => (text.to_owned(), Some(next.to_owned())),
                None => (rest, None),
            };
            if !text.is_empty() {
                query.last_mut().unwrap_or(&mut path).push(Part::Text(text));
            }
            let Some(next) = next else { break };
            query.push(Vec::new());
            rest = next;
        }
    }
    (path, query)
}

fn rest(value: &str, out: &mut String) -> Filled {
    for (at, segment) in value.split('/').enumerate() {
        if at > 0 {
            out.push('/');
        }
        // The rest is as the client wrote it; encoded once more it would be another path.
        let bytes: Vec<u8> = percent_decode_str(segment).collect();
        out.extend(percent_encode(&bytes, RESERVED));
    }
    Filled::Text
}

/// The text of a string, number or boolean.
pub fn scalar(value: &Value) -> Option<String> {
    match jq::kind(value) {
        "string" => jq::as_str(value).map(str::to_owned),
        "number" | "boolean" => Some(value.to_string()),
        _ => None,
    }
}

fn not_text(value: &Value) -> Error {
    Error::new(
        Kind::Expression,
        format!("a URL or header takes a string, a number or a boolean, not {}", jq::kind(value)),
    )
}

/// Refuses a path in which a value made a dot segment, which servers resolve (RFC 3986, 5.2.4), some of them after
/// they have decoded the path.
fn shape(target: &str) -> Result<(), Error> {
    let path: Vec<u8> = percent_decode_str(target.split('?').next().unwrap_or_default()).collect();
    match path.split(|byte| matches!(byte, b'/' | b'\\')).any(|segment| matches!(segment, b"." | b"..")) {
        true => Err(Error::new(Kind::Expression, "a value would be a dot segment of the path")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Span;
    use crate::spec::Run;

    struct Fixed(&'static str);

    impl Source for Fixed {
        fn param(&self, _: &str) -> Option<&str> {
            Some(self.0)
        }
        fn evaluate(&self, _: &Filter) -> Result<Value, Error> {
            Ok(jq::string(self.0))
        }
    }

    fn written(template: &str) -> Located<String> {
        Located::new(template.to_owned(), Span::default())
    }

    fn render(template: &str, value: &'static str) -> Result<String, Error> {
        let written = written(template);
        let pieces = split(&written).expect("braces match");
        Template::compile(pieces, TemplateKind::Target, |_, _| None).expect("no expressions").target(&Fixed(value))
    }

    #[test]
    fn braces_in_strings_and_objects_do_not_end_an_expression() {
        let template = written(r#"/a/{id}?x={$query["}"] // {a: 1}.a}&{*rest}"#);
        let pieces = split(&template).expect("braces match");
        let words: Vec<_> = pieces.into_iter().map(|(_, piece)| piece).collect();
        assert_eq!(words[1], Piece::Param("id"));
        assert_eq!(words[3], Piece::Jq(r#"$query["}"] // {a: 1}.a"#));
        assert_eq!(words[5], Piece::Rest("rest"));
        assert_eq!(split(&written("/a/{b")).unwrap_err(), 3);
        assert_eq!(split(&written("/a}")).unwrap_err(), 2);
    }

    #[test]
    fn what_was_inserted_is_text() {
        let run = |(offset, inserted)| Run { offset, line: 1, column: 1, written: 0, inserted };
        let inserted = |template: &str, from, to| {
            let runs = [(0, false), (from, true), (to, false)].map(run);
            Located { runs: Some(runs.into_iter().collect()), ..written(template) }
        };
        let template = inserted("/a/{id}é /{id}", 3, 10);
        let pieces = split(&template).expect("braces match");
        assert_eq!(pieces, [(0, Piece::Text("/a/{id}é /")), (12, Piece::Param("id"))]);
        let rendered = Template::compile(pieces, TemplateKind::Target, |_, _| None).expect("no expressions");
        assert_eq!(rendered.target(&Fixed("7")).expect("renders"), "/a/%7Bid%7D%C3%A9%20/7");
        assert_eq!(split(&inserted("/{id}", 2, 4)), Ok(vec![(0, Piece::Text("/")), (2, Piece::Jq("id"))]));
    }

    #[test]
    fn a_value_stays_one_segment_or_one_query_value() {
        assert_eq!(
            render("/c/{x}/d?q={x}", "a/b?c#d e&f=%2f\r\n@\\").expect("renders"),
            "/c/a%2Fb%3Fc%23d%20e%26f%3D%252f%0D%0A%40%5C/d?q=a%2Fb%3Fc%23d%20e%26f%3D%252f%0D%0A%40%5C"
        );
        assert_eq!(render("/c?q={x}", "Lund,SE").expect("renders"), "/c?q=Lund%2CSE");
        assert_eq!(render("/f/{*x}", "a/b%20c%2Fd").expect("renders"), "/f/a/b%20c%2Fd");
    }

    #[test]
    fn a_parameter_without_a_value_is_left_out() {
        assert_eq!(render("/c?a={x}&b=1&c=x{x}&d=", "").expect("renders"), "/c?b=1&d=");
        assert_eq!(render("/c?a={x}", "").expect("renders"), "/c");
        assert_eq!(render("/c?a={x}&{x}=b&&", "y").expect("renders"), "/c?a=y&y=b&&");
        assert_eq!(render("/c?", "").expect("renders"), "/c?");
        assert_eq!(render("/{x}?a=/?b", "y").expect("renders"), "/y?a=/?b");
    }

    #[test]
    fn a_value_cannot_change_the_shape_of_the_path() {
        for value in ["..", ".", ""] {
            assert!(render("/a/{x}/b", value).is_err(), "{value:?}");
        }
        for value in ["a/../../b", "a/%2e%2e/b", "a/%2E%2e%2Fb", "..%5cb"] {
            assert!(render("/f/{*x}", value).is_err(), "{value:?}");
        }
        assert!(render("/a/{x}", "../b").is_err());
        assert_eq!(render("/c?q={x}", "..").expect("a query has no segments"), "/c?q=..");
    }
}
