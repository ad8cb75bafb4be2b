//! A collector that keeps what it is sent, and an upstream that says what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::stage::PATIENCE;

/// A request as a server has read it.
pub struct Asked {
    pub line: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A server that answers each request with the next of these statuses, and the last one again and again; with none, never.
pub fn server(statuses: &'static [u16]) -> (SocketAddr, Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, asked) = channel();
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            thread::spawn(move || serve(connection, &sender, statuses));
        }
    });
    (address, asked)
}

fn serve(connection: TcpStream, sender: &Sender<Asked>, statuses: &[u16]) -> Option<()> {
    let mut writer = connection.try_clone().ok()?;
    let mut reader = BufReader::new(connection);
    for at in 0.. {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut fields = Vec::new();
        loop {
            let mut field = String::new();
            reader.read_line(&mut field).ok()?;
            let Some((name, value)) = field.trim_end().split_once(": ") else { break };
            fields.push((name.to_lowercase(), value.to_owned()));
        }
        let mut asked = Asked { line: line.trim_end().to_owned(), fields, body: Vec::new() };
        let length = asked.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        asked.body = vec![0; length];
        reader.read_exact(&mut asked.body).ok()?;
        sender.send(asked).ok()?;
        match statuses.get(at).or(statuses.last()) {
            // In one write: several would wait for each other's acknowledgements.
            Some(status) => {
                let answer = format!("HTTP/1.1 {status} Said\r\ncontent-length: 2\r\n\r\n{{}}");
                writer.write_all(answer.as_bytes()).ok()?;
            }
            // It is held, and not answered.
            None => drop(reader.read(&mut [0])),
        }
    }
    Some(())
}

/// So many spans that the collector is sent.
pub fn spans(asked: &Receiver<Asked>, count: usize) -> Vec<Span> {
    let mut spans = Vec::new();
    while spans.len() < count {
        let asked = asked.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{} of {count} spans", spans.len()));
        assert_eq!(asked.line, "POST /v1/traces HTTP/1.1");
        assert_eq!(asked.field("content-type"), Some("application/x-protobuf"));
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
