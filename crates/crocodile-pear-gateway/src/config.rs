//! The configuration as text, from `crocodile-pear-spec`: read from its files into one tree, with every problem reported.
//! This crate adds `unique_json`: JSON from outside that names each key once.

pub(crate) mod unique_json;

pub use crocodile_pear_spec::document::{Colour, ProblemFormat, Source, Sources, load, mended, parse, read, report};
pub(crate) use crocodile_pear_spec::visible;
