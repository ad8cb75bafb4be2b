//! From the text of an expression to a tree.
//!
//! - `lex` makes tokens, `parse` the tree of `ast`.
//! - `foreign_syntax`: what people write who come from JavaScript or Python, each with a remedy.
//! - `compile_error`: what is wrong, with its place. `read_fields`: the fields of its input that an expression reads.
//!
//! Uses no other part of `jq`. Begin at `parse`.
//!
//! Bounds: the depth of the tree is limited while it is parsed.

pub(crate) mod ast;
pub(crate) mod compile_error;
pub(crate) mod foreign_syntax;
pub(crate) mod lex;
pub(crate) mod parse;
pub(crate) mod read_fields;
