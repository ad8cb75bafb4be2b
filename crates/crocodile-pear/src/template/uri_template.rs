//! URI templates (RFC 6570), all four levels: a link with variables becomes a URL.

mod values;

use std::ops::Range;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};

use self::values::TemplateValue;
use crate::error::{Error, Kind};
use crate::jq::Value;
use crate::json::value::as_object;
use crate::template::check_path;

/// The longest URL that a template may give: more than any server accepts.
const LENGTH: usize = 64 << 10;

/// The characters that must be encoded in a value: all but the unreserved (RFC 3986, 2.3).
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The characters that must be encoded in a literal: neither reserved nor unreserved, and no `%`.
const LITERAL: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

/// Whether a link has to be expanded.
pub fn is_template(link: &str) -> bool {
    memchr::memchr2(b'{', b'}', link.as_bytes()).is_some()
}

/// The variables of a template, each once, in their order; `None` for a text that is none.
pub fn variables(template: &str) -> Option<Vec<String>> {
    let (mut found, mut rest) = (Vec::<String>::new(), template);
    while let Some(at) = memchr::memchr2(b'{', b'}', rest.as_bytes()) {
        let (expression, after) = rest[at..].strip_prefix('{')?.split_once('}')?;
        for written in Operator::parse(expression)?.1.split(',') {
            let name = Variable::parse(written)?.name;
            if !found.iter().any(|known| known == name) {
                found.push(name.to_owned());
            }
        }
        rest = after;
    }
    Some(found)
}

/// The URL that a template gives with these variables, the fields of an object. Those that it has not, or that are
/// null, vanish.
///
/// # Errors
/// `Unusable` for a text that is not a template, `Expression` for a value that no URL takes, or that would lead to
/// another path.
pub fn expand(template: &str, variables: &Value) -> Result<String, Error> {
    let wrong = || Error::new(Kind::Unusable, "a link in the answer is not a URI template");
    let mut made = ExpandedUrl::default();
    let mut rest = template;
    while let Some(at) = memchr::memchr2(b'{', b'}', rest.as_bytes()) {
        made.text.extend(utf8_percent_encode(&rest[..at], LITERAL));
        let (expression, after) =
            rest[at..].strip_prefix('{').and_then(|rest| rest.split_once('}')).ok_or_else(wrong)?;
        let (operator, names) = Operator::parse(expression).ok_or_else(wrong)?;
        let start = made.text.len();
        let mut begun = false;
        for written in names.split(',') {
            let variable = Variable::parse(written).ok_or_else(wrong)?;
            let found = as_object(variables).and_then(|fields| fields.get(&crate::jq::string(variable.name)));
            let Some(given) = found.map(|value| values::given(variable.name, value)).transpose()?.flatten() else {
                continue;
            };
            made.text.push_str(if begun { operator.between } else { operator.first });
            begun = true;
            operator.write(&variable, &given, &mut made.text).ok_or_else(wrong)?;
            if made.text.len() > LENGTH {
                return Err(Error::new(Kind::Expression, "the URL that a template gives is too long"));
            }
        }
        made.values.push(start..made.text.len());
        rest = after;
    }
    made.text.extend(utf8_percent_encode(rest, LITERAL));
    made.check()?;
    Ok(made.text)
}

/// A URL, and where values stand in it.
#[derive(Default)]
struct ExpandedUrl {
    text: String,
    values: Vec<Range<usize>>,
}

impl ExpandedUrl {
    /// Refuses values that would climb out of the place where they stand: `..` as a segment, in any form.
    fn check(&self) -> Result<(), Error> {
        let path = &self.text[..self.text.find(['?', '#']).unwrap_or(self.text.len())];
        let mut start = 0;
        for segment in path.split('/') {
            let end = start + segment.len();
            let touched = |value: &Range<usize>| value.start < value.end && value.start <= end && value.end >= start;
            if self.values.iter().any(touched) {
                check_path(segment).map_err(|_| {
                    Error::new(Kind::Expression, "a value in the URL of a link would lead to another path")
                })?;
            }
            start = end + 1;
        }
        Ok(())
    }
}

/// How an expression of a template is written out (RFC 6570, appendix A).
struct Operator {
    first: &'static str,
    between: &'static str,
    /// Whether values have their names.
    named: bool,
    /// Follows a name whose value is empty.
    empty: &'static str,
    /// Whether reserved characters stay as they are.
    reserved: bool,
}

impl Operator {
    /// The operator of an expression, and its variables.
    fn parse(expression: &str) -> Option<(Self, &str)> {
        let operator = |first, between, named, empty, reserved| Operator { first, between, named, empty, reserved };
        let (operator, names) = match (expression.as_bytes().first()?, &expression[expression.len().min(1)..]) {
            (b'+', rest) => (operator("", ",", false, "", true), rest),
            (b'#', rest) => (operator("#", ",", false, "", true), rest),
            (b'.', rest) => (operator(".", ".", false, "", false), rest),
            (b'/', rest) => (operator("/", "/", false, "", false), rest),
            (b';', rest) => (operator(";", ";", true, "", false), rest),
            (b'?', rest) => (operator("?", "&", true, "=", false), rest),
            (b'&', rest) => (operator("&", "&", true, "=", false), rest),
            _ => (operator("", ",", false, "", false), expression),
        };
        Some((operator, names))
    }

    /// Writes one variable; `None` where a prefix is asked of a list (RFC 6570, 2.4.1).
    fn write(&self, variable: &Variable<'_>, given: &TemplateValue, out: &mut String) -> Option<()> {
        match given {
            TemplateValue::Text(text) => {
                let end =
                    variable.prefix.and_then(|most| text.char_indices().nth(most)).map_or(text.len(), |(at, _)| at);
                self.pair(variable.name, &text[..end], out);
            }
            _ if variable.prefix.is_some() => return None,
            TemplateValue::List(items) if variable.exploded => {
                self.all(items, out, |item, out| self.pair(variable.name, item, out));
            }
            TemplateValue::Pairs(pairs) if variable.exploded => self.all(pairs, out, |(name, value), out| {
                self.value(name, out);
                // A pair has its sign also where it has no value, but for parameters of a path.
                out.push_str(if value.is_empty() && self.named { self.empty } else { "=" });
                self.value(value, out);
            }),
            TemplateValue::List(items) => {
                self.name(variable.name, out);
                join(items, out, |item, out| self.value(item, out));
            }
            TemplateValue::Pairs(pairs) => {
                self.name(variable.name, out);
                join(pairs, out, |(name, value), out| {
                    self.value(name, out);
                    out.push(',');
                    self.value(value, out);
                });
            }
        }
        Some(())
    }

    fn all<T>(&self, items: &[T], out: &mut String, write: impl Fn(&T, &mut String)) {
        for (at, item) in items.iter().enumerate() {
            out.push_str(if at > 0 { self.between } else { "" });
            write(item, out);
        }
    }

    fn name(&self, name: &str, out: &mut String) {
        if self.named {
            out.push_str(name);
            out.push('=');
        }
    }

    fn pair(&self, name: &str, value: &str, out: &mut String) {
        if self.named {
            out.push_str(name);
            out.push_str(if value.is_empty() { self.empty } else { "=" });
        }
        self.value(value, out);
    }

    fn value(&self, value: &str, out: &mut String) {
        if self.reserved {
            reserved(value, out);
        } else {
            out.extend(utf8_percent_encode(value, VALUE));
        }
    }
}

fn join<T>(items: &[T], out: &mut String, write: impl Fn(&T, &mut String)) {
    for (at, item) in items.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        write(item, out);
    }
}

/// A value whose reserved characters and encoded bytes stay (RFC 6570, 3.2.3).
fn reserved(value: &str, out: &mut String) {
    let digit = |at: usize| value.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    for (at, c) in value.char_indices() {
        match c {
            '%' if digit(at + 1) && digit(at + 2) => out.push('%'),
            '%' => out.push_str("%25"),
            c => out.extend(percent_encode(c.encode_utf8(&mut [0; 4]).as_bytes(), LITERAL)),
        }
    }
}

/// A variable as a template names it.
struct Variable<'a> {
    name: &'a str,
    exploded: bool,
    /// The most characters of its value.
    prefix: Option<usize>,
}

impl<'a> Variable<'a> {
    fn parse(written: &'a str) -> Option<Self> {
        let (name, exploded) = written.strip_suffix('*').map_or((written, false), |name| (name, true));
        let (name, prefix) = match name.split_once(':') {
            Some((name, digits)) if !exploded => (name, Some(prefix(digits)?)),
            Some(_) => return None,
            None => (name, None),
        };
        is_name(name).then_some(Variable { name, exploded, prefix })
    }
}

/// From 1 to 9999 characters.
fn prefix(digits: &str) -> Option<usize> {
    let sound =
        (1..=4).contains(&digits.len()) && !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    sound.then(|| digits.parse().ok()).flatten()
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let fits = |(at, byte): (usize, &u8)| match byte {
        b'%' => digit(at + 1) && digit(at + 2),
        b'.' => at > 0 && at + 1 < bytes.len() && bytes[at - 1] != b'.',
        byte => byte.is_ascii_alphanumeric() || *byte == b'_',
    };
    !bytes.is_empty() && bytes.iter().enumerate().all(fits)
}

#[cfg(test)]
mod tests;
