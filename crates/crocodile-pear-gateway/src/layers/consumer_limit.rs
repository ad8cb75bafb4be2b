//! The limits of `rate_limit` that use `$claims`. They are checked where the consumer is known.

use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Node};

use crate::layer::{Compile, Layer, LayerPosition, Spec};

/// Comes from `rate_limit`; it has no field of its own.
#[derive(Clone, Debug)]
pub struct ConsumerLimits;

impl Decode for ConsumerLimits {
    fn decode(_: &Node, _: &mut Problems) -> Option<Self> {
        Some(ConsumerLimits)
    }

    fn schema(_: &mut Definitions) -> Json {
        serde_json::json!({})
    }
}

/// The place of this layer in the order.
pub struct ConsumerPlace;

impl Spec for ConsumerLimits {
    type Ready = ConsumerPlace;

    fn unwritten() -> Option<Self> {
        Some(ConsumerLimits)
    }

    fn compile(&self, _: &mut Compile<'_>) -> Option<Arc<ConsumerPlace>> {
        Some(Arc::new(ConsumerPlace))
    }

    fn around(_: &Arc<ConsumerPlace>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        at.for_consumers.take()
    }
}
