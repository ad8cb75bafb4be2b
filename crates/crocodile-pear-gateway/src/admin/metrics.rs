//! `/metrics`: what is counted, in the format that the scraper takes.

use std::io::Write;

use bytes::Bytes;
use crocodile_pear::unstable::http::list;
use crocodile_pear::unstable::message::body::Body;
use crocodile_pear::unstable::offload;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, VARY};
use http::{HeaderMap, Response};

use crate::gateway::Gateway;
use crate::observe::log;
use crate::telemetry::metrics::exposition::{Exposition, Format};
use crate::telemetry::metrics::{access, cache, consumers, databases, memory, traces};

pub fn show(gateway: &Gateway, headers: &HeaderMap) -> Response<Body> {
    let format = Format::choose(field(headers, &ACCEPT));
    let text = write(gateway, format);
    let zipped = if list::takes(field(headers, &ACCEPT_ENCODING), "gzip") { zip(text.as_bytes()) } else { None };
    let mut response = Response::new(Body::empty());
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(format.media()));
    fields.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    if zipped.is_some() {
        fields.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    *response.body_mut() = Body::Bytes(Bytes::from(zipped.unwrap_or_else(|| text.into_bytes())));
    response
}

/// All metrics of a gateway, as text.
fn write(gateway: &Gateway, format: Format) -> String {
    let mut out = Exposition::new(format);
    gateway.metrics().render(gateway.upstreams(), &mut out);
    databases::render(gateway.databases(), &mut out);
    cache::render(gateway.cache(), &mut out);
    cache::render_shared(&gateway.lasting().ledger.counters, &mut out);
    consumers::render(&gateway.lasting().analytics.consumers(), &mut out);
    memory::render(&owners(gateway), &mut out);
    access::render(gateway.lasting().journals.dropped(), log::dropped(), &mut out);
    traces::render(&gateway.lasting().spans, &mut out);
    out.end()
}

/// The bytes by owner.
fn owners(gateway: &Gateway) -> [(&'static str, u64); 6] {
    let lasting = gateway.lasting();
    [
        ("cache", gateway.cache().counters().bytes),
        ("history", lasting.history.weight() as u64),
        ("analytics", lasting.analytics.weight() as u64),
        ("traces", lasting.spans.waiting() as u64),
        ("access_log", lasting.journals.weight() as u64),
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
