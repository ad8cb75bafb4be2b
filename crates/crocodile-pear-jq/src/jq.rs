//! Expressions in jq, with the behaviour of jq 1.8.
//!
//! Every expression ends. The compiler rejects recursive definitions, and every evaluation has a budget of work and
//! memory (`jq/value/budget.rs`).
//!
//! The source becomes tokens (`lex`), a term (`parse`) and code with its names resolved (`resolve`). `run` runs the
//! code.

mod compile;
mod eval;
mod part;
mod read;
mod syntax;
mod value;

#[doc(inline)]
pub use crate::json::Data;
/// The inputs and outputs of expressions.
pub use crate::json::value::{Value, as_str, kind, list, null, object, string};
pub use compile::filter::Filter;
pub use part::Read;
pub use syntax::compile_error::Fault;
pub use syntax::foreign_syntax::assignment;
pub use value::closure::Closure;

/// The parts of jq that are rejected, and why.
pub fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    compile::library::REFUSED.iter().copied()
}

/// Whether jq has a function of this name and number of arguments.
pub fn is_function(name: &str, arguments: usize) -> bool {
    compile::library::functions().any(|known| known == (name, arguments))
}

/// All names after a `$`. Whether these variables exist is not checked.
pub fn variables(source: &str) -> Vec<&str> {
    let word = |rest: &'_ str| rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let names = source.match_indices('$').map(|(at, _)| {
        let rest = &source[at + 1..];
        &rest[..word(rest)]
    });
    let mut names: Vec<&str> = names.filter(|name| !name.is_empty() && *name != "__loc__" && *name != "ENV").collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod tests;
