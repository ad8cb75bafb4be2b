//! The cost of a request: one, or the value of an expression over the request or its finished answer.

use crocodile_pear::unstable::config::spec::ExpressionSpec;
use crocodile_pear::unstable::format::sse::EventReader;
use crocodile_pear::unstable::http::media_type::{essence, is_events};
use crocodile_pear::unstable::jq::{self, Filter, Value};
use crocodile_pear::unstable::json::{self, value::as_object};
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::allowance::whole;
use crate::layer::Compile;

/// The variable with the status of the answer.
const STATUS: &str = "status";

pub enum Cost {
    Before(Filter, LogLimiter),
    /// Known from its answer, when that has ended.
    After(Filter, LogLimiter),
}

impl Cost {
    /// Compiles what is written. An expression that reads `.` or `$status` is about the answer.
    pub fn compile(written: &ExpressionSpec, cx: &mut Compile<'_>) -> Option<Self> {
        let filter = cx.of_answer(written, &[STATUS])?;
        let after = filter.reads_item() || filter.uses().iter().any(|name| name == STATUS);
        let failures = LogLimiter::default();
        Some(if after { Cost::After(filter, failures) } else { Cost::Before(filter, failures) })
    }

    /// Whether the answer has to end first.
    pub fn is_after(&self) -> bool {
        matches!(self, Cost::After(..))
    }

    /// The units for a request, before its answer. One if the expression gives no number.
    pub fn of_request(&self, scope: &Scope) -> u64 {
        match self {
            Cost::After(..) => 0,
            Cost::Before(filter, failures) => {
                let cost = filter.run_one(jq::null(), &mut |name| scope.variable(name, &None));
                units(cost.map_err(Into::into), failures).unwrap_or(1)
            }
        }
    }

    /// The units for an answer with this body; nothing if the expression gives no number.
    pub fn of_answer(&self, scope: &Scope, status: StatusCode, item: Value) -> Option<u64> {
        let (Cost::After(filter, failures) | Cost::Before(filter, failures)) = self;
        let variable = &mut |name: &str| match name {
            STATUS => Value::from(usize::from(status.as_u16())),
            name => scope.variable(name, &None),
        };
        units(filter.run_one(item, variable).map_err(Into::into), failures)
    }
}

fn units(found: Result<Option<Value>, crocodile_pear::unstable::error::Error>, failures: &LogLimiter) -> Option<u64> {
    match found {
        Ok(value) => whole(&value?),
        Err(error) => {
            if failures.allows() {
                tracing::warn!(%error, "`cost` of a limit failed; such a request costs one");
            }
            None
        }
    }
}

/// How the body of an answer is read for its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostReading {
    /// Whole.
    Document,
    /// Server-sent events: each alone, from the last.
    Events,
    /// JSON of one line each, from the last.
    Lines,
}

impl CostReading {
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let media = headers.get(http::header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        match essence(media).to_ascii_lowercase().as_slice() {
            _ if is_events(media) => CostReading::Events,
            b"application/x-ndjson" | b"application/ndjson" | b"application/jsonl" | b"application/json-seq" => {
                CostReading::Lines
            }
            _ => CostReading::Document,
        }
    }
}

/// The values of which the last one that has a cost counts; `cut`: the bytes begin within one.
pub fn parts(reading: CostReading, bytes: &[u8], cut: bool) -> Vec<Value> {
    match reading {
        CostReading::Document => json::read(&bytes.to_vec().into()).into_iter().collect(),
        CostReading::Lines => {
            let lines = bytes.split(|byte| *byte == b'\n').skip(usize::from(cut));
            let read = |line: &[u8]| json::read(&line.trim_ascii().to_vec().into()).ok();
            lines.filter_map(read).collect()
        }
        CostReading::Events => {
            let mut events = EventReader::new(usize::MAX);
            // What is cut off at the begin is no event, or one without the beginning of its data, which is no JSON.
            let begin =
                if cut { bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1) } else { 0 };
            // A stream may end without the empty line behind its last event.
            events.push([&bytes[begin..], b"\n\n"].concat().into());
            let mut parts = Vec::new();
            while let Ok(Some(event)) = events.next() {
                let data = json::read(&event)
                    .ok()
                    .and_then(|event| as_object(&event).and_then(|fields| fields.get(&jq::string("data")).cloned()));
                parts.extend(data);
            }
            parts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cost::*;

    fn texts(reading: CostReading, text: &str, cut: bool) -> Vec<String> {
        parts(reading, text.as_bytes(), cut).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_parts_of_a_stream_are_read_one_by_one() {
        let events = "data: {\"n\":1}\n\nevent: x\ndata: {\"usage\":\ndata: {\"t\":9}}\n\ndata: [DONE]\n\n";
        assert_eq!(texts(CostReading::Events, events, false), ["{\"n\":1}", "{\"usage\":{\"t\":9}}", "\"[DONE]\""]);
        // Of an event that is cut, nothing is left that could be taken for a number.
        assert_eq!(texts(CostReading::Events, "\":1}\n\ndata: {\"n\":2}", true), ["{\"n\":2}"]);
        assert_eq!(texts(CostReading::Lines, "{\"n\":1}\n\n{\"n\":2}\n", false), ["{\"n\":1}", "{\"n\":2}"]);
        assert_eq!(texts(CostReading::Lines, "1}\n{\"n\":2}", true), ["{\"n\":2}"]);
        assert_eq!(texts(CostReading::Document, "{\"n\":1", false), [""; 0]);
    }
}
