//! The step of CONTRIBUTING, compiled and tried as the file of a step that it would be.

#![allow(missing_docs, reason = "only tests see it")]
#![allow(clippy::disallowed_methods, reason = "a worked example reads as it would in its place")]

// What the step names as `crate::…`.
use crocodile_pear::unstable::{config, message, pipeline, request};

#[path = "../../../docs/steps/first.rs"]
mod first;

use config::problem::Problems;
use config::spec::{Decode, Definitions, Node};

#[test]
fn the_step_reads_what_contributing_says() {
    let mut problems = Problems::default();
    assert!(first::First::decode(&Node::from_json(&serde_json::json!(3)), &mut problems).is_some());
    assert!(first::First::decode(&Node::from_json(&serde_json::json!(0)), &mut problems).is_none());
    assert!(first::First::schema(&mut Definitions::default())["description"].is_string());
}
