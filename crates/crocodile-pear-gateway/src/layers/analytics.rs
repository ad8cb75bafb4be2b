//! `analytics`: who called which endpoint, with which result, and what caches saved clients; kept in files.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crocodile_pear::problem::Problems;
use crocodile_pear::spec;
use crocodile_pear::spec::{Expression, Field, Located, Size, only};
use crocodile_pear::threads;

use crate::analytics::{self, Finished, OTHER, Settings, Subject};
use crate::counted::{By, Key};
use crate::layer::{Around, Compile, Ended, Layer, Spec};
use crate::server::Ending;

spec! {
    /// Figures for each endpoint, and for each consumer if that is asked, over minutes, hours and days: requests, errors, durations, bytes,
    /// calls to upstreams, and the requests and bytes that clients were spared because one answer stood for several. They survive a
    /// restart; operators read them at `/analytics` of `admin`. Written short as the folder.
    pub struct Analytics {
        /// The folder of the files. It is made if it is not there. Each gateway needs its own.
        pub folder: Located<String>,
        /// The most bytes of all files. Half of it is for minutes, three eighths for hours, one eighth for days; the oldest go first. With 20
        /// endpoints that are called in every minute, 64 MiB are ten days of minutes and a year of hours.
        pub size: Located<Size> = Located::new(SIZE, Default::default()),
        /// The expression that names the consumer of a request: `$claims.sub`. Requests for which it is null, and all requests unless it is
        /// set, are counted for their endpoint only.
        pub by: Option<Expression>,
        /// So many consumers of an endpoint have figures of their own in each minute, those with the most requests. The others are counted
        /// together as `other`.
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
    type Ready = Counting;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "analytics",
        "Figures for each endpoint and consumer over minutes, hours and days, kept in files. Off by default.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Counting>> {
        let by = match &self.by {
            None => Some(None),
            written => By::compile(written.as_ref(), cx).map(|by| Some(Arc::new(by))),
        };
        if self.size.value.0 < LEAST {
            let remedy = "write at least `1 MiB`; `64 MiB` is the default";
            return cx.problems.error(self.size.span, "`size` is too small to keep a day", remedy);
        }
        let (by, analytics) = (by?, cx.analytics.clone()?);
        let folder = (cx.paths)(&self.folder);
        cx.tasks.push(analytics.keep(Settings { folder, size: self.size.value.0, top: self.top.get() }));
        Some(Arc::new(Counting { analytics, by, route: 0 }))
    }

    fn around(ready: &Arc<Counting>, at: &Around<'_>) -> Option<Arc<dyn Layer>> {
        let Counting { analytics, by, .. } = &**ready;
        let route = analytics.route(at.route.map_or("", |route| route));
        Some(Arc::new(Counting { analytics: analytics.clone(), by: by.clone(), route }))
    }
}

/// Counts the requests of an endpoint.
pub struct Counting {
    analytics: Arc<analytics::Analytics>,
    by: Option<Arc<By>>,
    route: u32,
}

impl Layer for Counting {
    fn watches(&self) -> bool {
        true
    }

    fn ended(&self, ended: &Ended<'_>) {
        let Ended { scope, end, .. } = ended;
        let totals = scope.record().map(|record| record.totals()).unwrap_or_default();
        let finished = Finished {
            status: ended.code(),
            broken: matches!(end.how, Ending::Failed(_)),
            duration: ended.total,
            sent: end.bytes,
            parts: totals.answers,
            calls: totals.calls,
            received: totals.bytes,
        };
        let subject = match self.by.as_ref().map(|by| by.key(scope)) {
            None | Some(Key::None | Key::Everyone | Key::Address(None)) => Subject::route(self.route),
            Some(Key::Address(Some(address))) => Subject::consumer(self.route, address.to_string()),
            Some(Key::Text(name)) => Subject::consumer(self.route, name),
            Some(Key::Failed) => Subject::consumer(self.route, OTHER.to_owned()),
        };
        self.analytics.count(threads::index(), subject, &finished);
    }

    fn outline(&self) -> Option<String> {
        Some("is counted in the analytics".to_owned())
    }
}
