//! Text with `{}` in it: URL targets and header values. Text outside is literal; `{word}` is a path parameter,
//! `{*word}` the rest of the path, anything else in braces is an expression; `{*expression}` gives several segments.

mod dots;
pub mod uri_template;

pub use dots::check as check_path;

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode};

use crate::config::spec::Located;
use crate::error::{Error, Kind};
use crate::jq::{self, Data, Filter, Value};
use crate::json::value::{self, Shape};
use crate::telemetry::request_record::Hidden;

/// All but the unreserved characters (RFC 3986, 2.3), so that a value stays one segment or one query value.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same without slashes, which a query value may have.
const QUERY: &AsciiSet = &RESERVED.remove(b'/');

/// The characters that are not allowed in a URL as they are (RFC 3986, 2), but for braces and `|`, which clients send all the same.
const UNFIT: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`');

/// The characters that are not allowed in a URL as they are.
const FOREIGN: &AsciiSet = &UNFIT.add(b'{').add(b'|').add(b'}');

/// The characters that cannot stand in a path that a client may have sent.
const PATH: &AsciiSet = &UNFIT.add(b'?');

/// A template, compiled.
pub struct Template {
    /// A header value, or the path of a target.
    parts: Box<[TemplatePart]>,
    /// The parameters of a target's query.
    query: Box<[Vec<TemplatePart>]>,
    kind: TemplateKind,
}

/// The use of a template's text, and so how values are written into it.
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
            TemplateKind::Target => escape(text, FOREIGN),
        }
    }
}

pub enum TemplatePart {
    /// Literal text.
    Text(String),
    /// A path parameter, encoded as one segment or one query value.
    Param(String),
    /// The rest of the path.
    Rest(RestForm),
    /// An expression that gives several segments, and what failures call it.
    Segments(Filter, Box<str>),
    /// An expression, and what failures call it.
    Jq(Filter, Box<str>),
}

/// The name of an expression in failures: a short one by its text. Texts in it may be secrets.
fn called(source: &str) -> Box<str> {
    const SHORT: usize = 60;
    match source.len() <= SHORT && !source.contains(['"', '\n']) {
        true => format!("`{}`", source.trim()).into(),
        false => "the expression".into(),
    }
}

/// How the rest of a path is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestForm {
    /// The rest as it came, with the slash that it begins with, if it has one.
    Whole,
    /// The rest as it came, without that slash.
    Bare,
    /// The rest as a query value that keeps its slashes.
    Query,
}

/// A piece of a template as it is written, before names and expressions are resolved.
#[derive(Debug, PartialEq, Eq)]
pub enum TemplatePiece<'a> {
    /// Literal text.
    Text(&'a str),
    /// `{word}`
    Param(&'a str),
    /// `{*word}`
    Rest(&'a str),
    /// `{*expression}`
    Segments(&'a str),
    /// `{expression}`
    Jq(&'a str),
}

/// A source of a template's values.
pub trait TemplateSource {
    /// A path parameter, decoded.
    fn param(&self, name: &str) -> Option<&str>;
    /// The rest of the path as it came: with the slash that it begins with, or empty.
    fn rest(&self) -> &str;
    /// The one value of an expression, or null.
    fn evaluate(&self, filter: &Filter) -> Result<Data, Error>;
}

/// The part that is not shown of a target that is made of this text: the values of variables, as they stand in a URL.
pub fn hidden(written: &Located<String>) -> Hidden {
    let runs = written.runs.as_deref().unwrap_or_default();
    let values = runs.iter().enumerate().filter_map(|(at, run)| {
        let end = runs.get(at + 1).map_or(written.value.len(), |next| next.offset);
        Some((written.value.get(run.offset..end)?, run.inserted.as_deref()?))
    });
    let forms = |value: &str| [escape(value, FOREIGN), utf8_percent_encode(value, RESERVED).to_string()];
    let named = |(value, name): (&str, &str)| forms(value).map(|form| (form, format!("${{{name}}}")));
    let mut all: Vec<(String, String)> = values.flat_map(named).filter(|(form, _)| !form.is_empty()).collect();
    // A longer one may have a shorter one in it.
    all.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
    all.dedup();
    Hidden(all.into())
}

/// Splits a template into its pieces, each with its byte offset. What a variable of the environment inserted is text,
/// whatever it looks like.
///
/// # Errors
/// The offset of a brace that has no partner.
pub fn split(written: &Located<String>) -> Result<Vec<(usize, TemplatePiece<'_>)>, usize> {
    let (text, signs) = (written.as_str(), signs(written));
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let open = signs[at..].find(['{', '}']).map_or(text.len(), |found| at + found);
        if open > at {
            pieces.push((at, TemplatePiece::Text(&text[at..open])));
        }
        if open == text.len() {
            break;
        }
        if signs.as_bytes()[open] == b'}' {
            return Err(open);
        }
        let close = open + partner(&signs[open..]).ok_or(open)?;
        let (offset, piece) = match (open + 1..close).any(|at| written.inserted(at)) {
            true => expression(&text[open + 1..close]),
            false => inner(&text[open + 1..close]),
        };
        pieces.push((open + 1 + offset, piece));
        at = close + 1;
    }
    Ok(pieces)
}

/// The text, as long as before, without the signs that were inserted.
fn signs(written: &Located<String>) -> Cow<'_, str> {
    if written.runs.iter().all(|runs| runs.iter().all(|run| run.inserted.is_none())) {
        return Cow::Borrowed(&written.value);
    }
    let sign = |(at, c): (usize, char)| if c.is_ascii() && written.inserted(at) { '_' } else { c };
    written.value.char_indices().map(sign).collect()
}

/// Whether a word is a value of JSON, and so no path parameter.
pub fn is_value(word: &str) -> bool {
    matches!(word, "null" | "true" | "false")
}

fn inner(text: &str) -> (usize, TemplatePiece<'_>) {
    let word = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !is_value(text)
    };
    match text.strip_prefix('*') {
        Some(rest) if word(rest) => (1, TemplatePiece::Rest(rest)),
        None if word(text) => (0, TemplatePiece::Param(text)),
        _ => expression(text),
    }
}

fn expression(text: &str) -> (usize, TemplatePiece<'_>) {
    match text.strip_prefix('*') {
        Some(segments) => (1, TemplatePiece::Segments(segments)),
        None => (0, TemplatePiece::Jq(text)),
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
        pieces: Vec<(usize, TemplatePiece<'_>)>,
        kind: TemplateKind,
        mut filter: impl FnMut(usize, &str) -> Option<Filter>,
    ) -> Option<Self> {
        let mut parts = Some(Vec::new());
        let mut in_path = kind == TemplateKind::Target;
        for (at, piece) in pieces {
            let part = match piece {
                TemplatePiece::Text(text) => {
                    in_path &= !text.contains('?');
                    Some(TemplatePart::Text(kind.text(text)))
                }
                TemplatePiece::Param(name) => Some(TemplatePart::Param(name.to_owned())),
                TemplatePiece::Rest(_) => Some(TemplatePart::Rest(match kind {
                    TemplateKind::Target if in_path => parts.as_mut().map_or(RestForm::Whole, lead),
                    TemplateKind::Target => RestForm::Query,
                    TemplateKind::Field => RestForm::Bare,
                })),
                TemplatePiece::Segments(source) => {
                    filter(at, source).map(|filter| TemplatePart::Segments(filter, called(source)))
                }
                TemplatePiece::Jq(source) => filter(at, source).map(|filter| TemplatePart::Jq(filter, called(source))),
            };
            parts = parts.zip(part).map(|(mut parts, part)| {
                parts.push(part);
                parts
            });
        }
        let (parts, query) = match kind {
            TemplateKind::Target => parameters(parts?),
            TemplateKind::Field => (parts?, Vec::new()),
        };
        Some(Template { parts: parts.into(), query: query.into(), kind })
    }

    /// The parts of a target's path.
    pub fn path(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// The expressions in it.
    pub fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.parts.iter().chain(self.query.iter().flatten()).filter_map(|part| match part {
            TemplatePart::Jq(filter, _) | TemplatePart::Segments(filter, _) => Some(filter),
            _ => None,
        })
    }

    /// The path and query of a URL. A query parameter with a value that is null or empty is left out.
    ///
    /// # Errors
    /// `Expression` where a value is a list or an object, and in the path also where it is null, empty, or would change
    /// the path's shape; `BadRequest` where the rest of the path would.
    pub fn target(&self, source: &impl TemplateSource) -> Result<String, Error> {
        let mut out = String::new();
        for part in &self.parts {
            match self.append(part, source, &mut out)? {
                ValueKind::Text => {}
                ValueKind::Null => return Err(not_text(part.name(), &jq::null())),
                ValueKind::Empty => {
                    let detail = format!("{} is empty where a path segment is needed", part.name());
                    return Err(Error::new(Kind::Expression, detail));
                }
            }
        }
        if !matches!(&*self.parts, [] | [TemplatePart::Text(_)]) {
            dots::check(&out).map_err(|wrong| Error::new(Kind::Expression, wrong))?;
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
    pub fn field(&self, source: &impl TemplateSource) -> Result<Option<String>, Error> {
        let mut out = String::new();
        let filled = self.fill(&self.parts, source, &mut out)?;
        // Space around a value is not part of it (RFC 9110, 5.5).
        Ok((filled && !out.trim_ascii().is_empty()).then_some(out))
    }

    /// Writes the parts. False where a value is null, and where there are values and all are empty: then nothing was
    /// meant to be sent.
    fn fill(&self, parts: &[TemplatePart], source: &impl TemplateSource, out: &mut String) -> Result<bool, Error> {
        let (mut values, mut empty) = (0, 0);
        for part in parts.iter() {
            values += usize::from(!matches!(part, TemplatePart::Text(_)));
            match self.append(part, source, out)? {
                ValueKind::Text => {}
                ValueKind::Empty => empty += 1,
                ValueKind::Null => return Ok(false),
            }
        }
        Ok(values == 0 || empty < values)
    }

    /// Writes one part, and says what its value was.
    fn append(&self, part: &TemplatePart, source: &impl TemplateSource, out: &mut String) -> Result<ValueKind, Error> {
        match part {
            TemplatePart::Text(text) => {
                out.push_str(text);
                Ok(ValueKind::Text)
            }
            TemplatePart::Param(name) => Ok(self.write(source.param(name).unwrap_or_default(), out)),
            TemplatePart::Rest(form) => append_rest(source.rest(), *form, out),
            TemplatePart::Segments(filter, name) => append_segments(&source.evaluate(filter)?.into_value(), name, out),
            TemplatePart::Jq(filter, name) => {
                let value = source.evaluate(filter)?;
                match text(&value) {
                    Some(text) => Ok(self.write(&text, out)),
                    None if value.is_null() => Ok(ValueKind::Null),
                    None => Err(not_text(name, &value.into_value())),
                }
            }
        }
    }

    fn write(&self, value: &str, out: &mut String) -> ValueKind {
        match self.kind {
            TemplateKind::Field => out.push_str(value),
            TemplateKind::Target => out.extend(utf8_percent_encode(value, RESERVED)),
        }
        if value.is_empty() { ValueKind::Empty } else { ValueKind::Text }
    }
}

/// The kind of a part's value.
enum ValueKind {
    /// Text to be sent.
    Text,
    Empty,
    Null,
}

impl TemplatePart {
    /// The name of the part in failures.
    fn name(&self) -> &str {
        match self {
            TemplatePart::Param(name) => name,
            TemplatePart::Segments(_, name) | TemplatePart::Jq(_, name) => name,
            TemplatePart::Text(_) | TemplatePart::Rest(_) => "the expression",
        }
    }
}

/// Whether the text before `{*word}` ends in the slash that the rest of the path begins with; it is taken away then, as
/// the client decides whether there is one.
fn lead(parts: &mut Vec<TemplatePart>) -> RestForm {
    let Some(TemplatePart::Text(text)) = parts.last_mut() else { return RestForm::Bare };
    if !text.ends_with('/') {
        return RestForm::Bare;
    }
    text.pop();
    if text.is_empty() {
        parts.pop();
    }
    RestForm::Whole
}

fn append_rest(rest: &str, form: RestForm, out: &mut String) -> Result<ValueKind, Error> {
    let bare = rest.strip_prefix('/').unwrap_or(rest);
    if form == RestForm::Query {
        let value: Vec<u8> = percent_decode_str(bare).collect();
        out.extend(percent_encode(&value, QUERY));
        return Ok(if bare.is_empty() { ValueKind::Empty } else { ValueKind::Text });
    }
    dots::check(rest).map_err(|wrong| Error::new(Kind::BadRequest, wrong))?;
    out.push_str(if form == RestForm::Whole { rest } else { bare });
    Ok(ValueKind::Text)
}

/// A path as it stands in a URL, or a list of its segments.
fn append_segments(value: &Value, name: &str, out: &mut String) -> Result<ValueKind, Error> {
    let Shape::List(segments) = value::shape(value) else {
        let path = scalar(value).ok_or_else(|| not_text(name, value))?;
        out.push_str(&escape(&path, PATH));
        return Ok(ValueKind::Text);
    };
    for (at, segment) in segments.iter().enumerate() {
        let segment = scalar(segment).filter(|segment| !segment.is_empty());
        let unfit = || Error::new(Kind::Expression, "a segment of the path is empty or not a text");
        out.push_str(if at > 0 { "/" } else { "" });
        out.extend(utf8_percent_encode(&segment.ok_or_else(unfit)?, RESERVED));
    }
    Ok(ValueKind::Text)
}

/// Encodes the characters in `set`, and each `%` that encodes nothing; encoded ones stay so.
fn escape(text: &str, set: &'static AsciiSet) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, piece) in text.split('%').enumerate() {
        let encodes = piece.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
        out.push_str(match at {
            0 => "",
            _ if encodes => "%",
            _ => "%25",
        });
        out.extend(utf8_percent_encode(piece, set));
    }
    out
}

/// The path of a target, and the parameters of its query.
fn parameters(parts: Vec<TemplatePart>) -> (Vec<TemplatePart>, Vec<Vec<TemplatePart>>) {
    let mut path = Vec::new();
    let mut query: Vec<Vec<TemplatePart>> = Vec::new();
    for part in parts {
        let mut rest = match part {
            TemplatePart::Text(text) => text,
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
                query.last_mut().unwrap_or(&mut path).push(TemplatePart::Text(text));
            }
            let Some(next) = next else { break };
            query.push(Vec::new());
            rest = next;
        }
    }
    (path, query)
}

/// The same of data: what stands there as it is meant needs no value.
fn text(data: &Data) -> Option<Cow<'_, str>> {
    match data {
        Data::Json(raw) => match plain(raw.bytes()) {
            Some(text) => Some(text.into()),
            None => scalar(&raw.value()).map(Cow::Owned),
        },
        Data::Value(value) => scalar(value).map(Cow::Owned),
    }
}

/// The text of a string without escapes, or of a whole number that a machine has.
fn plain(json: &[u8]) -> Option<&str> {
    let text = match json.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) {
        Some(text) => Some(text).filter(|text| memchr::memchr(b'\\', text).is_none()),
        None => Some(json).filter(|json| json.len() <= 18 && json.iter().all(u8::is_ascii_digit)),
    };
    std::str::from_utf8(text?).ok()
}

/// The text of a string, number or boolean.
pub fn scalar(value: &Value) -> Option<String> {
    match jq::kind(value) {
        "string" => jq::as_str(value).map(str::to_owned),
        "number" | "boolean" => Some(match value::shape(value) {
            Shape::Integer(number) => number.to_string(),
            _ => value.to_string(),
        }),
        _ => None,
    }
}

fn not_text(name: &str, value: &Value) -> Error {
    let kind = match jq::kind(value) {
        "null" => "null".to_owned(),
        kind if kind.starts_with(['a', 'o']) => format!("an {kind}"),
        kind => format!("a {kind}"),
    };
    let detail = format!("{name} is {kind}: a URL or header takes a string, a number or a boolean");
    Error::new(Kind::Expression, detail)
}

/// Where the first `%` stands that encodes nothing.
pub fn bare_percent(path: &str) -> Option<usize> {
    let encodes =
        |at: usize| path.as_bytes().get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    memchr::memchr_iter(b'%', path.as_bytes()).find(|at| !encodes(*at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::problem::Span;
    use crate::config::spec::TextRun;

    struct Fixed(&'static str);

    impl TemplateSource for Fixed {
        fn param(&self, _: &str) -> Option<&str> {
            Some(self.0)
        }
        fn rest(&self) -> &str {
            self.0
        }
        fn evaluate(&self, filter: &Filter) -> Result<Data, Error> {
            Ok(filter.run_one(jq::string(self.0), &mut |_| jq::null())?.unwrap_or_else(jq::null).into())
        }
    }

    fn written(template: &str) -> Located<String> {
        Located::new(template.to_owned(), Span::default())
    }

    fn render(template: &str, value: &'static str) -> Result<String, Error> {
        rendered(template, TemplateKind::Target, value)
    }

    fn rendered(template: &str, kind: TemplateKind, value: &'static str) -> Result<String, Error> {
        let written = written(template);
        let pieces = split(&written).expect("braces match");
        let template = Template::compile(pieces, kind, |_, source| Filter::compile(source, &[]).ok());
        let template = template.expect("good expressions");
        match kind {
            TemplateKind::Target => template.target(&Fixed(value)),
            TemplateKind::Field => template.field(&Fixed(value)).map(Option::unwrap_or_default),
        }
    }

    #[test]
    fn braces_in_strings_and_objects_do_not_end_an_expression() {
        let template = written(r#"/a/{id}?x={$query["}"] // {a: 1}.a}&{*rest}{*.a}"#);
        let pieces = split(&template).expect("braces match");
        assert_eq!(pieces[1], (4, TemplatePiece::Param("id")));
        assert_eq!(pieces[3].1, TemplatePiece::Jq(r#"$query["}"] // {a: 1}.a"#));
        assert_eq!(pieces[5], (38, TemplatePiece::Rest("rest")));
        assert_eq!(pieces[6], (45, TemplatePiece::Segments(".a")));
        assert_eq!(split(&written("/a/{b")).unwrap_err(), 3);
        assert_eq!(split(&written("/a}")).unwrap_err(), 2);
    }

    #[test]
    fn what_was_inserted_is_text() {
        let name = |inserted: bool| inserted.then(|| "NAME".into());
        let run = |(offset, inserted)| TextRun { offset, line: 1, column: 1, written: 0, inserted: name(inserted) };
        let inserted = |template: &str, from, to| {
            let runs = [(0, false), (from, true), (to, false)].map(run);
            Located { runs: Some(runs.into_iter().collect()), ..written(template) }
        };
        let template = inserted("/a/{id}é%/{id}", 3, 10);
        let pieces = split(&template).expect("braces match");
        assert_eq!(pieces, [(0, TemplatePiece::Text("/a/{id}é%/")), (12, TemplatePiece::Param("id"))]);
        let rendered = Template::compile(pieces, TemplateKind::Target, |_, _| None).expect("no expressions");
        assert_eq!(rendered.target(&Fixed("7")).expect("renders"), "/a/%7Bid%7D%C3%A9%25/7");
        assert_eq!(
            split(&inserted("/{id}", 2, 4)),
            Ok(vec![(0, TemplatePiece::Text("/")), (2, TemplatePiece::Jq("id"))])
        );
        assert_eq!(
            split(&inserted("/{*id}", 3, 5)),
            Ok(vec![(0, TemplatePiece::Text("/")), (3, TemplatePiece::Segments("id"))])
        );
    }

    #[test]
    fn a_value_stays_one_segment_or_one_query_value() {
        assert_eq!(
            render("/c/{x}/d?q={x}", "a/b?c#d e&f=%2f\r\n@\\").expect("renders"),
            "/c/a%2Fb%3Fc%23d%20e%26f%3D%252f%0D%0A%40%5C/d?q=a%2Fb%3Fc%23d%20e%26f%3D%252f%0D%0A%40%5C"
        );
        assert_eq!(render("/c?q={x}", "Lund,SE").expect("renders"), "/c?q=Lund%2CSE");
    }

    #[test]
    fn the_rest_of_the_path_is_as_it_came() {
        for (template, rest, wanted) in [
            ("/f/{*x}", "/a/b%20c%2fD;@,+:%41", "/f/a/b%20c%2fD;@,+:%41"),
            ("/f/{*x}", "//a//", "/f//a//"),
            ("/f/{*x}", "/", "/f/"),
            ("/f/{*x}", "", "/f"),
            ("/{*x}", "", ""),
            ("/{*x}?a=1", "", "?a=1"),
            ("/{*x}/end", "/a", "/a/end"),
            ("/f-{*x}", "/a/b", "/f-a/b"),
            ("/f?q={*x}", "/a/b%20c&d=+%2f", "/f?q=a/b%20c%26d%3D%2B/"),
        ] {
            assert_eq!(render(template, rest).expect("renders"), wanted, "{template} {rest}");
        }
        assert_eq!(rendered("<{*x}>", TemplateKind::Field, "/a%20/b").expect("renders"), "<a%20/b>");
    }

    #[test]
    fn an_expression_may_give_several_segments() {
        for (template, value, wanted) in [
            (r#"/v2/{*sub("^v1/"; "")}"#, "v1/a/b%2fc;@,+:%41", "/v2/a/b%2fc;@,+:%41"),
            ("/{*.}", "a b/\u{e9}?#\\\"<>^`/%zz%/100%", "/a%20b/%C3%A9%3F%23%5C%22%3C%3E%5E%60/%25zz%25/100%25"),
            (r#"/{*split(",")}/z"#, "a/b,c%2fd", "/a%2Fb/c%252fd/z"),
            ("/{*.}", "", "/"),
            ("/{*(length)}", "abc", "/3"),
        ] {
            assert_eq!(render(template, value).expect("renders"), wanted, "{template} {value}");
        }
        for template in
            ["/{*(null)}", "/{*{}}", r#"/{*["a", ""]}"#, r#"/{*["a", null]}"#, r#"/{*"a/../b"}"#, r#"/{*["..", "b"]}"#]
        {
            assert!(render(template, "").is_err(), "{template}");
        }
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
        for value in ["/a/../../b", "/a/%2e%2e/b", "/a/%2E%2e%2Fb", "/..%5cb"] {
            let error = render("/f/{*x}", value).expect_err(value);
            assert_eq!(error.kind(), Kind::BadRequest, "{value:?}");
        }
        assert!(render("/a/{x}", "../b").is_err());
        assert!(render("/a/.{x}", ".").is_err());
        assert_eq!(render("/c?q={x}", "..").expect("a query has no segments"), "/c?q=..");
    }
}
