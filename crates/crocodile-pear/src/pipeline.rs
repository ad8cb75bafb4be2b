//! Pipelines: steps in order, from calls to one answer.
//!
//! - `flow`: producers, which start when they are asked. `step`: the contract of a step.
//! - `call`: what the steps share that call upstreams and databases. `steps`: the steps, one file each.
//! - `plan`: steps in order, compiled and run.
//!
//! Uses all floors but `client`. Begin at `plan`, then `step`, then one file of `steps`.
//!
//! Invariants: no step knows another; nothing runs before the last step is asked; an item is handed on as soon as it is whole.
//! Bounds: `limit` and `concurrency` of each step that makes items; 1,024 items under way otherwise.

pub(crate) mod call;
pub mod flow;
pub mod plan;
pub mod step;
#[warn(missing_docs)]
pub mod steps;
