//! Lines in the operator's own format: text with expressions in braces.

use crocodile_pear::unstable::config::spec::Located;
use crocodile_pear::unstable::jq::{self, Filter};
use crocodile_pear::unstable::json::value::{Shape, shape};
use crocodile_pear::unstable::template::{self, TemplatePart, scalar};

use super::entry::{AccessLogEntry, VARIABLES};
use super::escape;
use crate::layer::Compile;

/// A compiled template.
pub struct Template(template::Template);

/// Checks what is written.
pub fn compile(written: &Located<String>, cx: &mut Compile<'_>) -> Option<Template> {
    let trimmed = Located { value: written.value.trim_end().to_owned(), ..written.clone() };
    cx.template(&trimmed, &VARIABLES).map(Template)
}

impl Template {
    /// Writes a line, without its end. The results of expressions are escaped as in nginx. A list or an object is
    /// written as JSON. A missing value or a failed expression is written as `-`.
    pub fn write(&self, entry: &AccessLogEntry<'_>, line: &mut Vec<u8>) {
        for part in self.0.path() {
            match part {
                TemplatePart::Text(text) => line.extend_from_slice(text.as_bytes()),
                TemplatePart::Jq(filter, _) | TemplatePart::Segments(filter, _) => value(filter, entry, line),
                // The document has no path parameters.
                TemplatePart::Param(_) | TemplatePart::Rest(_) => line.push(b'-'),
            }
        }
    }
}

fn value(filter: &Filter, entry: &AccessLogEntry<'_>, line: &mut Vec<u8>) {
    let value = filter.run_one(jq::null(), &mut |name| entry.variable(name)).ok().flatten().unwrap_or_else(jq::null);
    match (shape(&value), scalar(&value)) {
        (Shape::List(_) | Shape::Object(_), _) => json(&value.to_string(), line),
        (_, Some(text)) if !text.is_empty() => escape::nginx(text.as_bytes(), line),
        _ => line.push(b'-'),
    }
}

/// Writes JSON as it is, except for characters that JSON allows but a terminal should not get.
fn json(text: &str, line: &mut Vec<u8>) {
    line.extend(text.bytes().filter(|byte| !byte.is_ascii_control()));
}
