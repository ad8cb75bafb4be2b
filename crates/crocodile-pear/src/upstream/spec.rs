//! An upstream as written.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Uri};

use super::{BalanceSpec, BreakerSpec, HealthSpec, RetrySpec, Settings, Timeouts, Upstream, may_send};
use crate::problem::{Problems, Span};
use crate::spec;
use crate::spec::{Decode, Located, Node, NodeKind, Timeout, defaults};

spec! {
    /// Where an API is, and what may be sent to it. Written short as the URL alone.
    pub struct UpstreamSpec {
        /// Scheme, host, port and the path that stands before every call's own: `http://127.0.0.1:8000/api`.
        pub url: Option<Located<String>>,
        /// Instead of `url`: several servers of the same API.
        pub urls: Option<Vec<Located<String>>>,
        /// Instead of `urls`: the same with weights.
        pub endpoints: Option<Vec<LocationSpec>>,
        /// How long a call may take: a time for the whole of it (`2s`), or a time for each phase.
        pub timeout: Option<TimeoutSpec>,
        /// The client's header fields that are sent on. No other leaves.
        pub forward: Vec<Located<String>> = Vec::new(),
        /// At most this many calls at once, over all cores; one more waits as long as it may wait for a connection,
        /// and then fails with 503.
        pub in_flight: Option<NonZeroUsize>,
        /// How long a connection is kept without a call.
        pub keep: Duration = Duration::from_secs(30),
        /// When a request is sent again. With several endpoints it is, as the defaults say, unless this says
        /// otherwise; with one only if this is written.
        pub retry: Option<RetrySpec>,
        /// When an endpoint that fails is no longer called. There is no breaker unless this is written.
        pub breaker: Option<BreakerSpec>,
        /// How calls are spread over several endpoints.
        pub balance: BalanceSpec = defaults(),
        /// How endpoints are asked whether they are well. They are not unless this is written.
        pub health: Option<HealthSpec>,
    }
    short(short)
}

fn short(url: Located<String>, _: &mut Problems) -> Option<UpstreamSpec> {
    Some(UpstreamSpec { url: Some(url), ..defaults() })
}

spec! {
    /// One of several servers. Written short as the URL alone.
    pub struct LocationSpec {
        /// As the `url` of an upstream.
        pub url: Located<String>,
        /// How much it takes beside the others, up to 100.
        pub weight: NonZeroU32 = NonZeroU32::MIN,
    }
    short(location)
}

fn location(url: Located<String>, _: &mut Problems) -> Option<LocationSpec> {
    Some(LocationSpec { url, weight: NonZeroU32::MIN })
}

spec! {
    /// How long the phases of a call may take. Time in which the client does not read is not counted.
    /// Written short as one time for the whole call.
    pub struct TimeoutSpec {
        /// Until there is a connection; 3s unless set.
        pub connect: Option<Timeout>,
        /// Until the head of the answer is there, from when the request was sent; 30s unless set.
        pub first_byte: Option<Timeout>,
        /// Between two pieces of the body; 30s unless set.
        pub idle: Option<Timeout>,
        /// The whole call; 5m unless set.
        pub call: Option<Timeout>,
    }
    short(whole)
}

fn whole(text: Located<String>, problems: &mut Problems) -> Option<TimeoutSpec> {
    let kind = NodeKind::Scalar { text: text.value, quoted: false, runs: text.runs };
    let call = Timeout::decode(&Node { span: text.span, kind }, problems)?;
    Some(TimeoutSpec { connect: None, first_byte: None, idle: None, call: Some(call) })
}

impl TimeoutSpec {
    /// These times, and `others` where none is written.
    pub fn over(&self, others: &Timeouts) -> Timeouts {
        Timeouts {
            connect: self.connect.unwrap_or(others.connect),
            first_byte: self.first_byte.unwrap_or(others.first_byte),
            idle: self.idle.unwrap_or(others.idle),
            call: self.call.unwrap_or(others.call),
        }
    }
}

impl UpstreamSpec {
    /// Makes it ready; every problem is noted. `span` is where its name stands.
    pub fn compile(&self, name: &str, span: Span, problems: &mut Problems) -> Option<Arc<Upstream>> {
        let endpoints = self.locations(name, span, problems);
        let forward = forward(&self.forward, problems);
        let health = self.health.as_ref().map_or(Some(()), |health| health.check(problems));
        let timeouts = self.timeout.as_ref().map(|spec| spec.over(&Timeouts::default())).unwrap_or_default();
        let (endpoints, forward) = (endpoints?, forward?);
        health?;
        let settings = Settings {
            timeouts,
            forward,
            in_flight: self.in_flight.map(NonZeroUsize::get),
            idle: self.keep,
            retry: self.retry.clone(),
            breaker: self.breaker.clone(),
            balance: self.balance.clone(),
            health: self.health.clone(),
            ..Settings::new(name, endpoints.first()?.0.clone())
        };
        match Upstream::new(Settings { endpoints, ..settings }) {
            Ok(upstream) => Some(upstream),
            Err(error) => problems.error(span, error.detail().to_owned(), ""),
        }
    }

    /// Every address with its weight.
    fn locations(&self, name: &str, span: Span, problems: &mut Problems) -> Option<Vec<(Uri, u32)>> {
        let plain = |url: &Located<String>| LocationSpec { url: url.clone(), weight: NonZeroU32::MIN };
        let written = match (&self.url, &self.urls, &self.endpoints) {
            (Some(url), None, None) => vec![plain(url)],
            (None, Some(urls), None) => urls.iter().map(plain).collect(),
            (None, None, Some(endpoints)) => endpoints.clone(),
            (None, None, None) => Vec::new(),
            _ => {
                let message = format!("`{name}` has its URLs in more than one place");
                return problems.error(span, message, "keep one of `url`, `urls` and `endpoints`");
            }
        };
        if written.is_empty() {
            return problems.error(span, format!("`{name}` has no URL"), "add `url: http://host:port/path`");
        }
        let location = |written: &LocationSpec| {
            let weight = written.weight.get();
            if weight > MOST_WEIGHT {
                let message = format!("the weight {weight} is more than {MOST_WEIGHT}");
                problems.error::<()>(written.url.span, message, "weights count beside each other: make all smaller");
            }
            url(&written.url, problems).map(|url| (url, weight)).filter(|_| weight <= MOST_WEIGHT)
        };
        // All are read before one that failed ends it, so that every problem is found.
        let locations: Vec<_> = written.iter().map(location).collect();
        locations.into_iter().collect()
    }
}

/// The turns of all endpoints are written down once; a hundred is finer than anyone can tell.
const MOST_WEIGHT: u32 = 100;

fn url(written: &Located<String>, problems: &mut Problems) -> Option<Uri> {
    let wrong = |message: &str, remedy: &str, problems: &mut Problems| {
        problems.error(written.span, message.to_owned(), remedy.to_owned())
    };
    if problems.found_within(written.span) {
        return None;
    }
    let remedy = match written.value.contains("${") {
        true => "a variable is named with capitals, digits and `_`: `${HOST}`",
        false => "write it as `http://host:port/path`",
    };
    let Ok(uri) = written.value.parse::<Uri>() else { return wrong("this is no URL", remedy, problems) };
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return wrong(
                "TLS to upstreams is not built yet",
                "write `http://`, or let a local proxy speak TLS",
                problems,
            );
        }
        Some(_) => return wrong("only http URLs can be called", remedy, problems),
        None => return wrong("the URL has no scheme", remedy, problems),
    }
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            wrong("a URL in a configuration holds no credentials", "send them as a header of the call", problems)
        }
        Some(authority) if authority.host().is_empty() => wrong("the URL has no host", remedy, problems),
        Some(authority) if authority.as_str().len() > authority.host().len() && authority.port_u16().is_none() => {
            wrong("the URL's port is no number up to 65535", remedy, problems)
        }
        _ if uri.query().is_some() => {
            wrong("an upstream's URL has no query", "put it into the path of the call", problems)
        }
        Some(_) => Some(uri),
        None => wrong("the URL has no host", remedy, problems),
    }
}

fn forward(written: &[Located<String>], problems: &mut Problems) -> Option<Vec<HeaderName>> {
    let name = |written: &Located<String>| {
        let name = HeaderName::from_bytes(written.value.as_bytes()).ok().filter(may_send);
        if name.is_none() {
            let remedy = "names are of letters, digits and `-`; framing and hop-by-hop fields are never sent on";
            problems.error::<()>(written.span, format!("`{written}` cannot be forwarded"), remedy);
        }
        name
    };
    let names: Vec<Option<HeaderName>> = written.iter().map(name).collect();
    names.into_iter().collect()
}
