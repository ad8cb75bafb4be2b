//! The fields that `select` keeps of an item, compiled once.

use super::expression::jq;
use super::faults::Faults;
use crate::config::problem::Problems;
use crate::config::spec::{Decode, Node};
use crate::error::Error;
use crate::pipeline::steps::select::Select;

/// Compiles the shape of [`Pipeline::select`](crate::Pipeline::select). Where a pipeline is put together for each request,
/// keep it and clone it.
///
/// ```
/// use crocodile_pear::{Client, select};
/// use serde_json::json;
///
/// let client = Client::new();
/// let short = select(json!({"id": true, "title": ".name", "due": ".dueOn[:10]"}))?;
/// for page in 1..=3 {
///     let cases = client.request([format!("http://127.0.0.1:9000/cases?page={page}")]);
///     let cases = cases.select(short.clone());
///     # cases.check()?;
/// }
/// assert!(select(json!({"id": ".cases["})).is_err());
/// # Ok::<(), crocodile_pear::Faults>(())
/// ```
///
/// # Errors
/// The mistakes in the shape, or in its expressions.
pub fn select(shape: serde_json::Value) -> Result<Select, Faults> {
    let kept = decode(&shape)?.kept(|source| jq(source).map(|expression| expression.0));
    kept.map_err(|error: Error| Faults::one(error.detail()))
}

/// A shape as JSON, or one that [`select()`] has compiled.
///
/// ```
/// use crocodile_pear::{Client, select};
/// use serde_json::json;
///
/// let user = || Client::new().request(["http://127.0.0.1:9000/users/7"]);
/// let once = user().select(json!({"id": true}));
/// let often = user().select(select(json!({"id": true}))?);
/// # once.check()?;
/// # often.check()?;
/// # Ok::<(), crocodile_pear::Faults>(())
/// ```
pub trait IntoSelect {
    /// The step.
    ///
    /// # Errors
    /// The mistakes in the shape.
    fn into_select(self) -> Result<Select, Faults>;
}

impl IntoSelect for Select {
    fn into_select(self) -> Result<Select, Faults> {
        Ok(self)
    }
}

impl IntoSelect for serde_json::Value {
    fn into_select(self) -> Result<Select, Faults> {
        decode(&self)
    }
}

fn decode(shape: &serde_json::Value) -> Result<Select, Faults> {
    let mut problems = Problems::default();
    Select::decode(&Node::from_json(shape), &mut problems).ok_or_else(|| Faults::from_problems(problems))
}
