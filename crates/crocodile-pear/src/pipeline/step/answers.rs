//! `$answer` and `$answers`: what calls answered, as expressions see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, StatusCode};

use crate::error::Error;
use crate::jq::{self, Data, Value};
use crate::json::value::number;
use crate::message::answer::Answer;
use crate::message::names::{NamedResults, Names};
use crate::request::context::header_value;
use crate::request::fetch_memo::Fetched;

/// `$answer`: the answer of the call that the item came from.
pub const ANSWER: &str = "answer";

/// `$answers`: the answer of each named call.
pub const ANSWERS: &str = "answers";

/// Whether an expression of the pipeline asks for either. Known when all steps are compiled; until then steps hold it.
#[derive(Clone, Default)]
pub struct AnswersUsed(Arc<AtomicBool>);

impl AnswersUsed {
    /// An expression does.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Adds to the names of an item what its call answered, if anybody asks. A call without an answer has the status that
    /// its failure is told with.
    pub fn note(&self, names: &mut Names, called: &Result<Answer, Error>) {
        if self.0.load(Ordering::Relaxed) {
            let facts = match called {
                Ok(answer) => facts(answer.status, &answer.headers),
                Err(error) => failed(error),
            };
            set(names, ANSWER, facts);
        }
    }

    /// The same of an answer that was read.
    pub fn note_document(&self, names: &mut Names, fetched: &Fetched) {
        if self.0.load(Ordering::Relaxed) {
            let facts = match fetched {
                Ok(document) => facts(document.status, &document.headers),
                Err(error) => failed(error),
            };
            set(names, ANSWER, facts);
        }
    }

    /// The same of several calls whose answers are one list.
    pub fn note_list(&self, names: &mut Names, facts: Vec<Value>) {
        if self.0.load(Ordering::Relaxed) {
            set(names, ANSWER, jq::list(facts));
        }
    }

    /// The same of a call that was not made.
    pub fn note_nothing(&self, names: &mut Names) {
        if self.0.load(Ordering::Relaxed) {
            set(names, ANSWER, jq::null());
        }
    }
}

/// `{status, headers}`
pub fn facts(status: StatusCode, headers: &HeaderMap) -> Value {
    jq::object([("status", number(status.as_str())), ("headers", header_value(headers))])
}

/// The same for a call without an answer.
pub fn failed(error: &Error) -> Value {
    facts(error.status(), &HeaderMap::new())
}

/// `$answer` of an item, if it was noted.
pub fn of(names: &Names) -> Option<&Data> {
    let values = names.iter().flat_map(|names| names.values.iter());
    values.filter(|(name, _)| **name == *ANSWER).map(|(_, value)| value).next()
}

/// `$answers`, of the calls by their names.
pub fn gather(calls: Vec<(Arc<str>, Data)>) -> (Arc<str>, Data) {
    let calls = calls.into_iter().map(|(name, answer)| (name, answer.into_value()));
    (ANSWERS.into(), jq::object(calls).into())
}

fn set(names: &mut Names, name: &str, value: Value) {
    let mut known: NamedResults = names.as_deref().cloned().unwrap_or_default();
    known.values.retain(|(other, _)| **other != *name);
    known.values.push((name.into(), value.into()));
    *names = Some(Arc::new(known));
}

/// The calls whose answers the text of an expression takes out of `$answers`, each with the offset of its name. `None`
/// for a place where the name is not written.
pub fn taken(source: &str) -> Vec<(usize, Option<&str>)> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let places = source.match_indices("$answers").map(|(at, found)| at + found.len());
    let whole = places.filter(|end| !source[*end..].starts_with(word));
    whole.map(|end| key(source, end).map_or((end, None), |(at, name)| (at, Some(name)))).collect()
}

/// The key that a path takes from `at` on: `.name`, `."name"` or `["name"]`.
fn key(source: &str, at: usize) -> Option<(usize, &str)> {
    let rest = &source[at..];
    let open = ["[\"", ".[\"", ".\"", "."].into_iter().find(|open| rest.starts_with(open))?;
    let (start, name) = (at + open.len(), &rest[open.len()..]);
    let end = match open.ends_with('"') {
        true => name.find('"')?,
        false => name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len()),
    };
    (end > 0).then_some((start, &name[..end]))
}

#[cfg(test)]
mod tests {
    use super::super::answers::*;

    #[test]
    fn the_names_of_calls_are_found() {
        let names = |source| taken(source).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names("$answers.user.status == 404 or $answers[\"a b\"].status"), [Some("user"), Some("a b")]);
        assert_eq!(names("$answers.\"x\" , $answers.[\"y\"]"), [Some("x"), Some("y")]);
        assert_eq!(names("$answers | keys, $answers[], $answersx, $answer.status"), [None, None]);
        assert_eq!(taken("1 + $answers.x"), [(13, Some("x"))]);
    }
}
