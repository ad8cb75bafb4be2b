//! A line of the operator's own: text with expressions in braces.

use crocodile_pear::jq::{self, Filter};
use crocodile_pear::json::value::{Shape, shape};
use crocodile_pear::spec::Located;
use crocodile_pear::template::{self, Part, scalar};

use super::entry::{Entry, VARIABLES};
use super::escape;
use crate::layer::Compile;

/// A template, compiled.
pub struct Template(template::Template);

/// Checks what is written.
pub fn compile(written: &Located<String>, cx: &mut Compile<'_>) -> Option<Template> {
    let trimmed = Located { value: written.value.trim_end().to_owned(), ..written.clone() };
    cx.template(&trimmed, &VARIABLES).map(Template)
}

impl Template {
    /// Writes a line, without its end. What an expression gives is escaped as nginx does; a list or an object is written as JSON, and what is
    /// not there, or fails, as `-`.
    pub fn write(&self, entry: &Entry<'_>, line: &mut Vec<u8>) {
        for part in self.0.path() {
            match part {
                Part::Text(text) => line.extend_from_slice(text.as_bytes()),
                Part::Jq(filter) | Part::Segments(filter) => value(filter, entry, line),
                // There are no path parameters at the document.
                Part::Param(_) | Part::Rest(_) => line.push(b'-'),
            }
        }
    }
}

fn value(filter: &Filter, entry: &Entry<'_>, line: &mut Vec<u8>) {
    let value = filter.run_one(jq::null(), &mut |name| entry.variable(name)).ok().flatten().unwrap_or_else(jq::null);
    match (shape(&value), scalar(&value)) {
        (Shape::List(_) | Shape::Object(_), _) => json(&value.to_string(), line),
        (_, Some(text)) if !text.is_empty() => escape::nginx(text.as_bytes(), line),
        _ => line.push(b'-'),
    }
}

/// JSON as it is, but for the characters that it may have and a terminal should not.
fn json(text: &str, line: &mut Vec<u8>) {
    line.extend(text.bytes().filter(|byte| !byte.is_ascii_control()));
}
