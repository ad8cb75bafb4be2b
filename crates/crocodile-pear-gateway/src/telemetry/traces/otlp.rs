//! Spans as OTLP has them (opentelemetry-proto 1.x), in Protocol Buffers. The few messages of a trace are written by hand: the
//! crate of the messages brings the whole SDK.

use bytes::Bytes;
use crocodile_pear::unstable::runtime::hex;

/// A span, ready to be sent.
#[derive(Debug)]
pub struct Span {
    /// Its trace, in hexadecimal digits.
    pub trace: String,
    pub id: u64,
    /// Within which span it is.
    pub parent: Option<u64>,
    /// `tracestate`
    pub state: String,
    /// The W3C flags, and whether the parent is elsewhere.
    pub flags: u32,
    /// Its name, of which there are few.
    pub name: String,
    pub kind: SpanKind,
    /// In nanoseconds since 1970.
    pub began: u64,
    /// Likewise.
    pub ended: u64,
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// Events within the span, with their moments.
    pub events: Vec<(&'static str, u64)>,
    /// Whether it failed.
    pub failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within the gateway.
    Internal = 1,
    /// A request of a client.
    Server = 2,
    /// A call to a server.
    Client = 3,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    Text(String),
    /// Whole.
    Integer(u64),
    Truth(bool),
}

/// `ExportTraceServiceRequest` with these spans, of this service.
pub fn request(service: &str, spans: &[Span]) -> Bytes {
    let mut whole = Message::default();
    whole.message(1, |resource_spans| {
        resource_spans.message(1, |resource| {
            let version = env!("CARGO_PKG_VERSION");
            for (name, value) in [("service.name", service), ("service.version", version)] {
                resource.attribute(1, name, &AttributeValue::Text(value.to_owned()));
            }
        });
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.bytes(1, b"crocodile-pear");
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            spans.iter().for_each(|span| scope_spans.message(2, |message| span.write(message)));
        });
    });
    whole.0.into()
}

impl Span {
    fn write(&self, message: &mut Message) {
        message.bytes(1, &hex::array::<16>(self.trace.as_bytes()).unwrap_or_default());
        message.bytes(2, &self.id.to_be_bytes());
        message.bytes(3, self.state.as_bytes());
        if let Some(parent) = self.parent {
            message.bytes(4, &parent.to_be_bytes());
        }
        message.bytes(5, self.name.as_bytes());
        message.number(6, self.kind as u64);
        message.fixed64(7, self.began);
        message.fixed64(8, self.ended);
        self.attributes.iter().for_each(|(name, value)| message.attribute(9, name, value));
        for (name, at) in &self.events {
            message.message(11, |event| {
                event.fixed64(1, *at);
                event.bytes(2, name.as_bytes());
            });
        }
        if self.failed {
            // STATUS_CODE_ERROR
            message.message(15, |status| status.number(3, 2));
        }
        message.key(16, 5);
        message.0.extend_from_slice(&self.flags.to_le_bytes());
    }
}

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn key(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.key(field, 0);
        self.varint(number);
    }

    fn fixed64(&mut self, field: u64, number: u64) {
        self.key(field, 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.key(field, 2);
        self.varint(inner.0.len() as u64);
        self.0.append(&mut inner.0);
    }

    /// `KeyValue` with an `AnyValue`.
    fn attribute(&mut self, field: u64, name: &str, value: &AttributeValue) {
        self.message(field, |pair| {
            pair.bytes(1, name.as_bytes());
            pair.message(2, |any| match value {
                AttributeValue::Text(text) => {
                    any.key(1, 2);
                    any.varint(text.len() as u64);
                    any.0.extend_from_slice(text.as_bytes());
                }
                AttributeValue::Truth(truth) => any.number(2, u64::from(*truth)),
                AttributeValue::Integer(number) => any.number(3, *number),
            });
        });
    }
}
