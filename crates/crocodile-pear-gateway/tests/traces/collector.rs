//! A collector that keeps what it is sent, and an upstream that says what it was asked.

use std::io::{BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::stage::PATIENCE;
use crate::stage::accept::Accepting;
use crate::stage::shop::{Asked, answer};

/// A server that answers each request of a connection with the next of these statuses, and the last one again and again; with none,
/// never.
pub fn server(statuses: &'static [u16]) -> (SocketAddr, Receiver<Asked>) {
    let (sender, asked) = channel();
    let accepting = Accepting::begin(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone()?);
        for at in 0.. {
            let Some(asked) = Asked::read(&mut reader)? else { break };
            let Ok(()) = sender.send(asked) else { break };
            match statuses.get(at).or(statuses.last()) {
                Some(status) => stream.write_all(&answer(*status, "", "{}"))?,
                // It is held, and not answered.
                None => drop(reader.read(&mut [0])),
            }
        }
        Ok(())
    });
    (accepting.address, asked)
}

/// So many spans that the collector is sent.
pub fn spans(asked: &Receiver<Asked>, count: usize) -> Vec<Span> {
    let mut spans = Vec::new();
    while spans.len() < count {
        let asked = asked.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{} of {count} spans", spans.len()));
        assert_eq!(asked.call(), "POST /v1/traces");
        assert_eq!(asked.field("content-type"), "application/x-protobuf");
        spans.extend(decode(&asked));
    }
    spans
}

/// The spans of one request to the collector.
pub fn decode(asked: &Asked) -> Vec<Span> {
    let request = ExportTraceServiceRequest::decode(asked.body.as_slice()).expect("well formed");
    let [resource] = &request.resource_spans[..] else { panic!("one resource") };
    let service = &resource.resource.as_ref().unwrap().attributes[0];
    assert_eq!(service.key, "service.name");
    resource.scope_spans.iter().flat_map(|scope| scope.spans.clone()).collect()
}

/// An attribute, as text.
pub fn attribute(span: &Span, name: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == name)?;
    Some(match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(truth) => truth.to_string(),
        other => panic!("{other:?}"),
    })
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
