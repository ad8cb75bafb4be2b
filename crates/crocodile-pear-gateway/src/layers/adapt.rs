//! Changes requests of older versions into requests of the newest version.

use std::sync::Arc;

use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::spec;

use crate::http::response;
use crate::http::version::Adapting;
use crate::layer::{Compile, Layer, LayerPosition, Spec, Verdict};

spec! {
    /// The changes for older versions. They are written in the versions.
    pub struct Adapt {}
}

impl Spec for Adapt {
    type Ready = Self;

    fn unwritten() -> Option<Self> {
        Some(Adapt {})
    }

    fn compile(&self, _: &mut Compile<'_>) -> Option<Arc<Self>> {
        Some(Arc::new(Adapt {}))
    }

    fn around(_: &Arc<Self>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        at.adapting.map(|adapting| Arc::new(RequestAdapter(adapting.clone())) as Arc<dyn Layer>)
    }
}

// The spec has no settings of its own.
struct RequestAdapter(Arc<Adapting>);

impl Layer for RequestAdapter {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        if !self.0.reads_body() {
            return match self.0.change_query(scope) {
                Ok(()) => Verdict::Pass,
                Err(error) => Verdict::Answer(response::fail(&error)),
            };
        }
        let adapting = self.0.clone();
        Verdict::Wait(Box::pin(async move { adapting.apply(scope).await.err().map(|error| response::fail(&error)) }))
    }

    fn outline(&self) -> Option<String> {
        let has = |what: &str, has: bool| has.then(|| what.to_owned());
        let query = self.0.changes.iter().any(|change| change.query.is_some());
        let parts: Vec<String> =
            [has("query", query), has("body", self.0.reads_body())].into_iter().flatten().collect();
        Some(format!("gives the request the {} of the newer version", parts.join(" and the ")))
    }
}
