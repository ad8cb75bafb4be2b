//! The functions that expressions may call: those of jq, except the ones that access the machine or have no bound.

pub mod format;
mod lists;
mod math;
mod regex;
mod text;
mod time;
mod values;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::jq::eval::code::{Form, Named, Native};
use crate::jq::syntax::ast::Definition;
use crate::jq::syntax::parse;

/// Functions that are not available, and why.
pub const REFUSED: &[(&str, &str)] = &[
    ("env", "it reads the gateway's environment"),
    ("localtime", "it reads the machine's time zone"),
    ("strflocaltime", "it reads the machine's time zone"),
    ("input", "there is one input only, `.`"),
    ("inputs", "there is one input only, `.`"),
    ("debug", "expressions do not write to the gateway's log"),
    ("stderr", "expressions do not write to the gateway's log"),
    ("halt", "it would stop the gateway"),
    ("halt_error", "it would stop the gateway"),
    ("input_filename", "the input is not a file"),
    ("input_line_number", "the input is not a file"),
    ("modulemeta", "expressions cannot load modules"),
    ("get_search_list", "expressions cannot load modules"),
    ("get_prog_origin", "expressions cannot load modules"),
    ("get_jq_origin", "expressions cannot load modules"),
    ("jn", "its work has no limit"),
    ("yn", "its work has no limit"),
];

/// Functions that run their arguments themselves.
const FORMS: &[(&str, usize, Form)] = &[
    ("empty", 0, Form::Empty),
    ("error", 0, Form::Error),
    ("error", 1, Form::Error),
    ("path", 1, Form::Path),
    ("getpath", 1, Form::GetPath),
    ("first", 1, Form::First),
    ("last", 1, Form::Last),
    ("limit", 2, Form::Limit),
    ("skip", 2, Form::Skip),
    ("until", 2, Form::Until),
    ("while", 2, Form::While),
    ("repeat", 1, Form::Repeat),
    ("recurse", 1, Form::Recurse),
    ("range", 2, Form::Range),
    ("sort_by", 1, Form::SortBy),
    ("group_by", 1, Form::GroupBy),
    ("unique_by", 1, Form::UniqueBy),
    ("min_by", 1, Form::MinBy),
    ("max_by", 1, Form::MaxBy),
    ("walk", 1, Form::Walk),
    ("tostream", 0, Form::ToStream),
    ("builtins", 0, Form::Builtins),
];

/// Words of the grammar that jq lists as functions.
const WORDS: &[(&str, usize)] = &[("select", 1), ("recurse", 0), ("null", 0), ("true", 0), ("false", 0)];

/// Functions that are written in jq itself.
const DEFINITIONS: &str = include_str!("library/definitions.jq");

fn natives() -> &'static HashMap<(&'static str, usize), Native> {
    static NATIVES: OnceLock<HashMap<(&'static str, usize), Native>> = OnceLock::new();
    NATIVES.get_or_init(|| {
        let parts: [&[Named]; 7] = [
            values::NATIVES,
            lists::NATIVES,
            text::NATIVES,
            format::NATIVES,
            math::NATIVES,
            regex::NATIVES,
            time::NATIVES,
        ];
        parts.into_iter().flatten().copied().collect()
    })
}

fn definitions() -> &'static [Definition<'static>] {
    static PARSED: OnceLock<Vec<Definition<'static>>> = OnceLock::new();
    PARSED.get_or_init(|| parse::definitions(DEFINITIONS).expect("our own definitions parse"))
}

/// A function of values.
pub fn native(name: &str, arity: usize) -> Option<Native> {
    natives().get(&(name, arity)).copied()
}

/// A function that runs its arguments itself.
pub fn form(name: &str, arity: usize) -> Option<Form> {
    FORMS.iter().find(|(known, n, _)| *known == name && *n == arity).map(|(_, _, form)| *form)
}

/// A function that is written in jq.
pub fn definition(name: &str, arity: usize) -> Option<&'static Definition<'static>> {
    definitions().iter().find(|definition| definition.name == name && definition.parameters.len() == arity)
}

/// Whether a name is an internal helper of the library.
pub fn is_ours(name: &str) -> bool {
    name != "_strindices" && natives().keys().any(|(known, _)| *known == name)
}

/// Every function that may be called, with the number of its arguments.
pub fn functions() -> impl Iterator<Item = (&'static str, usize)> {
    let forms = FORMS.iter().map(|(name, arity, _)| (*name, *arity));
    let written = definitions().iter().map(|definition| (definition.name, definition.parameters.len()));
    let named = natives().keys().copied().chain(written);
    forms.chain(WORDS.iter().copied()).chain(named).filter(|(name, _)| !name.starts_with('_'))
}

/// All functions, sorted, in the form of `builtins`.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = functions().map(|(name, arity)| format!("{name}/{arity}")).collect();
    names.sort_unstable();
    names.dedup();
    names
}
