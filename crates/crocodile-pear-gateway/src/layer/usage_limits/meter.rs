//! Reads the cost of an answer while it passes, and charges it when the answer has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::jq::{self, Value};
use crocodile_pear::unstable::message::answer::Answer;
use crocodile_pear::unstable::message::body::{AnswerBody, PulledBody};
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::{format, json, offload};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Response, StatusCode};
use http_body::{Frame, SizeHint};

use super::charge::{Charge, Charges};
use super::cost::{CostReading, parts};

/// The most bytes of an answer that are kept to read its cost.
const MOST: usize = 16 << 20;

/// The most bytes of the end of a stream.
const END: usize = 64 << 10;

/// The bytes that are read at once, without a helper thread.
const SMALL: usize = 128 << 10;

/// Charges what an answer costs, when it has ended.
pub fn meter(response: &mut Response<AnswerBody>, scope: &Arc<Scope>, charges: Charges) {
    let answer = MeteredAnswer {
        scope: scope.clone(),
        status: response.status(),
        kept: CostSample::from_headers(response.headers()),
    };
    let mut meter = CostMeter { answer: Some(answer), charges };
    let body = std::mem::replace(response.body_mut(), AnswerBody::empty());
    *response.body_mut() = match body {
        AnswerBody::Pulled(body) => AnswerBody::Pulled(Box::pin(Metered { body, meter })),
        body => {
            match &body {
                AnswerBody::Bytes(bytes) => meter.note(bytes),
                AnswerBody::Value(value) => meter.note(&json::to_bytes(value).unwrap_or_default()),
                AnswerBody::Json(raw) => meter.note(raw.bytes()),
                AnswerBody::Pulled(_) | AnswerBody::Tunnel(_) => {}
            }
            meter.end(Completion::Whole);
            body
        }
    };
}

/// How an answer ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Completion {
    Whole,
    Early,
}

/// The part of an answer that says its cost.
struct CostSample {
    reading: CostReading,
    /// The head of a body in a content coding.
    coded: Option<HeaderMap>,
    bytes: BytesMut,
    /// Whether bytes are missing: of a stream those at its begin, otherwise all.
    cut: bool,
    /// How many events or lines have passed.
    parts: u64,
    /// Whether the current line is empty so far.
    blank: bool,
}

impl CostSample {
    fn from_headers(headers: &HeaderMap) -> Self {
        let coded = headers.contains_key(CONTENT_ENCODING).then(|| headers.clone());
        let (reading, bytes) = (CostReading::from_headers(headers), BytesMut::new());
        CostSample { reading, coded, bytes, cut: false, parts: 0, blank: true }
    }

    fn note(&mut self, piece: &[u8]) {
        if self.coded.is_some() || self.reading == CostReading::Document {
            self.cut |= self.bytes.len() + piece.len() > MOST;
            match self.cut {
                true => self.bytes = BytesMut::new(),
                false => self.bytes.extend_from_slice(piece),
            }
            return;
        }
        self.count(piece);
        let end = &piece[piece.len().saturating_sub(END)..];
        self.cut |= end.len() < piece.len();
        if self.bytes.len() + end.len() > 2 * END {
            drop(self.bytes.split_to(self.bytes.len().saturating_sub(END - end.len())));
            self.cut = true;
        }
        self.bytes.extend_from_slice(end);
    }

    /// Counts the events or lines that end in this piece.
    fn count(&mut self, piece: &[u8]) {
        for byte in piece {
            match byte {
                b'\n' => {
                    // An event ends with an empty line.
                    let ends = if self.reading == CostReading::Events { self.blank } else { !self.blank };
                    self.parts += u64::from(ends);
                    self.blank = true;
                }
                b'\r' => {}
                _ => self.blank = false,
            }
        }
    }
}

/// An answer, and what is kept of it.
struct MeteredAnswer {
    scope: Arc<Scope>,
    status: StatusCode,
    kept: CostSample,
}

impl MeteredAnswer {
    /// The units of a charge. An answer that does not say its cost costs one, or one for each of its events.
    fn units(&self, charge: &Charge, parts: &[Value]) -> u64 {
        let cost = |item: &Value| charge.cost(&self.scope, self.status, item.clone());
        parts.iter().rev().find_map(cost).unwrap_or(self.kept.parts.max(1))
    }

    /// The units of all charges, in order.
    fn all_units(&self, charges: &Charges) -> Vec<u64> {
        let missing = self.kept.cut && self.kept.reading == CostReading::Document;
        let mut parts = if missing { Vec::new() } else { parts(self.kept.reading, &self.kept.bytes, self.kept.cut) };
        if parts.is_empty() {
            // The status may say it.
            parts.push(jq::null());
        }
        charges.iter().map(|charge| self.units(charge, &parts)).collect()
    }

    /// The same after the body is decoded, and beside other requests where that takes long.
    async fn settle_later(mut self, charges: Charges) {
        if let Some(headers) = self.kept.coded.take() {
            let answer = Answer::new(self.status, headers, AnswerBody::Bytes(self.kept.bytes.split().freeze()));
            let plain = match format::plain(answer) {
                Ok(answer) if !self.kept.cut => answer.body.collect(MOST).await.ok(),
                _ => None,
            };
            self.kept.cut = plain.is_none();
            self.kept.count(plain.as_deref().unwrap_or_default());
            self.kept.bytes = plain.unwrap_or_default().into();
        }
        let weight = self.kept.bytes.len();
        let (answer, shared) = (Arc::new(self), charges.clone());
        // Without a helper thread the cost is not known: a charge that is dropped is one.
        if let Ok(units) = offload::run(weight, move || Ok(answer.all_units(&shared))).await {
            charges.settle(&units);
        }
    }
}

struct CostMeter {
    /// `None` when it has ended.
    answer: Option<MeteredAnswer>,
    charges: Charges,
}

impl CostMeter {
    fn note(&mut self, piece: &[u8]) {
        if let Some(answer) = &mut self.answer {
            answer.kept.note(piece);
        }
    }

    fn end(&mut self, ended: Completion) {
        let Some(mut answer) = self.answer.take() else { return };
        // A part of a document is none.
        if ended == Completion::Early && answer.kept.reading == CostReading::Document {
            answer.kept.cut = true;
        }
        let charges = self.charges.clone();
        if answer.kept.coded.is_none() && answer.kept.bytes.len() <= SMALL {
            return charges.settle(&answer.all_units(&charges));
        }
        drop(tokio::spawn(answer.settle_later(charges)));
    }
}

/// The body of an answer that is metered.
struct Metered {
    body: PulledBody,
    meter: CostMeter,
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.meter.end(Completion::Early);
    }
}

impl http_body::Body for Metered {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(self.body.as_mut().poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                frame.data_ref().into_iter().for_each(|piece| self.meter.note(piece));
                if self.body.is_end_stream() {
                    self.meter.end(Completion::Whole);
                }
            }
            Some(Err(_)) => self.meter.end(Completion::Early),
            None => self.meter.end(Completion::Whole),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::super::meter::*;

    #[test]
    fn of_a_stream_its_end_is_kept() {
        let headers = |media: &'static str| {
            HeaderMap::from_iter([(http::header::CONTENT_TYPE, http::HeaderValue::from_static(media))])
        };
        let mut kept = CostSample::from_headers(&headers("text/event-stream"));
        for number in 0..100_000 {
            kept.note(format!("data: {{\"n\":{number}}}\r\n\r\n").as_bytes());
        }
        assert!(kept.cut && kept.bytes.len() <= 2 * END && kept.bytes.len() >= END / 2, "{}", kept.bytes.len());
        assert_eq!(kept.parts, 100_000);
        let parts = parts(kept.reading, &kept.bytes, kept.cut);
        assert_eq!(parts.last().map(ToString::to_string).as_deref(), Some("{\"n\":99999}"));
        kept.note(&vec![b'x'; 10 * END]);
        assert_eq!(kept.bytes.len(), END);
    }
}
