//! The record of a request: the calls that were made for it, each with its moments.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use tokio::time::Instant;

use crate::error::Kind;
use crate::telemetry::trace::{Trace, span_id};

/// The calls that are kept of a request: more than anybody looks at one by one. Further ones are only counted.
const MOST: usize = 1_024;

/// The calls that were made for one request, in the order in which they began.
pub struct Record {
    began: Instant,
    trace: Option<Trace>,
    /// How a cache served the request itself.
    cache: OnceLock<CacheResult>,
    calls: Mutex<RecordedCalls>,
    /// Whether further calls are only counted.
    full: AtomicBool,
}

#[derive(Default)]
struct RecordedCalls {
    kept: CallRecords,
    /// All of them, kept or not.
    number: u64,
}

/// Mostly there is one call: it needs no list.
#[derive(Default)]
enum CallRecords {
    #[default]
    None,
    One(CallRecord),
    Several(Vec<CallRecord>),
}

impl CallRecords {
    fn add(&mut self, call: CallRecord) {
        match self {
            CallRecords::None => *self = CallRecords::One(call),
            CallRecords::Several(calls) => calls.push(call),
            CallRecords::One(_) => {
                let first = std::mem::take(self);
                let mut calls = Vec::with_capacity(4);
                calls.extend(first.into_one());
                calls.push(call);
                *self = CallRecords::Several(calls);
            }
        }
    }

    fn into_one(self) -> Option<CallRecord> {
        if let CallRecords::One(call) = self { Some(call) } else { None }
    }

    fn all_mut(&mut self) -> &mut [CallRecord] {
        match self {
            CallRecords::None => &mut [],
            CallRecords::One(call) => std::slice::from_mut(call),
            CallRecords::Several(calls) => calls,
        }
    }
}

impl Deref for CallRecords {
    type Target = [CallRecord];

    fn deref(&self) -> &[CallRecord] {
        match self {
            CallRecords::None => &[],
            CallRecords::One(call) => std::slice::from_ref(call),
            CallRecords::Several(calls) => calls,
        }
    }
}

/// A step of a pipeline that makes calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallingStep {
    /// Its place in the pipeline, from 0.
    pub index: u16,
    /// Its name, as in errors: `request`, or `requests.cases`.
    pub name: Box<str>,
    /// Parts of its targets that are not shown.
    pub hidden: Hidden,
}

/// Values of the environment that the targets of calls may have, which may be secrets; each with what is shown instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden(pub Box<[(String, String)]>);

impl Hidden {
    /// The target without them.
    fn shown(&self, target: String) -> String {
        self.0.iter().fold(target, |target, (value, name)| match target.contains(value.as_str()) {
            true => target.replace(value.as_str(), name),
            false => target,
        })
    }
}

/// A call: one request to one server, or an answer from a cache. A retry is a call of its own. All moments are times since the
/// request began.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// The target of the call.
    pub kind: CallKind,
    /// The name of the upstream.
    pub upstream: Arc<str>,
    /// The address of the server, for operators; `None` if the upstream's cache gave the answer.
    pub server: Option<Arc<str>>,
    pub method: Method,
    /// Path and query, as in [`UpstreamCall`](crate::upstream::UpstreamCall).
    pub target: String,
    pub step: Arc<CallingStep>,
    /// 1 for the first attempt, more for retries and hedges.
    pub attempt: u16,
    /// When it began. From here to `connected`, it waited in the queue and for a connection.
    pub began: Duration,
    /// When there was a connection.
    pub connected: Option<Duration>,
    /// How long the phases of connecting took, if a connection was opened for this call alone.
    pub opening: Option<Box<Opening>>,
    /// When the head of the answer was there.
    pub head: Option<Duration>,
    /// When it ended: with the last byte of the answer, with a failure, or because the rest was not needed.
    pub ended: Option<Duration>,
    /// Whether its connection had served other calls before.
    pub reused: bool,
    /// Whether it was cancelled: the client left, or the rest was not needed.
    pub dropped: bool,
    /// The status of the answer.
    pub status: Option<StatusCode>,
    /// Why it failed.
    pub error: Option<Kind>,
    /// How much of the answer's body has come, in bytes.
    pub bytes: u64,
    /// How the upstream's cache served it, if it has one.
    pub cache: Option<CacheResult>,
    /// Whether TLS carried it.
    pub tls: bool,
    /// Its span in the trace of the request; 0 if there is none.
    pub span: u64,
}

/// The target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// A server of HTTP.
    Http,
    /// A database: the target is the statement, without its values.
    Database,
}

/// The times of opening a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Until an address was known.
    pub dns: Duration,
    /// Until the socket was connected.
    pub connect: Duration,
    /// The handshake; zero without TLS.
    pub tls: Duration,
}

/// How the cache of an upstream served a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheResult {
    /// The cache had the answer.
    Hit,
    /// The cache had the answer, and sent it though it was stale.
    Stale,
    /// The upstream was asked.
    Miss,
    /// The server confirmed that the entry is still valid.
    Revalidated,
    /// Another request was fetching it already.
    Collapsed,
}

impl CacheResult {
    /// Whether no call was made for it.
    pub fn is_spared(self) -> bool {
        matches!(self, CacheResult::Hit | CacheResult::Stale | CacheResult::Collapsed)
    }

    /// The word for it in logs.
    pub fn name(self) -> &'static str {
        match self {
            CacheResult::Hit => "hit",
            CacheResult::Stale => "stale",
            CacheResult::Miss => "miss",
            CacheResult::Revalidated => "revalidated",
            CacheResult::Collapsed => "collapsed",
        }
    }
}

/// The calls of a request in a few words.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many there were.
    pub calls: u64,
    /// The slowest that has ended.
    pub slowest: Option<Slowest>,
}

/// The calls of a request as sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The answers that were asked for, however many attempts each took.
    pub answers: u64,
    /// Calls to servers: every attempt.
    pub calls: u64,
    /// The bytes of the answers' bodies.
    pub bytes: u64,
}

/// The slowest call of a request.
#[derive(Clone, Debug)]
pub struct Slowest {
    /// The name of its upstream.
    pub upstream: Arc<str>,
    pub server: Option<Arc<str>>,
    /// How long it took.
    pub time: Duration,
}

impl CallRecord {
    /// How long it took; `None` while it runs.
    pub fn time(&self) -> Option<Duration> {
        Some(self.ended?.saturating_sub(self.began))
    }
}

impl Record {
    pub fn new(began: Instant) -> Self {
        Record { began, trace: None, cache: OnceLock::new(), calls: Mutex::default(), full: AtomicBool::new(false) }
    }

    /// The same of a request in this trace, which its calls continue.
    #[must_use]
    pub fn in_trace(self, trace: Trace) -> Self {
        Record { trace: Some(trace), ..self }
    }

    /// The trace of the request, if traces are made.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// How the cache nearest to the client served the request, if there is one.
    pub fn cache(&self) -> Option<CacheResult> {
        self.cache.get().copied()
    }

    pub fn set_cache(&self, result: CacheResult) {
        // Each is written once.
        let _ = self.cache.set(result);
    }

    /// About how many bytes it takes.
    pub fn weight(&self) -> usize {
        let calls = self.lock();
        calls.kept.iter().map(|call| size_of::<CallRecord>() + call.target.len()).sum()
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    /// The calls so far.
    pub fn calls(&self) -> Vec<CallRecord> {
        self.lock().kept.to_vec()
    }

    /// Looks at the calls so far, without a copy of them.
    pub fn look<T>(&self, look: impl FnOnce(&[CallRecord]) -> T) -> T {
        look(&self.lock().kept)
    }

    /// How many calls there were, kept or not.
    pub fn number(&self) -> u64 {
        self.lock().number
    }

    /// The memory that it takes, about.
    pub fn size(&self) -> usize {
        let calls = self.lock();
        let targets: usize = calls.kept.iter().map(|call| call.target.capacity()).sum();
        let more = if let CallRecords::Several(more) = &calls.kept { more.capacity() } else { 0 };
        size_of::<Self>() + more * size_of::<CallRecord>() + targets
    }

    /// How many there were, and the slowest.
    pub fn summary(&self) -> Summary {
        self.look_slowest(|calls, slowest| {
            let slowest = slowest.and_then(|call| {
                Some(Slowest { upstream: call.upstream.clone(), server: call.server.clone(), time: call.time()? })
            });
            Summary { calls, slowest }
        })
    }

    /// Looks at how many there were, and at the slowest that has ended.
    pub fn look_slowest<T>(&self, look: impl FnOnce(u64, Option<&CallRecord>) -> T) -> T {
        let calls = self.lock();
        let slowest = calls.kept.iter().max_by_key(|call| call.time());
        look(calls.number, slowest.filter(|call| call.ended.is_some()))
    }

    /// The calls as sums. Those that were not kept count as answers that took one call.
    pub fn totals(&self) -> Totals {
        let calls = self.lock();
        let more = calls.number - calls.kept.len() as u64;
        let mut totals = Totals { answers: more, calls: more, ..Totals::default() };
        for call in calls.kept.iter() {
            let spared = call.cache.is_some_and(CacheResult::is_spared);
            totals.answers += u64::from(call.attempt == 1);
            totals.calls += u64::from(!spared);
            totals.bytes += call.bytes;
        }
        totals
    }

    /// Time from the beginning of the request to `moment`.
    pub fn at(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.began)
    }

    /// Keeps a call, and returns its place; `None` if enough are kept.
    pub(crate) fn add(&self, call: CallRecord) -> Option<usize> {
        let mut calls = self.lock();
        calls.number += 1;
        let at = calls.kept.len();
        if at + 1 >= MOST {
            self.full.store(true, Ordering::Relaxed);
        }
        (at < MOST).then(|| {
            calls.kept.add(call);
            at
        })
    }

    /// Says more of a call that is kept.
    pub(crate) fn revise(&self, at: usize, change: impl FnOnce(&mut CallRecord)) {
        if let Some(call) = self.lock().kept.all_mut().get_mut(at) {
            change(call);
        }
    }

    fn lock(&self) -> MutexGuard<'_, RecordedCalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a call is noted, and as what.
#[derive(Clone)]
pub struct CallNote {
    pub record: Arc<Record>,
    pub step: Arc<CallingStep>,
    /// Which attempt it is, from 1.
    pub attempt: u16,
    /// How the upstream's cache served it.
    pub cache: Option<CacheResult>,
}

impl CallNote {
    /// For the first attempt of a call.
    pub fn new(record: &Arc<Record>, step: &Arc<CallingStep>) -> Self {
        CallNote { record: record.clone(), step: step.clone(), attempt: 1, cache: None }
    }

    /// A span for the call, if the request is in a trace. A call that is only counted has none of its own.
    pub(crate) fn span(&self) -> Option<(&Trace, u64)> {
        let trace = self.record.trace()?;
        Some((trace, if self.record.full.load(Ordering::Relaxed) { trace.own() } else { span_id() }))
    }

    /// Notes a call that begins at `began`, with the span that its server gets.
    pub(crate) fn begin(
        self,
        place: CallPlace<'_>,
        method: &Method,
        target: String,
        began: Instant,
        span: u64,
    ) -> CallEntry {
        let CallNote { record, step, attempt, cache } = self;
        let at = record.add(CallRecord {
            kind: place.kind,
            upstream: place.upstream.clone(),
            server: place.server.cloned(),
            method: method.clone(),
            target: step.hidden.shown(target),
            step,
            attempt,
            began: record.at(began),
            connected: None,
            opening: None,
            head: None,
            ended: None,
            reused: false,
            dropped: false,
            status: None,
            error: None,
            bytes: 0,
            cache,
            tls: place.tls,
            span,
        });
        CallEntry { record, at }
    }
}

/// Where a call goes.
pub(crate) struct CallPlace<'a> {
    pub(crate) kind: CallKind,
    pub(crate) upstream: &'a Arc<str>,
    /// `None` where the cache of the upstream answers.
    pub(crate) server: Option<&'a Arc<str>>,
    pub(crate) tls: bool,
}

/// A call in a record, while it runs.
pub(crate) struct CallEntry {
    record: Arc<Record>,
    /// `None` if it is only counted.
    at: Option<usize>,
}

impl CallEntry {
    /// Says more of the call; `change` is given the record to make times of moments.
    pub(crate) fn revise(&self, change: impl FnOnce(&mut CallRecord, &Record)) {
        if let Some(at) = self.at {
            self.record.revise(at, |call| change(call, &self.record));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request_record::*;

    fn note(record: &Arc<Record>) -> CallNote {
        CallNote::new(record, &Arc::new(CallingStep { index: 0, name: "request".into(), hidden: Hidden::default() }))
    }

    fn begin(record: &Arc<Record>, server: &str) -> CallEntry {
        let (upstream, server): (Arc<str>, Arc<str>) = ("shop".into(), server.into());
        let place = CallPlace { kind: CallKind::Http, upstream: &upstream, server: Some(&server), tls: false };
        note(record).begin(place, &Method::GET, "/items".to_owned(), Instant::now(), 0)
    }

    #[test]
    fn a_thousand_calls_are_kept_and_the_others_counted() {
        let record = Arc::new(Record::new(Instant::now()));
        for _ in 0..1_100 {
            let entry = begin(&record, "a:80");
            entry.revise(|call, _| call.bytes += 1);
        }
        assert_eq!((record.number(), record.summary().calls), (1_100, 1_100));
        let calls = record.calls();
        assert_eq!(calls.len(), 1_024);
        assert!(calls.iter().all(|call| call.bytes == 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_of_those_that_ended_is_named() {
        let record = Arc::new(Record::new(Instant::now()));
        assert!(record.summary().slowest.is_none());
        let entries = ["a:80", "b:80", "c:80"].map(|server| begin(&record, server));
        for (entry, after) in entries.iter().zip([10, 20]) {
            tokio::time::advance(Duration::from_millis(after)).await;
            let now = Instant::now();
            entry.revise(|call, record| call.ended = Some(record.at(now)));
        }
        let slowest = record.summary().slowest.expect("two have ended");
        assert_eq!((slowest.server.as_deref(), slowest.time), (Some("b:80"), Duration::from_millis(30)));
    }
}
