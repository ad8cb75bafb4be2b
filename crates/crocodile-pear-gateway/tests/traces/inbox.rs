//! The inbox of Streamflow, as one trace.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use crate::stage::Program;
use crate::stage::client::exchange;
use crate::stage::gateway::Gateway;
use crate::stage::logs::Folder;
use crate::traces::collector::{attribute, server, spans};

/// The example APIs of the demo, and where they are.
fn demo() -> (Program, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    command.args(["demo", "--listen", "127.0.0.1:0", "--upstreams", "127.0.0.1:0"]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = said.find(|line| line.contains("The gateway is at")).unwrap();
    std::thread::spawn(move || said.for_each(drop));
    let address = line.rsplit("http://").next().unwrap().split([',', ' ']).next().unwrap();
    (Program(child), address.trim_end_matches('.').parse().unwrap())
}

/// 1 list, 156 cases, 156 of what is general, and once the levels that 60 of them share.
const CALLS: usize = 314;

#[test]
fn the_inbox_is_one_trace_of_its_request_its_steps_and_its_calls() {
    let (_demo, apis) = demo();
    let (collector, asked) = server(&[200]);
    let folder = Folder::new("inbox");
    let inbox = "
      - request: streamflow /cases/inbox
      - each: { in: '.cases[]', limit: 500 }
      - follow: { link: .href, as: case }
      - follow: { link: '.case.resources[] | select(.rel == \"general\").href', as: general }
      - follow: { link: .general.priority.href, as: levels }
      - concatenate: { as: json, body_only: true, order: arrival }";
    std::fs::write(
        folder.path("gateway.yaml"),
        format!(
            "listen: 127.0.0.1:0\nthreads: 1\ntraces: {{ to: 'http://{collector}', sample: 100% }}\n\
             upstreams: {{ streamflow: 'http://{apis}/streamflow/api' }}\n\
             endpoints:\n  GET /inbox:\n    pipeline:{inbox}\n"
        ),
    )
    .unwrap();
    let gateway = Gateway::run(folder.path("gateway.yaml"));
    let answer = exchange(gateway.address, b"GET /inbox HTTP/1.1\r\nhost: shop.test\r\nconnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The request, four steps that make calls, and their calls.
    let spans = spans(&asked, 1 + 4 + CALLS);
    assert_eq!(spans.len(), 1 + 4 + CALLS);
    let of = |kind: SpanKind| spans.iter().filter(move |span| span.kind == kind as i32).collect::<Vec<_>>();
    let (servers, steps, clients) = (of(SpanKind::Server), of(SpanKind::Internal), of(SpanKind::Client));
    assert_eq!((servers.len(), steps.len(), clients.len()), (1, 4, CALLS));
    let root = servers[0];
    assert_eq!((root.name.as_str(), root.parent_span_id.len()), ("GET /inbox", 0));
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/inbox"),
        ("http.route", "GET /inbox"),
        ("http.response.status_code", "200"),
        ("server.address", "shop.test"),
        ("client.address", "127.0.0.1"),
    ] {
        assert_eq!(attribute(root, name).as_deref(), Some(value), "{name}");
    }
    let by_id: HashMap<_, _> = spans.iter().map(|span| (span.span_id.clone(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "each has an id of its own");
    for span in &spans {
        assert_eq!((span.trace_id.len(), &span.trace_id), (16, &root.trace_id));
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        assert!(
            span.start_time_unix_nano >= root.start_time_unix_nano
                && span.end_time_unix_nano <= root.end_time_unix_nano
        );
        assert!(span.status.is_none(), "{span:?}");
    }
    assert!(steps.iter().all(|step| step.parent_span_id == root.span_id));
    let mut calls: HashMap<&str, usize> = HashMap::new();
    for call in &clients {
        let step = by_id[&call.parent_span_id];
        assert_eq!(step.kind, SpanKind::Internal as i32, "no orphan, and none beside its step");
        *calls.entry(&step.name).or_default() += 1;
        assert_eq!(call.name, "GET streamflow");
        let url = attribute(call, "url.full").unwrap();
        assert!(url.starts_with(&format!("http://{apis}/streamflow/api/")), "{url}");
        assert_eq!(attribute(call, "server.port").unwrap(), apis.port().to_string());
        let events: Vec<_> = call.events.iter().map(|event| event.name.as_str()).collect();
        assert!(events.ends_with(&["connected", "head"]), "{events:?}");
    }
    assert_eq!(calls["request"], 1, "{calls:?}");
    assert_eq!(calls.values().sum::<usize>(), CALLS);
}
