//! What the latest calls say of the servers that they went to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::record::CallRecord;
use http::StatusCode;
use serde_json::{Value, json};

use super::{ago, rounded};
use crate::history::{History, Served};

/// The most requests and calls that one snapshot reads, so that it takes less than a millisecond.
const REQUESTS: usize = 512;
const CALLS: usize = 4_096;

/// The latest calls by upstream and server.
pub struct Seen(HashMap<(Arc<str>, Arc<str>), Times>);

/// The latest calls to one server.
#[derive(Default)]
pub struct Times {
    /// Milliseconds of those that were answered.
    answered: Vec<f64>,
    /// How many failed, by status or by error.
    pub failed: usize,
    last: Option<(Duration, Value)>,
}

impl Seen {
    /// Reads them.
    pub fn of(history: &History) -> Self {
        let mut seen = Seen(HashMap::new());
        let mut left = CALLS;
        // Failed ones are kept longer: a server that fails seldom is named all the same.
        for (served, late) in latest(history) {
            let calls = served.record.as_ref().map(|record| record.calls()).unwrap_or_default();
            if left == 0 {
                break;
            }
            left = left.saturating_sub(calls.len());
            calls.iter().for_each(|call| seen.count(history, &served, call, late));
        }
        seen.0.values_mut().for_each(|times| times.answered.sort_by(f64::total_cmp));
        seen
    }

    fn count(&mut self, history: &History, served: &Served, call: &CallRecord, late: bool) {
        let Some(server) = &call.server else { return };
        let times = self.0.entry((call.upstream.clone(), server.clone())).or_default();
        let failure = call.error.map(|kind| kind.name().to_owned());
        let failure = failure.or_else(|| call.status.filter(StatusCode::is_server_error).map(|s| s.to_string()));
        if let Some(what) = failure {
            times.failed += usize::from(late);
            if times.last.as_ref().is_none_or(|(at, _)| *at < served.at) {
                let told = json!({ "what": what, "ago": ago(history, served.at), "id": &*served.id });
                times.last = Some((served.at, told));
            }
        }
        if let Some(head) = call.head.filter(|_| late) {
            times.answered.push(head.saturating_sub(call.began).as_secs_f64() * 1e3);
        }
    }

    /// Those to a server.
    pub fn server(&self, upstream: &Arc<str>, address: &Arc<str>) -> Option<&Times> {
        self.0.get(&(upstream.clone(), address.clone()))
    }
}

/// The latest requests, and then the failed ones that are older.
fn latest(history: &History) -> impl Iterator<Item = (Arc<Served>, bool)> {
    let recent = history.recent(None, REQUESTS);
    let oldest = recent.last().map_or(Duration::MAX, |served| served.at);
    let failed = history.failed(None, REQUESTS).into_iter().filter(move |served| served.at < oldest);
    recent.into_iter().map(|served| (served, true)).chain(failed.map(|served| (served, false)))
}

impl Times {
    /// How many were looked at.
    pub fn count(&self) -> usize {
        self.answered.len()
    }

    /// Time to the head within which this share was answered.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let at = (self.answered.len() as f64 * share) as usize;
        self.answered.get(at.min(self.answered.len().saturating_sub(1))).copied().map(rounded)
    }

    /// The latest failure.
    pub fn last_failure(&self) -> Option<Value> {
        self.last.as_ref().map(|(_, told)| told.clone())
    }
}
