//! Expressions: jq, as jq 1.8 has it.
//!
//! Every expression ends: recursive definitions are refused when it is compiled, and what it does is counted against a
//! budget of work and of memory when it is run (`jq/budget.rs`).
//!
//! Source becomes tokens (`lex`), a term (`parse`), code with its names resolved (`resolve`), and that is run (`run`).

mod arithmetic;
mod bounded;
mod budget;
mod closure;
mod code;
mod compile;
mod fault;
mod filter;
mod form;
mod habit;
mod item;
mod lex;
mod library;
mod machine;
mod native;
mod parse;
mod paths;
mod refusal;
mod resolve;
mod run;
mod taken;
mod term;

#[doc(inline)]
pub use crate::json::Data;
/// What expressions take and give.
pub use crate::json::value::{Value, as_str, kind, list, null, object, string};
pub use closure::Closure;
pub use filter::Filter;
pub(crate) use habit::assignment;
pub use refusal::Fault;

/// What of jq is refused, and why.
pub fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    library::REFUSED.iter().copied()
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod tests;
