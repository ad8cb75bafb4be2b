//! `analytics`: who called which endpoint, with which result, and what caches saved clients; kept in files.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{ExpressionSpec, Field, Located, Size, only};
use crocodile_pear::unstable::runtime::thread_id;
use crocodile_pear::unstable::spec;

use crate::layer::limit_key::{By, LimitKey};
use crate::layer::{Compile, Layer, LayerPosition, Spec};
use crate::runtime::tasks::Work;
use crate::telemetry::analytics::{self, AnalyticsSettings, OTHER, Subject};
use crate::telemetry::request_end::RequestEnd;

spec! {
    /// Statistics per endpoint, and per consumer if `by` is set, over minutes, hours and days: requests, errors,
    /// durations, bytes, calls to upstreams, and how many requests and bytes clients saved because one answer
    /// replaced several. They survive a restart. Operators read them at `/analytics` of `admin`. Short form: the
    /// folder.
    pub struct Analytics {
        /// The folder for the files. The gateway creates it if it does not exist. Each gateway needs its own.
        pub folder: Located<String>,
        /// The maximum size of all files. Half is for minutes, three eighths for hours, one eighth for days; the
        /// oldest are removed first. With 20 endpoints that are called in every minute, 64 MiB hold ten days of
        /// minutes and a year of hours.
        pub size: Located<Size> = Located::new(SIZE, Default::default()),
        /// The expression that names the consumer of a request: `$claims.sub`. A request whose value is null is
        /// counted for its endpoint only. Default: no consumers.
        pub by: Option<ExpressionSpec>,
        /// How many consumers per endpoint have their own statistics in each minute: those with the most requests.
        /// All others are counted together as `other`.
        pub top: NonZeroUsize = TOP,
    }
    short(folder)
}

const SIZE: Size = Size(64 << 20);

const TOP: NonZeroUsize = NonZeroUsize::new(100).expect("it is not zero");

/// A smaller archive cannot hold a day.
const LEAST: u64 = 1 << 20;

fn folder(text: Located<String>, problems: &mut Problems) -> Option<Analytics> {
    only([("folder", text)], problems)
}

impl Spec for Analytics {
    type Ready = AnalyticsCounter;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "analytics",
        "Statistics per endpoint and consumer over minutes, hours and days, stored in files. Off by default.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<AnalyticsCounter>> {
        let by = match &self.by {
            None => Some(None),
            written => By::exact(written.as_ref(), cx).map(|by| Some(Arc::new(by))),
        };
        if self.size.value.0 < LEAST {
            let remedy = "write at least `1 MiB`; `64 MiB` is the default";
            return cx.problems.error(self.size.span, "`size` is too small to keep a day", remedy);
        }
        let (by, analytics) = (by?, cx.services.persistent.analytics.clone());
        let folder = (cx.services.paths)(&self.folder);
        let keeping = analytics.keep(AnalyticsSettings { folder, size: self.size.value.0, top: self.top.get() });
        cx.works.push(Arc::new(Work::new(keeping)));
        Some(Arc::new(AnalyticsCounter { analytics, by, route: 0 }))
    }

    fn around(ready: &Arc<AnalyticsCounter>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        let AnalyticsCounter { analytics, by, .. } = &**ready;
        let route = analytics.route(at.route.map_or("", |route| route));
        Some(Arc::new(AnalyticsCounter { analytics: analytics.clone(), by: by.clone(), route }))
    }
}

/// Counts the requests of an endpoint.
pub struct AnalyticsCounter {
    analytics: Arc<analytics::Statistics>,
    by: Option<Arc<By>>,
    route: u32,
}

impl Layer for AnalyticsCounter {
    fn watches(&self) -> bool {
        true
    }

    fn ended(&self, ended: &RequestEnd<'_>) {
        let scope = ended.scope;
        let calls = scope.record().map(|record| record.totals()).unwrap_or_default();
        let subject = match self.by.as_ref().map(|by| by.key(scope)) {
            None | Some(LimitKey::None | LimitKey::Missing | LimitKey::Everyone | LimitKey::Address(None)) => {
                Subject::route(self.route)
            }
            Some(LimitKey::Address(Some(address))) => Subject::consumer(self.route, address.to_string()),
            Some(LimitKey::Text(name)) => Subject::consumer(self.route, name),
            Some(LimitKey::Unknown) => Subject::consumer(self.route, "unknown".to_owned()),
            Some(LimitKey::Failed) => Subject::consumer(self.route, OTHER.to_owned()),
        };
        self.analytics.count(thread_id::index(), subject, ended, &calls);
    }

    fn outline(&self) -> Option<String> {
        Some("is counted in the analytics".to_owned())
    }
}
