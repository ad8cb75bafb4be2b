//! The latest failure of each server, from the requests that are kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::telemetry::request_record::CallRecord;
use http::StatusCode;
use serde_json::{Value, json};

use super::number::ago;
use crate::telemetry::recent::{History, ServedRequest};

/// The most requests and calls that one snapshot reads, so that it takes less than a millisecond.
const REQUESTS: usize = 512;
const CALLS: usize = 4_096;

/// The latest failure by upstream and server: when, and what is told of it.
pub struct LatestFailures(HashMap<(Arc<str>, Arc<str>), (Duration, Value)>);

impl LatestFailures {
    pub fn from_history(history: &History) -> Self {
        let mut seen = LatestFailures(HashMap::new());
        let mut left = CALLS;
        for served in latest(history) {
            if left == 0 {
                break;
            }
            let Some(record) = &served.record else { continue };
            record.look(|calls| {
                left = left.saturating_sub(calls.len());
                calls.iter().for_each(|call| seen.note(history, &served, call));
            });
        }
        seen
    }

    fn note(&mut self, history: &History, served: &ServedRequest, call: &CallRecord) {
        let Some(server) = &call.server else { return };
        let failure = call.error.map(|kind| kind.name().to_owned());
        let failure = failure.or_else(|| call.status.filter(StatusCode::is_server_error).map(|s| s.to_string()));
        let Some(what) = failure else { return };
        let (at, place) = (served.at, (call.upstream.clone(), server.clone()));
        if self.0.get(&place).is_none_or(|(known, _)| *known < at) {
            let told = json!({ "what": what, "ago": ago(history, at), "id": &*served.id });
            self.0.insert(place, (at, told));
        }
    }

    /// That of a server.
    pub fn last_failure(&self, upstream: &Arc<str>, address: &Arc<str>) -> Option<Value> {
        self.0.get(&(upstream.clone(), address.clone())).map(|(_, told)| told.clone())
    }
}

/// The latest requests, and then the failed ones that are older: those are kept longer, so that a server that fails seldom is named
/// all the same.
fn latest(history: &History) -> impl Iterator<Item = Arc<ServedRequest>> {
    let recent = history.recent(None, REQUESTS);
    let oldest = recent.last().map_or(Duration::MAX, |served| served.at);
    let failed = history.failed(None, REQUESTS).into_iter().filter(move |served| served.at < oldest);
    recent.into_iter().chain(failed)
}
