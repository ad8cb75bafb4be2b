//! JSON as bytes and as values: that of `crocodile-pear-jq`, and `ordered`, values by name in their order.

pub(crate) mod ordered;

pub use crocodile_pear_jq::json::*;
