//! Reads what answers cost, for the limits that are charged when an answer has ended.

use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Node};
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use http::Response;

use crate::layer::usage_limits::{Charges, meter};
use crate::layer::{Compile, Layer, LayerPosition, Passage, Spec};

/// Comes with the `cost` of a limit; it has no field of its own.
#[derive(Clone, Debug)]
pub struct Metering;

impl Decode for Metering {
    fn decode(_: &Node, _: &mut Problems) -> Option<Self> {
        Some(Metering)
    }

    fn schema(_: &mut Definitions) -> Json {
        serde_json::json!({})
    }
}

/// The layer.
pub struct Meter;

impl Spec for Metering {
    type Ready = Meter;

    fn unwritten() -> Option<Self> {
        Some(Metering)
    }

    fn compile(&self, _: &mut Compile<'_>) -> Option<Arc<Meter>> {
        Some(Arc::new(Meter))
    }

    fn around(ready: &Arc<Meter>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        at.metered.then(|| ready.clone() as Arc<dyn Layer>)
    }
}

impl Layer for Meter {
    fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, scope: &'a Arc<Scope>) -> Passage<'a> {
        if let Some(charges) = scope.extensions().get::<Charges>() {
            meter(response, scope, charges.clone());
        }
        Passage::Done
    }
}
