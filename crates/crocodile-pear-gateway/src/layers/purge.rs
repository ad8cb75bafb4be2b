//! `purge`: accepts requests with the method `PURGE`, as other caches do, from allowed addresses.

use std::sync::Arc;

use crocodile_pear::unstable::cache::{Purge, PurgeMode, Store};
use crocodile_pear::unstable::config::spec::{Field, Located};
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::spec;
use http::StatusCode;
use serde_json::json;

use crate::http::response;
use crate::layer::{Compile, Layer, LayerPosition, Spec, Verdict};
use crate::net::cidr::Network;
use crate::shared::purge::ModeSpec;
use crate::telemetry::metrics::{Metrics, RefusedBy};

spec! {
    /// A `PURGE` request purges the cached answers for its path and query: those of endpoints, and those of upstreams
    /// with the same path and query. It needs no credentials.
    pub struct PurgeSpec {
        /// The networks (`10.0.0.0/8`) and addresses that may purge. A `PURGE` request from any other address gets
        /// 403.
        pub from: Located<Vec<Located<Network>>>,
        /// The effect on purged answers.
        pub mode: ModeSpec = ModeSpec::Soft,
    }
}

impl Spec for PurgeSpec {
    type Ready = Purger;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "purge",
        "Who may purge the cached answers of a URL with a `PURGE` request for it. Default: nobody.",
    ));

    const AT_ENDPOINT: Option<Field> = Some(Field::new(
        "purge",
        "Who may purge its cached answers with `PURGE`. Overrides the top-level setting; `off` for nobody.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Purger>> {
        if self.from.value.is_empty() {
            let remedy = "name one, as `10.0.0.0/8`, or leave `purge` out";
            return cx.problems.error(self.from.span, "this list has no network", remedy);
        }
        let from = self.from.value.iter().map(|network| network.value).collect();
        Some(Arc::new(Purger {
            from,
            mode: self.mode.mode(),
            cache: cx.services.persistent.cache.clone(),
            metrics: cx.metrics(),
        }))
    }

    fn around(ready: &Arc<Purger>, _: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        Some(ready.clone())
    }
}

/// Answers `PURGE`.
pub struct Purger {
    from: Vec<Network>,
    mode: PurgeMode,
    cache: Arc<Store>,
    metrics: Arc<Metrics>,
}

impl Layer for Purger {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        if scope.method().as_str() != "PURGE" {
            return Verdict::Pass;
        }
        let client = scope.facts().client().map(|client| client.address);
        if !client.is_some_and(|client| self.from.iter().any(|network| network.contains(client))) {
            self.metrics.count_refused(RefusedBy::Purge);
            return Verdict::Answer(response::refuse(StatusCode::FORBIDDEN, "this address may not purge"));
        }
        let target = scope.target().map_or("/", |target| target.as_str());
        let purge = Purge::Url(target.to_owned());
        Verdict::Wait(Box::pin(async move {
            let purged = self.cache.count_in_turns(&purge).await;
            self.cache.purge(&purge, self.mode);
            Some(response::json(&json!({ "purged": purged })))
        }))
    }

    fn answers_purges(&self) -> bool {
        true
    }

    fn outline(&self) -> Option<String> {
        let names: Vec<String> = self.from.iter().map(ToString::to_string).collect();
        Some(format!("purges by `PURGE` from {}", names.join(", ")))
    }
}
