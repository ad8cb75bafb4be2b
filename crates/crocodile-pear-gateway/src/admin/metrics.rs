//! `/metrics`: what is counted, in the format that the scraper takes.

use std::io::Write;

use bytes::Bytes;
use crocodile_pear::unstable::http::list;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::offload;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, VARY};
use http::{HeaderMap, Response};

use crate::gateway::Gateway;
use crate::observe::log;
use crate::telemetry::metrics::exposition::{Exposition, ExpositionFormat};
use crate::telemetry::metrics::{cache, consumers, databases};
use crate::telemetry::traces::SpanCounters;

pub fn show(gateway: &Gateway, headers: &HeaderMap) -> Response<AnswerBody> {
    let format = ExpositionFormat::choose(field(headers, &ACCEPT));
    let text = write(gateway, format);
    let zipped = if list::takes(field(headers, &ACCEPT_ENCODING), "gzip") { zip(text.as_bytes()) } else { None };
    let mut response = Response::new(AnswerBody::empty());
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(format.media()));
    fields.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    if zipped.is_some() {
        fields.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    *response.body_mut() = AnswerBody::Bytes(Bytes::from(zipped.unwrap_or_else(|| text.into_bytes())));
    response
}

/// All metrics of a gateway, as text.
fn write(gateway: &Gateway, format: ExpositionFormat) -> String {
    let mut out = Exposition::new(format);
    gateway.metrics().render(gateway.upstreams(), &mut out);
    databases::render(gateway.databases(), &mut out);
    cache::render(gateway.cache(), &mut out);
    cache::render_shared(&gateway.persistent().purge_log.counters, &mut out);
    consumers::render(&gateway.persistent().analytics.consumers(), &mut out);
    write_memory(&owners(gateway), &mut out);
    write_lost_lines(gateway.persistent().journals.dropped(), log::dropped(), &mut out);
    write_spans(&gateway.persistent().spans, &mut out);
    out.end()
}

/// The bytes by owner.
fn owners(gateway: &Gateway) -> [(&'static str, u64); 6] {
    let persistent = gateway.persistent();
    [
        ("cache", gateway.cache().counters().bytes),
        ("history", persistent.history.weight() as u64),
        ("analytics", persistent.analytics.weight() as u64),
        ("traces", persistent.spans.waiting() as u64),
        ("access_log", persistent.journals.weight() as u64),
        ("thread_pool", offload::taken()),
    ]
}

fn field<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn zip(text: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 16), Compression::fast());
    encoder.write_all(text).ok()?;
    encoder.finish().ok()
}

/// Writes the memory by owner, as far as it is counted where it is taken, and long work, which waits for memory and threads.
fn write_memory(owners: &[(&'static str, u64)], out: &mut Exposition) {
    const HELP: &str = "Memory in use, by purpose. Buffers of current requests are not counted.";
    let mut family = out.gauge("crocodile_pear_memory_bytes", HELP);
    for (owner, bytes) in owners {
        family.add(format_args!("owner=\"{owner}\""), bytes);
    }
    const WAITING: &str = "Large documents that wait for a helper thread.";
    out.gauge("crocodile_pear_thread_pool_waiting", WAITING).only(offload::waiting());
    const WAITED: &str = "Time that large documents waited for a helper thread.";
    out.histogram("crocodile_pear_thread_pool_wait_duration_seconds", WAITED).all(&offload::waits());
}

/// Writes the lines that were lost. `access` are lines of the access log, `log` those of the log itself.
fn write_lost_lines(access: u64, log: u64, out: &mut Exposition) {
    const ACCESS: &str =
        "Access log lines that were not written: too many at once, or the destination did not accept them.";
    const LOG: &str = "Log lines that were not written: too many at once, or nobody read the standard error stream.";
    out.counter("crocodile_pear_access_log_dropped_total", ACCESS).only(access);
    out.counter("crocodile_pear_log_dropped_total", LOG).only(log);
}

/// Writes the spans that were sent and lost.
fn write_spans(counters: &SpanCounters, out: &mut Exposition) {
    const SENT: &str = "Spans that the collector of `traces` has accepted.";
    const DROPPED: &str = "Spans that were not sent: too many at once, or the collector was unavailable for too long.";
    out.counter("crocodile_pear_trace_spans_sent_total", SENT).only(counters.sent());
    out.counter("crocodile_pear_trace_spans_dropped_total", DROPPED).only(counters.dropped());
}
