//! Expressions in jq, or closures instead, from `crocodile-pear-jq`.

pub use crocodile_pear_jq::{
    Closure, Data, Fault, Filter, Read, Value, as_str, assignment, is_function, kind, list, null, object, refused,
    string, variables,
};
