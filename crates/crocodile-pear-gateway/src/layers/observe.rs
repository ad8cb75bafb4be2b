//! What operators learn of every request: a count of its answer, and a line of the access log at its end.

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::error::Error;
use crocodile_pear::flow::Body;
use crocodile_pear::scope::Scope;
use crocodile_pear::spec;
use crocodile_pear::spec::Field;
use http::{Response, StatusCode};

use crate::layer::{Around, Compile, Ended, Layer, Passage, Spec};
use crate::metrics::Metrics;
use crate::server::Ending;

pub use crate::log::Log;

/// What a client that left before its answer is logged with, as nginx does.
const CLIENT_CLOSED_REQUEST: u16 = 499;

impl Spec for Log {
    type Ready = Observe;

    const AT_DOCUMENT: Option<Field> = Some(Field::new("log", "What is logged, and how."));

    fn unwritten() -> Option<Self> {
        Some(spec::defaults())
    }

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Observe>> {
        Some(Arc::new(Observe { metrics: cx.metrics.clone(), access: self.access, route: None }))
    }

    fn around(ready: &Arc<Observe>, at: &Around<'_>) -> Option<Arc<dyn Layer>> {
        let (metrics, access) = (ready.metrics.clone(), ready.access);
        Some(Arc::new(Observe { metrics, access, route: at.route.cloned() }))
    }
}

/// What observes the requests of an endpoint.
pub struct Observe {
    metrics: Arc<Metrics>,
    access: bool,
    route: Option<Arc<str>>,
}

impl Layer for Observe {
    fn answer<'a>(&'a self, response: &'a mut Response<Body>, _: &'a Arc<Scope>) -> Passage<'a> {
        self.metrics.count(response.status());
        Passage::Done
    }

    fn watches(&self) -> bool {
        self.access
    }

    fn ended(&self, ended: &Ended<'_>) {
        let Ended { scope, status, head, end } = ended;
        // A request that could not be read has neither.
        let path = scope.path();
        let method = path.map(|_| scope.method().as_str());
        let (how, error) = told(&end.how);
        tracing::info!(
            target: "crocodile_pear::access",
            id = scope.facts().id(),
            client = scope.facts().client().map(|client| tracing::field::display(client.address.ip().to_canonical())),
            method,
            path,
            route = self.route.as_deref(),
            status = status.map_or(CLIENT_CLOSED_REQUEST, |status: StatusCode| status.as_u16()),
            bytes = end.bytes,
            head_ms = head.map(milliseconds),
            total_ms = milliseconds(scope.timeline().elapsed()),
            ended = how,
            error = error.map(tracing::field::display),
        );
    }

    fn outline(&self) -> Option<String> {
        self.access.then(|| "writes a line of the access log".to_owned())
    }
}

fn told(how: &Ending) -> (&'static str, Option<&Error>) {
    match how {
        Ending::Whole => ("whole", None),
        Ending::Failed(error) => ("failed", Some(error)),
        Ending::ClientGone => ("client-gone", None),
        Ending::ClientSlow => ("client-slow", None),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}
