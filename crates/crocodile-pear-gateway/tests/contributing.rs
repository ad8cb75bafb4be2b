//! The layer of CONTRIBUTING, compiled and tried as the file of a layer that it would be.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

// What the layer names as `crate::…`.
use crocodile_pear_gateway::http;
use crocodile_pear_gateway::layer;

#[path = "../../../docs/layers/maintenance.rs"]
mod maintenance;

use ::http::{HeaderMap, Method};
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Node};
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear_gateway::layer::stack::{LayerPass, Stack};
use crocodile_pear_gateway::layer::unshared::Unshared;
use crocodile_pear_gateway::shared::persistent_state::PersistentState;
use layer::{Compile, CompileServices, LayerPosition, Spec};
use maintenance::Maintenance;

#[tokio::test]
async fn the_layer_does_what_contributing_says() {
    let mut problems = Problems::default();
    let written = Maintenance::decode(&Node::from_json(&"10m".into()), &mut problems).unwrap();
    let (files, paths, persistent) =
        (|_: &_| Err(String::new()), |_: &_| Default::default(), PersistentState::default());
    let services = CompileServices::new(&files, &paths, &persistent);
    let mut cx = Compile::at("", &services, &mut problems);
    let ready = written.compile(&mut cx).unwrap();
    let mut stack = Stack::default();
    let around = Maintenance::around(&ready, &mut LayerPosition::nothing());
    stack.push("maintenance", around.unwrap());
    let told: Vec<_> = stack.outline().collect();
    assert_eq!(told, [("maintenance", "answers every request with 503, to be tried again after 600 s".to_owned())]);

    let stack = Arc::new(stack);
    let scope = Scope::new(Method::GET, None, HeaderMap::new(), AnswerBody::empty());
    let (visit, response) = LayerPass::enter(&stack, Unshared::new(scope)).await;
    let reply = visit.finish_response(response.unwrap()).await;
    assert_eq!(reply.response.status(), 503);
    assert!(reply.observer.is_none());
}

#[test]
fn the_layer_reads_what_contributing_says() {
    let mut problems = Problems::default();
    assert!(Maintenance::decode(&Node::from_json(&"soon".into()), &mut problems).is_none());
    assert!(problems.fatal());
    assert_eq!(Maintenance::AT_DOCUMENT.unwrap().name, "maintenance");
}
