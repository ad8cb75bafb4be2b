//! What `select` keeps of an item, compiled once.

use super::expression::jq;
use super::faults::Faults;
use crate::error::Error;
use crate::problem::{Problems, Span};
use crate::spec::{Decode, Node};
use crate::steps::select::Select;

/// The fields that are wanted, in the shape that is written, compiled once: keep it and clone it where a pipeline is put
/// together for each request.
///
/// ```
/// use crocodile_pear::{Client, select};
/// use serde_json::json;
///
/// let client = Client::new();
/// let short = select(json!({"id": true, "title": ".name", "due": ".dueOn[:10]"}))?;
/// for page in 1..=3 {
///     let cases = client.request([format!("http://127.0.0.1:9000/cases?page={page}")]).select(short.clone());
///     # cases.check()?;
/// }
/// assert!(select(json!({"id": ".cases["})).is_err());
/// # Ok::<(), crocodile_pear::Faults>(())
/// ```
///
/// # Errors
/// What is wrong in the shape, or in its expressions.
pub fn select(shape: serde_json::Value) -> Result<Select, Faults> {
    let mut problems = Problems::default();
    let Some(select) = decode(&shape, &mut problems) else { return Err(Faults::of(problems)) };
    select.kept(jq).map_err(|error: Error| {
        problems.error::<()>(Span::default(), error.detail().to_owned(), "");
        Faults::of(problems)
    })
}

/// A shape as it is written, or [`select()`].
pub trait IntoSelect {
    /// The step; nothing where the shape means nothing, with what is wrong in it.
    fn into_select(self, problems: &mut Problems) -> Option<Select>;
}

impl IntoSelect for Select {
    fn into_select(self, _: &mut Problems) -> Option<Select> {
        Some(self)
    }
}

impl IntoSelect for serde_json::Value {
    fn into_select(self, problems: &mut Problems) -> Option<Select> {
        decode(&self, problems)
    }
}

fn decode(shape: &serde_json::Value, problems: &mut Problems) -> Option<Select> {
    Select::decode(&Node::from_json(shape), problems)
}
