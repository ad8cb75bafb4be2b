//! JSON as bytes and as values, from `crocodile-pear-jq`. This crate adds `ordered`: values by name, in their order.

pub(crate) mod ordered;

pub use crocodile_pear_jq::json::*;
