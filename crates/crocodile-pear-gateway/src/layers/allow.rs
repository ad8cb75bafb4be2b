//! `allow`: an expression that decides what clients may do. If it is false, the answer is 403.

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, ExpressionSpec, Field, Json, Node};
use crocodile_pear::unstable::jq::{self, Data, Filter};
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;
use http::StatusCode;

use crate::http::response;
use crate::layer::{Compile, Layer, LayerPosition, Spec, Verdict};

/// A condition that must be true of a request.
#[derive(Clone, Debug)]
pub struct Allow(ExpressionSpec);

impl Decode for Allow {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        ExpressionSpec::decode(node, problems).map(Allow)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        ExpressionSpec::schema(definitions)
    }
}

impl Spec for Allow {
    type Ready = AllowRule;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "allow",
        "A condition that requests must meet: an expression with `$method`, `$host`, `$path`, `$query`, `$headers`, \
             `$claims`, `$client`, `$route` and `$id`. If it gives false, null or nothing, or fails, the client gets 403.",
    ));

    const AT_ENDPOINT: Option<Field> = Some(Field::new(
        "allow",
        "A condition that requests to it must meet. Overrides the top-level setting; `off` for none.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<AllowRule>> {
        let filter = cx.condition(&self.0, &[])?;
        let written = self.0.0.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Some(Arc::new(AllowRule { filter, written, limiter: LogLimiter::every(OFTEN) }))
    }

    fn around(ready: &Arc<AllowRule>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        at.dependence.add_reads(ready.filter.reads());
        Some(ready.clone())
    }
}

/// At most one warning in this time: an expression that fails may fail for every request.
const OFTEN: Duration = Duration::from_secs(1);

/// Lets a request pass if the expression is true for it.
pub struct AllowRule {
    filter: Filter,
    written: String,
    limiter: LogLimiter,
}

impl Layer for AllowRule {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        let told = self.filter.run_one(jq::null(), &mut |name| scope.variable(name, &None));
        match told {
            Ok(Some(value)) if Data::Value(value.clone()).holds() => return Verdict::Pass,
            Ok(_) => {}
            Err(error) if self.limiter.allows() => {
                tracing::warn!(%error, id = scope.facts().id(), "request refused with 403: the expression of `allow` failed");
            }
            Err(_) => {}
        }
        Verdict::Answer(response::refuse(StatusCode::FORBIDDEN, "the client is not allowed to do this"))
    }

    fn outline(&self) -> Option<String> {
        Some(format!("answers with 403 unless {}", self.written))
    }
}
