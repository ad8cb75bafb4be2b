//! Steps that only Rust programs have: a configuration cannot name them.

use std::fmt;
use std::sync::Arc;

use crate::pipeline::step::{Compile, ReadyStep};

/// Compiles the step, once its place in the pipeline is known.
type StepCompiler = dyn Fn(&mut Compile<'_>) -> Arc<dyn ReadyStep> + Send + Sync;

/// A step of a Rust program.
#[derive(Clone)]
pub struct Own(Arc<StepCompiler>);

impl Own {
    /// The step that `make` gives.
    pub fn new(make: impl Fn(&mut Compile<'_>) -> Arc<dyn ReadyStep> + Send + Sync + 'static) -> Self {
        Own(Arc::new(make))
    }

    pub(super) fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        Some((self.0)(cx))
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Own")
    }
}
